// Strangers at the doors of workers that train: floods, half-open and dripping clients, random
// bytes. And strangers who are called.
#include "gossamer/dist/net/door.h"

#include <asio/read.hpp>
#include <asio/write.hpp>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/greeting.h"

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
      // half-open: silent
      case 0:
        break;
      // random bytes
      case 1:
        (void)!::send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        break;
      case 2:
        // one byte now and then
        for (const int other : open) (void)!::send(other, "x", 1, MSG_NOSIGNAL);
        break;
      // a scan
      default:
        close(s), open.pop_back();
        break;
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
    if (text.find("turned away") != std::string::npos &&
        text.find("127.0.0.1") != std::string::npos)
      ++reports;
  };
  std::vector<std::thread> siege;
  for (int i = 0; i < 3; ++i)
    siege.emplace_back([&, i] { besiege(ports[static_cast<std::size_t>(i)], end); });
  const auto info = [&](int r) {
    LaunchInfo place_of = place(r, 3, ports[0]);
    place_of.listener = dup(doors[static_cast<std::size_t>(r)]);
    return place_of;
  };
  std::vector<std::thread> workers;
  for (int r = 0; r < 3; ++r)
    workers.emplace_back([&, r] {
      try {
        const auto g = process_group(info(r), o);  // they meet in the middle of it
        ++met;
        std::vector<float> v(1000, 1);
        for (int i = 0; i < 60; ++i) {
          g->collectives().all_reduce_sum(over(v));
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          if (r == 0) ++rounds;
        }
        if (r == 2) return;  // leaves, and comes back below
        for (bool back = false; !back;) {
          const Event e = g->control().next(Seconds(20));
          if (e.kind == Event::Kind::none) fail("worker 2 did not come back");
          if (e.kind == Event::Kind::dead && e.why != "left")
            fail("worker ", e.peer, " was given up: ", e.why);
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
    // It begins when it has called both once. A call that the siege pushed out is made again.
    while (g->alive().size() < 3)
      check(g->control().next(Seconds(20)).kind != Event::Kind::none, "a worker did not answer");
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

using asio::ip::tcp;

// A stranger without the token, who has a worker's door answer for him.
class Relay {
 public:
  Relay(asio::io_context& io, std::uint16_t door)
      : io_(io),
        to_(asio::ip::address_v4::loopback(), door),
        listens_(io, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  tcp::endpoint where() const { return listens_.local_endpoint(); }

 private:
  struct Pipe {
    explicit Pipe(asio::io_context& io) : caller(io), door(io) {}
    tcp::socket caller, door;
    char there[256], back[256];
  };
  void accept() {
    auto p = std::make_shared<Pipe>(io_);
    listens_.async_accept(p->caller, [this, p](const asio::error_code& error) {
      if (error) return;
      asio::error_code failed;
      p->door.connect(to_, failed);
      pass(p, p->caller, p->door, p->there);
      pass(p, p->door, p->caller, p->back);
      accept();
    });
  }
  static void pass(const std::shared_ptr<Pipe>& p, tcp::socket& from, tcp::socket& to,
                   char (&buffer)[256]) {
    from.async_read_some(asio::buffer(buffer),
                         [p, &from, &to, &buffer](const asio::error_code& error, std::size_t got) {
                           asio::error_code failed = error;
                           if (!failed) asio::write(to, asio::buffer(buffer, got), failed);
                           if (!failed) return pass(p, from, to, buffer);
                           to.close(failed);
                         });
  }
  asio::io_context& io_;
  const tcp::endpoint to_;
  tcp::acceptor listens_;
};

TEST(Door, AnswersForNobodyElse) {
  asio::io_context io;
  const Credentials credentials{wire::make_token("secret"), nullptr};
  const auto door = std::make_shared<Door>(io, 3, credentials, nullptr);
  int arrived = 0;
  door->receive([&](const wire::Frame&, const std::shared_ptr<Connection>& link, std::uint64_t) {
    wire::Frame welcome;
    welcome.kind = wire::Kind::welcome;
    welcome.rank = 3;
    welcome.life = 1;
    link->write(welcome);
    ++arrived;
  });
  door->open({asio::ip::address_v4::loopback(), 0});
  Relay relay(io, door->port());
  const tcp::endpoint direct(asio::ip::address_v4::loopback(), door->port());
  // Who of the caller's job is there, as the caller believes; -1: nobody.
  const auto call = [&](const tcp::endpoint& where, std::uint32_t caller, std::uint32_t called) {
    wire::Frame hello;
    hello.kind = wire::Kind::hello;
    hello.rank = caller;
    hello.world = 4;
    hello.life = 7;
    std::optional<Answer> answer;
    const auto dial = Dial::start(io, where, called, {}, credentials, hello,
                                  std::chrono::seconds(20), [&](const Answer& a) { answer = a; });
    io.restart();
    while (!answer && io.run_one() > 0) {
    }
    if (answer && answer->link) answer->link->close();
    return answer && answer->kind == Answer::Kind::frame ? static_cast<int>(answer->frame.rank)
                                                         : -1;
  };
  EXPECT_EQ(call(direct, 2, 3), 3);
  EXPECT_EQ(call(direct, 2, greeting::kAnyone), 3);
  EXPECT_EQ(call(relay.where(), 2, 3), 3) << "passed on unchanged: the door itself";
  EXPECT_EQ(arrived, 3);
  EXPECT_EQ(call(relay.where(), 2, 1), -1)
      << "the stranger listens where worker 1 did, and lets worker 3 answer";
  EXPECT_EQ(call(relay.where(), 3, 1), -1) << "he lets the caller itself answer";
  EXPECT_EQ(arrived, 3) << "and is nobody at that door";
  EXPECT_EQ(call(relay.where(), 3, greeting::kAnyone), -1);
  door->close();
}

// A worker far away needs several round trips, and a flood does not push it out meanwhile.
TEST(Door, AFloodFromOneAddressTakesNoPlaceOfAnother) {
  asio::io_context io;
  const wire::Token token = wire::make_token("secret");
  const auto door = std::make_shared<Door>(io, 3, Credentials{token, nullptr}, nullptr);
  int arrived = 0;
  door->receive(
      [&](const wire::Frame&, const std::shared_ptr<Connection>&, std::uint64_t) { ++arrived; });
  door->open({asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint where(asio::ip::address_v4::loopback(), door->port());
  tcp::socket slow(io);
  slow.connect(where);
  greeting::Nonce challenge{};
  bool challenged = false;
  asio::async_read(slow, asio::buffer(challenge),
                   [&](const asio::error_code& error, std::size_t) { challenged = !error; });
  while (!challenged) ASSERT_GT(io.run_one(), 0u);
  std::vector<tcp::socket> flood;
  for (int i = 0; i < 300; ++i) {
    flood.emplace_back(io, tcp::endpoint(asio::ip::make_address("127.0.0.2"), 0));
    flood.back().connect(where);
  }
  while (door->refused() < 237) ASSERT_GT(io.run_one(), 0u);  // all, but for 63 places
  EXPECT_EQ(door->last_refused(), "127.0.0.2");
  wire::Frame hello;
  hello.kind = wire::Kind::hello;
  hello.rank = 2;
  hello.world = 4;
  hello.life = 7;
  asio::write(slow, asio::buffer(greeting::hello(greeting::bound(token, {}), challenge, hello,
                                                 greeting::fresh(), 3)));
  while (arrived == 0) ASSERT_GT(io.run_one(), 0u);
  door->close();
}

}  // namespace
}  // namespace gossamer::dist::testing
