// Strangers at the doors of workers that train: floods, half-open and dripping clients, random bytes.
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm_harness.h"
#include "gossamer/dist/greeting.h"

namespace gossamer::dist::testing {
namespace {

int dial(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  (void)!connect(s, reinterpret_cast<sockaddr*>(&a), sizeof a);
  return s;
}

// Some of each kind at a time, until told to end.
void besiege(int port, const std::atomic<bool>& end) {
  std::mt19937 random(5);
  std::vector<int> open;
  for (int i = 0; !end; ++i) {
    const int s = dial(port);
    if (s < 0) continue;
    open.push_back(s);
    std::vector<std::uint8_t> bytes(random() % 200);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    switch (i % 4) {
      case 0: break;                                                                                   // half-open: silent
      case 1: (void)!::send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL); break;                        // random bytes
      case 2:
        for (const int other : open) (void)!::send(other, "x", 1, MSG_NOSIGNAL);                        // one byte now and then
        break;
      default: close(s), open.pop_back(); break;                                                       // a scan
    }
    if (open.size() < 150) continue;
    for (const int old : open) close(old);
    open.clear();
  }
  for (const int s : open) close(s);
}

TEST(Door, ASiegeStallsNobodyAndLetsWorkersIn) {
  std::vector<int> ports(3), doors(3);
  for (std::size_t r = 0; r < 3; ++r) doors[r] = listener(&ports[r]);
  std::atomic<bool> end{false};
  std::atomic<int> reports{0}, met{0}, rounds{0};
  JoinOptions o = quick();
  o.on_refused = [&](const std::string& text) {
    if (text.find("turned away") != std::string::npos && text.find("127.0.0.1") != std::string::npos) ++reports;
  };
  std::vector<std::thread> siege;
  for (int i = 0; i < 3; ++i) siege.emplace_back([&, i] { besiege(ports[static_cast<std::size_t>(i)], end); });
  const auto info = [&](int r) {
    LaunchInfo place_of = place(r, 3, ports[0]);
    place_of.listener = dup(doors[static_cast<std::size_t>(r)]);
    return place_of;
  };
  std::vector<std::thread> workers;
  for (int r = 0; r < 3; ++r)
    workers.emplace_back([&, r] {
      try {
        const auto g = process_group(info(r), o);           // they meet in the middle of it
        ++met;
        std::vector<float> v(1000, 1);
        for (int i = 0; i < 60; ++i) {
          g->collectives().all_reduce_sum(std::span<float>(v));
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (r == 0) ++rounds;
        }
        if (r == 2) return;                                 // leaves, and comes back below
        for (bool back = false; !back;) {
          const Event e = g->control().next(Seconds(20));
          if (e.kind == Event::Kind::none) fail("worker 2 did not come back");
          if (e.kind == Event::Kind::dead && e.why != "left") fail("worker ", e.peer, " was given up: ", e.why);
          back = e.kind == Event::Kind::joined;
        }
        g->rebuild({0, 1, 2}, 0);
        g->collectives().barrier();
      } catch (const std::exception& e) {
        ADD_FAILURE() << r << ": " << e.what();
      }
    });
  workers[2].join();
  try {
    LaunchInfo again = info(2);
    again.rejoin = true;
    const auto g = process_group(again, o);
    g->rebuild({0, 1, 2}, 0);
    g->collectives().barrier();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rejoining: " << e.what();
  }
  workers[0].join();
  workers[1].join();
  end = true;
  for (auto& t : siege) t.join();
  for (const int d : doors) close(d);
  EXPECT_EQ(met, 3);
  EXPECT_EQ(rounds, 60);
  EXPECT_GT(reports, 0);
}

}  // namespace
}  // namespace gossamer::dist::testing
