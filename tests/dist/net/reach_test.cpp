// Workers that can call others and that nobody can call: behind NAT, or a firewall.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dist/net/harness.h"
#include "dist/over.h"

namespace gossamer::dist::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Say = std::function<void(const std::string&)>;

JoinOptions over_tcp(const char* tls = "auto") {
  JoinOptions o = quick();
  o.read_memory = false;
  o.tls = tls;
  o.dead_after_s = 1.5;
  o.collective_timeout_s = 20;
  return o;
}

// One exchange with each of the others, all at once, and a sum over all. A member that is gone
// again for a moment, on a loaded machine, is waited for.
void work_with_all(Group& g, std::uint64_t session) {
  std::vector<int> all(static_cast<std::size_t>(g.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> send(100'000, static_cast<float>(g.rank()));
  std::vector<std::vector<float>> receive(all.size(), std::vector<float>(send.size(), -1));
  std::set<int> left(all.begin(), all.end());
  left.erase(g.rank());
  for (const int r : left)
    g.payload().exchange(r, session, over(send), over(receive[static_cast<std::size_t>(r)]), {},
                         Seconds(20));
  while (!left.empty()) {
    const Event e = g.control().next(Seconds(25));
    if (e.kind == Event::Kind::none) throw DistError("an exchange hangs");
    if (e.kind != Event::Kind::exchanged) continue;
    if (!e.ok || receive[static_cast<std::size_t>(e.peer)].back() != static_cast<float>(e.peer))
      throw DistError("the exchange with " + std::to_string(e.peer) + " failed: " + e.why);
    left.erase(e.peer);
  }
  for (const double until = now_s() + 60;;) try {
      g.rebuild(all, 0);
      std::vector<double> ranks{static_cast<double>(g.rank())};
      g.collectives().all_reduce_sum(ranks);
      EXPECT_EQ(ranks[0], g.size() * (g.size() - 1) / 2);
      g.collectives().barrier();
      return;
    } catch (const DistError&) {
      if (now_s() > until) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

// A door on an address of this machine by which the others do not know this worker.
int unreachable_door() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  inet_pton(AF_INET, "127.77.0.1", &at.sin_addr);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(listen(fd, 64), 0);
  return fd;
}

// Four workers, of which nobody can call those of `behind`. What each of them ends with.
std::vector<std::string> meet(const std::set<int>& behind, const JoinOptions& options,
                              const std::string& host = "127.0.0.1") {
  std::vector<std::string> errors(4);
  const int port = free_port();
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      LaunchInfo info = place(r, 4, port);
      info.host = host;
      if (behind.contains(r)) info.listener = unreachable_door();
      try {
        const auto g = process_group(info, options);
        work_with_all(*g, 7);
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return errors;
}

// The higher rank calls as a rule. Of worker 1 the others can wait for its call only; also for sums
// and exchanges, whose connections are made in the same direction.
TEST(Reach, WhoCannotBeCalledCalls) {
  for (const char* tls : {"off", "on"}) {
    EXPECT_THAT(meet({1}, over_tcp(tls)), Each("")) << "tls " << tls;
    EXPECT_THAT(meet({3}, over_tcp(tls)), Each("")) << "tls " << tls;
  }
}

TEST(Reach, WorkersMeetOverIPv6) {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  at.sin6_addr = in6addr_loopback;
  const bool has_it = bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  close(fd);
  if (!has_it) GTEST_SKIP() << "this machine has no IPv6";
  for (const char* tls : {"off", "on"})
    EXPECT_THAT(meet({}, over_tcp(tls), "::1"), Each("")) << "tls " << tls;
}

// All are told, also those who have met everybody: nobody begins without the others.
TEST(Reach, TwoThatCannotCallEachOtherAreNamedAndNobodyBegins) {
  JoinOptions options = over_tcp();
  options.connect_timeout_s = 5;
  const auto errors = meet({1, 2}, options);
  EXPECT_THAT(errors[0], AnyOf(HasSubstr("worker 1: workers did not meet"),
                               HasSubstr("worker 2: workers did not meet")));
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("cannot reach worker "),
                                 HasSubstr("of two workers one must have an address"))));
}

TEST(Reach, WhoComesLaterMustMeetAllThatLive) {
  const int port = free_port();
  std::atomic<bool> over = false;
  std::vector<std::string> errors(2);
  std::vector<std::thread> founders;
  for (int r = 0; r < 2; ++r)
    founders.emplace_back([&, r] {
      LaunchInfo info = place(r, 2, port);
      info.places = 4;
      if (r == 1) info.listener = unreachable_door();
      try {
        const auto g = process_group(info, over_tcp());
        while (!over) (void)g->control().next(Seconds(.05));
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  LaunchInfo with;
  with.token = kToken;
  const auto entry = [&] {
    return enter(with, {host_and_port("127.0.0.1", port)}, over_tcp()).place;
  };
  {
    const auto joined = process_group(entry(), over_tcp());  // worker 1 calls it
    EXPECT_EQ(joined->alive().size(), 3u);
  }
  LaunchInfo behind = entry();
  behind.listener = unreachable_door();
  try {
    (void)process_group(behind, over_tcp());
    ADD_FAILURE() << "it was let in";
  } catch (const DistError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("this worker and worker 1 cannot reach each other: of two workers one"));
  }
  over = true;
  for (auto& t : founders) t.join();
  EXPECT_THAT(errors, Each(""));
}

// Works with all at the start, and whenever somebody was gone and all are back.
void behind_nat(const LaunchInfo& info, const Say& say) {
  const auto g = process_group(info, over_tcp());
  std::set<int> away;
  for (int r = 0; info.rejoin && r < info.size; ++r)
    if (r != info.rank && !g->control().alive(r)) away.insert(r);
  // The same at all: a worker that was started again begins with the second.
  for (std::uint64_t round = info.rejoin ? 1 : 0; round < 3; ++round) {
    bool wait = round > 0 && !(info.rejoin && round == 1 && away.empty());
    for (const double until = now_s() + 60; wait;) {
      if (now_s() > until) throw DistError("not all came back");
      const Event e = g->control().next(Seconds(0.2));
      if (e.kind == Event::Kind::dead) away.insert(e.peer), say("missed " + std::to_string(e.peer));
      if (e.kind == Event::Kind::joined) wait = away.erase(e.peer) == 0 || !away.empty();
    }
    work_with_all(*g, 100 + round);
    say("worked");
  }
}
const RegisterRole role("behind_nat", behind_nat);

// A network of one host, and one of another behind a router that translates addresses and lets
// nobody in who was not called: network namespaces.
class BehindNat {
 public:
  BehindNat() {
    const std::string id = "gn" + std::to_string(getpid());
    outside = id + "o", router_ = id + "r", inside = id + "i";
    remove();  // of a run with this id that was killed
    for (const std::string* n : {&outside, &router_, &inside})
      made = made && run("ip netns add " + *n) && run("ip -n " + *n + " link set lo up");
    const auto cable = [&](const std::string& host, const std::string& net) {
      const std::string at = "ip -n " + host + " ", to = "ip -n " + router_ + " ";
      made = made && run(at + "link add c type veth peer name " + net + " netns " + router_) &&
             run(at + "addr add 10.78." + net.substr(1) + ".1/24 dev c") &&
             run(at + "link set c up") &&
             run(to + "addr add 10.78." + net.substr(1) + ".254/24 dev " + net) &&
             run(to + "link set " + net + " up");
    };
    cable(outside, "n0");
    cable(inside, "n1");
    const std::string in_router = "ip netns exec " + router_ + " ";
    made = made && run("ip -n " + inside + " route add default via 10.78.1.254") &&
           run(in_router + "sysctl -qw net.ipv4.ip_forward=1") &&
           run(in_router +
               "nft 'table ip t { chain out { type nat hook postrouting priority 100; "
               "oifname n0 masquerade; }; chain in { type filter hook input priority 0; "
               "iifname n0 tcp flags syn drop; }; }'");
  }
  ~BehindNat() { remove(); }
  bool cable(bool up) { return run("ip -n " + inside + " link set c " + (up ? "up" : "down")); }
  // The kernel forgets routes with the card.
  bool mend() {
    return cable(true) && run("ip -n " + inside + " route replace default via 10.78.1.254");
  }

  std::string outside, inside;
  bool made = true;

 private:
  static bool run(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }
  void remove() {
    for (const std::string* n : {&outside, &router_, &inside}) run("ip netns del " + *n);
  }
  std::string router_;
};

// Reads what a worker says until all of these have come.
void hear(Worker& w, std::set<std::string> lines) {
  while (!lines.empty()) {
    const std::string line = w.line(60);
    ASSERT_NE(line, "") << "it says no more, and not: " << *lines.begin();
    lines.erase(line);
  }
}

TEST(Reach, AWorkerBehindNatTakesPartComesBackAndMeetsWhoWasStartedAgain) {
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces are for root";
  BehindNat net;
  if (!net.made) GTEST_SKIP() << "this machine makes no network with NAT (ip netns, nft)";
  std::vector<std::unique_ptr<Worker>> workers;
  const auto start = [&](int r, bool again) {
    LaunchInfo info = place(r, 3, 29556);
    info.host = "10.78.0.1";
    info.local = false;
    info.rejoin = again;
    return std::make_unique<Worker>("behind_nat", info, r == 1 ? net.inside : net.outside);
  };
  for (int r = 0; r < 3; ++r) workers.push_back(start(r, false));
  for (auto& w : workers) hear(*w, {"worked"});
  // Worker 2 can't call 1: not at first, nor when it was started again.
  workers[2]->signal(SIGKILL);
  workers[2]->wait();
  for (int r = 0; r < 2; ++r) hear(*workers[static_cast<std::size_t>(r)], {"missed 2"});
  workers[2] = start(2, true);
  for (auto& w : workers) hear(*w, {"worked"});
  ASSERT_TRUE(net.cable(false));
  hear(*workers[0], {"missed 1"});
  hear(*workers[1], {"missed 0", "missed 2"});
  hear(*workers[2], {"missed 1"});
  ASSERT_TRUE(net.mend());
  for (auto& w : workers) hear(*w, {"worked"});
  for (auto& w : workers) EXPECT_EQ(w->wait(), 0);
}

}  // namespace
}  // namespace gossamer::dist::testing
