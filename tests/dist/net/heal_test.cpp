// Workers that come back: thawed, started again, or with a mended cable.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <unistd.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "dist/workers.h"

namespace gossamer::dist::testing {
namespace {

using Say = std::function<void(const std::string&)>;

JoinOptions healing() {
  JoinOptions o = quick();
  o.dead_after_s = 1.5;
  o.collective_timeout_s = 20;
  return o;
}

// Reports deaths and returns. When somebody has come and all are there: an exchange with a
// neighbour, and a sum over all.
void heal(const LaunchInfo& info, const Say& say) {
  const auto g = process_group(info, healing());
  say("ready");
  const double until = now_s() + 60;
  bool came = false;
  std::set<int> away;
  for (int r = 0; info.rejoin && r < info.size; ++r)
    if (r != info.rank) away.insert(r);
  while (!came || !away.empty()) {
    if (now_s() > until) throw DistError("not all came back");
    const Event e = g->control().next(Seconds(0.2));
    if (e.kind == Event::Kind::dead) away.insert(e.peer), say("dead " + std::to_string(e.peer));
    if (e.kind == Event::Kind::joined)
      came = true, away.erase(e.peer), say("joined " + std::to_string(e.peer));
  }
  say("all here");
  const int peer = g->rank() ^ 1;
  std::vector<float> send(100000, static_cast<float>(g->rank())), receive(100000, -1);
  g->payload().exchange(peer, 77, over(send), over(receive), {}, Seconds(20));
  for (;;) {
    const Event e = g->control().next(Seconds(25));
    if (e.kind == Event::Kind::none) throw DistError("the exchange hangs");
    if (e.kind != Event::Kind::exchanged) continue;
    if (!e.ok || receive.back() != static_cast<float>(peer))
      throw DistError("the exchange failed: " + e.why);
    break;
  }
  // On a loaded machine somebody may be gone again for a moment.
  std::vector<int> all(static_cast<std::size_t>(info.size));
  std::iota(all.begin(), all.end(), 0);
  double ones = 0, ranks = 0;
  for (bool met = false; !met;) {
    try {
      g->rebuild(all, 0);
      std::vector<double> v{1.0, static_cast<double>(g->rank())};
      g->collectives().all_reduce_sum(v);
      g->collectives().barrier();
      ones = v[0], ranks = v[1];
      met = true;
    } catch (const DistError&) {
      if (now_s() > until) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  say("sum " + std::to_string(static_cast<int>(ones)) + " " +
      std::to_string(static_cast<int>(ranks)));
}
const RegisterRole r1("heal", heal);

// Trains until another worker is gone, and 20 steps more.
template <int kMethod>
void together(const LaunchInfo& info, const Say& say) {
  const char* const name = std::array{"allreduce", "dpsgd", "local-sgd"}[kMethod];
  const auto g = process_group(info, healing());
  Quadratic q(info.rank, 8);
  MethodOptions options;
  options.settings.set("period", 2);
  options.settings = options.settings.only(method_settings(name));
  std::atomic<bool> dead = false;
  options.on_fault = [&](const std::string& what, int peer) {
    say(what + " " + std::to_string(peer)), dead = true;
  };
  auto method = make_method(name, q.params, q.sgd, *g, make_graph("ring", info.size), options);
  say("ready");
  for (int left = 20; left > 0; left -= dead ? 1 : 0) {
    q.gradient();
    method->step(.05);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  method->finish();
  say("finished with " + std::to_string(method->stats().alive));
}
const RegisterRole r2("together0", together<0>), r3("together1", together<1>),
    r4("together2", together<2>);

// Rank 1 finishes soon, the others train until they miss it.
void early(const LaunchInfo& info, const Say& say) {
  const auto g = process_group(info, healing());
  Quadratic q(info.rank, 8);
  MethodOptions options;
  std::atomic<bool> dead = false;
  options.on_fault = [&](const std::string& what, int) { dead = dead || what == "dead"; };
  auto method = make_method("a2cid2", q.params, q.sgd, *g, make_graph("ring", info.size), options);
  for (int left = 20; left > 0; left -= dead || info.rank == 1 ? 1 : 0) {
    q.gradient();
    method->step(.05);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  say("ends");
  method->finish();
  say("finished with " + std::to_string(method->stats().alive));
}
const RegisterRole r5("early", early);

// What a worker says up to "all here": "dead 1 joined 1 …" (its own order kept).
std::string until_all_here(Worker& w) {
  std::string text;
  for (std::string line = w.line(60); line != "all here"; line = w.line(60)) {
    if (line.empty()) return text + " …nothing more";
    text += (text.empty() ? "" : ", ") + line;
  }
  return text;
}

TEST(Heal, AThawedWorkerComesBackByItself) {
  const int port = free_port();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 4; ++r)
    workers.push_back(std::make_unique<Worker>("heal", place(r, 4, port)));
  for (auto& w : workers) ASSERT_EQ(w->line(), "ready");
  const std::size_t frozen = 2;  // dials 0 and 1, is dialed by 3
  workers[frozen]->signal(SIGSTOP);
  for (std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(workers[r]->line(), "dead 2");
  workers[frozen]->signal(SIGCONT);
  for (std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(until_all_here(*workers[r]), "joined 2");
  const std::string own = until_all_here(*workers[frozen]);
  // All may be here again before it has found out that the last of them had given it up.
  EXPECT_NE(own.find("dead"), std::string::npos) << own;
  for (const std::string peer : {"0", "1", "3"})
    if (own.find("dead " + peer) != std::string::npos)
      EXPECT_NE(own.find("joined " + peer), std::string::npos) << own;
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(60), "sum 4 6") << r;
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "done");
  }
}

// Where workers step together the others are ahead of it for good: it is told, and does not end
// with a model of its own as if all were well.
TEST(Heal, AThawedWorkerOfThoseThatStepTogetherIsOut) {
  for (const int method : {0, 1, 2})
    for (const int frozen : {0, 1}) {
      SCOPED_TRACE(std::to_string(method) + " " + std::to_string(frozen));
      const int port = free_port();
      std::vector<std::unique_ptr<Worker>> workers;
      for (int r = 0; r < 2; ++r)
        workers.push_back(
            std::make_unique<Worker>("together" + std::to_string(method), place(r, 2, port)));
      for (auto& w : workers) ASSERT_EQ(w->line(), "ready");
      Worker &f = *workers[static_cast<std::size_t>(frozen)],
             &other = *workers[static_cast<std::size_t>(1 - frozen)];
      f.signal(SIGSTOP);
      EXPECT_EQ(other.line(60), "dead " + std::to_string(frozen));
      f.signal(SIGCONT);
      EXPECT_EQ(other.line(60), "finished with 1");
      EXPECT_EQ(other.line(60), "done");
      std::string line = f.line(60);
      if (line == "dead " + std::to_string(1 - frozen)) line = f.line(60);
      EXPECT_THAT(line, ::testing::HasSubstr("worker " + std::to_string(1 - frozen) +
                                             " has given this worker up; the others go on"));
    }
}

// Its model is not that of the others, who have ended.
TEST(Heal, AWorkerThatWasFrozenAtTheEndIsTold) {
  const int port = free_port();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 3; ++r)
    workers.push_back(std::make_unique<Worker>("early", place(r, 3, port)));
  ASSERT_EQ(workers[1]->line(60), "ends");
  workers[1]->signal(SIGSTOP);
  for (const std::size_t r : {0u, 2u})
    for (const char* line : {"ends", "finished with 2", "done"})
      EXPECT_EQ(workers[r]->line(60), line) << r;
  workers[1]->signal(SIGCONT);
  EXPECT_THAT(workers[1]->line(60), ::testing::HasSubstr("has given this worker up at the end"));
}

// Which worker dies makes a difference: who dials whom, and whether the one that all know at the
// start is the one that is gone.
TEST(Heal, AWorkerThatWasKilledAndStartedAgainRejoins) {
  for (int victim : {0, 2, 3}) {
    std::vector<int> ports(4), doors(4);
    for (std::size_t r = 0; r < 4; ++r) doors[r] = listener(&ports[r]);
    std::vector<std::unique_ptr<Worker>> workers;
    for (int r = 0; r < 4; ++r) {
      LaunchInfo info = place(r, 4, ports[0]);
      info.listener = doors[static_cast<std::size_t>(r)];
      workers.push_back(std::make_unique<Worker>("heal", info));
    }
    for (auto& w : workers) ASSERT_EQ(w->line(), "ready");
    auto& dead = workers[static_cast<std::size_t>(victim)];
    dead->signal(SIGKILL);
    dead->wait();
    for (int r = 0; r < 4; ++r)
      if (r != victim)
        EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "dead " + std::to_string(victim));
    LaunchInfo again = place(victim, 4, ports[0]);
    again.rejoin = true;
    // the launcher's socket, with calls of others waiting in it; or a new one
    if (victim == 3) again.listener = doors[3];
    // the dead one's door is among them, where nobody answers
    for (int r = 0; r < 4; ++r)
      again.seeds.push_back("127.0.0.1:" +
                            std::to_string(ports[static_cast<std::size_t>((victim + r) % 4)]));
    dead = std::make_unique<Worker>("heal", again);
    EXPECT_EQ(dead->line(), "ready");
    for (int r = 0; r < 4; ++r) {
      const std::string told = until_all_here(*workers[static_cast<std::size_t>(r)]);
      if (r != victim) EXPECT_EQ(told, "joined " + std::to_string(victim));
    }
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(60), "sum 4 6") << r << " of " << victim;
    for (int d : doors) close(d);
  }
}

// Neither can tell the other where the rest is; and each learns of the other's new door only from
// one of the rest, who has met it.
TEST(Heal, TwoThatWereStartedAgainAtOnceFindEachOther) {
  for (const bool ask_each_other : {true, false}) {
    std::vector<int> ports(4), doors(4);
    for (std::size_t r = 0; r < 4; ++r) doors[r] = listener(&ports[r]);
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::size_t r = 0; r < 4; ++r) {
      LaunchInfo info = place(static_cast<int>(r), 4, ports[0]);
      info.listener = doors[r];
      workers.push_back(std::make_unique<Worker>("heal", info));
    }
    for (auto& w : workers) ASSERT_EQ(w->line(), "ready");
    for (const std::size_t r : {0u, 1u}) {
      workers[r]->signal(SIGKILL);
      workers[r]->wait();
      close(doors[r]);
      doors[r] = listener(&ports[r]);
    }
    for (const std::size_t r : {0u, 1u}) {
      LaunchInfo again = place(static_cast<int>(r), 4, ports[0]);
      again.rejoin = true;
      again.listener = doors[r];
      for (const std::size_t seed : {1 - r, r + 2, 3 - r})
        if (ask_each_other || seed != 1 - r)
          again.seeds.push_back("127.0.0.1:" + std::to_string(ports[seed]));
      workers[r] = std::make_unique<Worker>("heal", again);
    }
    for (auto& w : workers) until_all_here(*w);
    for (auto& w : workers) EXPECT_EQ(w->line(60), "sum 4 6");
    for (int d : doors) close(d);
  }
}

TEST(Heal, ASecondProcessOfTheSameRankIsRefusedUnlessItRejoinsAndThenTheFirstIsOut) {
  const int port = free_port();
  std::atomic<int> joined{0};
  std::atomic<bool> replaced{false};
  std::vector<std::thread> threads;
  std::string first, second;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      const auto g = process_group(place(r, 3, port), healing());
      joined += 1;
      try {
        // The first learns that it is out some time after the second is in.
        for (const double until = now_s() + 30; r == 1 ? now_s() < until : !replaced;)
          (void)g->control().next(Seconds(0.05));
        if (r == 1) first = "still in";
      } catch (const DistError& e) {
        if (r == 1)
          first = e.what();
        else
          ADD_FAILURE() << r << ": " << e.what();
      }
    });
  while (joined < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  LaunchInfo info = place(1, 3, port);
  try {
    (void)process_group(info, healing());
  } catch (const DistError& e) {
    second = e.what();
  }
  EXPECT_NE(second.find("GOSSAMER_REJOIN=1, or in C with `restarted`"), std::string::npos)
      << second;
  info.rejoin = true;
  {
    const auto g = process_group(info, healing());
    EXPECT_EQ(g->alive(), (std::vector<int>{0, 1, 2}));
    EXPECT_THROW(g->collectives().barrier(), DistError) << "until it is rebuilt";
    threads[1].join();
    replaced = true;
  }
  for (const std::size_t r : {0u, 2u}) threads[r].join();
  EXPECT_NE(first.find("another process was started as worker 1"), std::string::npos) << first;
}

TEST(Heal, WhoFindsNobodyToRejoinSaysWhomItAsked) {
  LaunchInfo info = place(1, 3, free_port());
  info.rejoin = true;
  info.seeds = {"127.0.0.1:" + std::to_string(free_port())};
  JoinOptions o = healing();
  o.connect_timeout_s = 0.5;
  try {
    (void)process_group(info, o);
    ADD_FAILURE();
  } catch (const DistError& e) {
    EXPECT_NE(std::string(e.what()).find(info.seeds[0]), std::string::npos) << e.what();
  }
}

// The other of two is silent for good, as behind a dead cable: after alone_after_s it is this one
// that must be cut off.
TEST(Heal, WhoIsCutOffFromAllForLongIsTold) {
  const int port = free_port();
  Worker other("heal", place(1, 2, port));
  JoinOptions o = healing();
  o.alone_after_s = 0.5;
  const auto g = process_group(place(0, 2, port), o);
  ASSERT_EQ(other.line(), "ready");
  other.signal(SIGSTOP);
  bool dead = false;
  std::string told;
  try {
    for (const double until = now_s() + 60; now_s() < until;)
      dead |= g->control().next(Seconds(0.1)).kind == Event::Kind::dead;
  } catch (const DistError& e) {
    told = e.what();
  }
  EXPECT_TRUE(dead);
  EXPECT_NE(told.find("cut off from all others for "), std::string::npos) << told;
  EXPECT_THROW(g->collectives().barrier(), DistError);
}

// All others have ended, or are known to be dead: who is left is alone, but not cut off.
TEST(Heal, WhoIsLeftBecauseTheOthersEndedIsNotCutOff) {
  const int port = free_port();
  JoinOptions o = healing();
  o.alone_after_s = 0.2;
  Worker killed("heal", place(1, 3, port));
  std::thread leaves([&] { (void)process_group(place(2, 3, port), healing()); });
  const auto g = process_group(place(0, 3, port), o);
  leaves.join();
  ASSERT_EQ(killed.line(), "ready");
  killed.signal(SIGKILL);
  int dead = 0;
  for (const double until = now_s() + 30; dead < 2 && now_s() < until;)
    dead += g->control().next(Seconds(0.1)).kind == Event::Kind::dead;
  EXPECT_EQ(dead, 2);
  for (const double until = now_s() + 1.5; now_s() < until;)
    EXPECT_NO_THROW((void)g->control().next(Seconds(0.1)));
}

// Two hosts with two workers each: network namespaces, joined by a pair of virtual cards.
class TwoHosts {
 public:
  TwoHosts() {
    const std::string pid = std::to_string(getpid());
    for (const char* side : {"a", "b"}) names.push_back("gsm" + pid + side);
    const std::string cards = "gv" + pid;
    for (const auto& n : names) run("netns del " + n);  // of a run with this id that was killed
    ok = run("netns add " + names[0]) && run("netns add " + names[1]) &&
         run("link add " + cards + "a netns " + names[0] + " type veth peer name " + cards +
             "b netns " + names[1]);
    for (int i = 0; ok && i < 2; ++i) {
      const std::string in = "-n " + names[static_cast<std::size_t>(i)] + " ",
                        card = cards + (i == 0 ? "a" : "b");
      ok = run(in + "addr add 10.77.0." + std::to_string(i + 1) + "/24 dev " + card) &&
           run(in + "link set " + card + " up") && run(in + "link set lo up");
    }
    card_ = cards + "a";
  }
  ~TwoHosts() {
    for (const auto& n : names) run("netns del " + n);
  }
  bool cable(bool up) {
    return run("-n " + names[0] + " link set " + card_ + (up ? " up" : " down"));
  }
  static bool run(const std::string& arguments) {
    return std::system(("ip " + arguments + " 2>/dev/null").c_str()) == 0;
  }

  std::vector<std::string> names;
  bool ok = false;

 private:
  std::string card_;
};

TEST(Heal, ACutBetweenTwoHostsLosesNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces are for root";
  TwoHosts hosts;
  if (!hosts.ok) GTEST_SKIP() << "this machine makes no network namespaces (ip netns)";
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < 4; ++r) {
    LaunchInfo info = place(r, 4, 29555);
    info.host = "10.77.0.1";
    info.local = false;
    workers.push_back(
        std::make_unique<Worker>("heal", info, hosts.names[static_cast<std::size_t>(r / 2)]));
  }
  for (auto& w : workers) ASSERT_EQ(w->line(), "ready");
  ASSERT_TRUE(hosts.cable(false));
  for (auto& w : workers)
    // the two on the other side, and nobody else
    for (int i = 0; i < 2; ++i) EXPECT_EQ(w->line().rfind("dead ", 0), 0u);
  ASSERT_TRUE(hosts.cable(true));
  const double healed = now_s();
  for (int r = 0; r < 4; ++r) {
    const std::string told = until_all_here(*workers[static_cast<std::size_t>(r)]);
    EXPECT_TRUE(told == (r < 2 ? "joined 2, joined 3" : "joined 0, joined 1") ||
                told == (r < 2 ? "joined 3, joined 2" : "joined 1, joined 0"))
        << told;
  }
  std::printf("    all four are connected again %.1f s after the cable was mended\n",
              now_s() - healed);
  for (auto& w : workers) EXPECT_EQ(w->line(60), "sum 4 6");
  for (auto& w : workers) EXPECT_EQ(w->wait(), 0);
}

}  // namespace
}  // namespace gossamer::dist::testing
