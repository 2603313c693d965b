// The state machine of an exchange between GPUs: named cases, and thousands of random orders of
// events. Fakes stand for the devices and NCCL; edges, channels and worker states are the real
// ones.
#include <cstdlib>
#include <limits>

#include "dist/gpu/world.h"

namespace gossamer::dist {
namespace {

using Phase = GpuEdge::Phase;

void begin_both(GpuWorld& w, double patience = 100, int a = 0, int b = 1) {
  w.agree(a, b);
  w.begin(a, patience);
  w.begin(b, patience);
}
// One exchange that comes through.
void exchange(GpuWorld& w, int a = 0, int b = 1) {
  const int before = w.applied();
  begin_both(w, 100, a, b);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  ASSERT_EQ(w.applied(), before + 2)
      << w.worker(a).results.back().why << "; " << w.worker(b).results.back().why;
}
void end_well(GpuWorld& w) {
  while (w.quiet_move()) {
  }
  w.check();
}
bool in_phase(GpuWorld& w, Phase phase, int i = 0, int peer = 1) {
  return w.run_until([&] { return w.edge(i, peer).phase() == phase; });
}

TEST(GpuEdge, TwoWorkersExchangeAndBothApplyIt) {
  for (const bool peer_copy : {false, true}) {
    GpuWorld w({.peer_copy = peer_copy});
    for (int round = 0; round < 3; ++round) {
      w.gradient(0, .5);
      exchange(w);
    }
    end_well(w);
    EXPECT_EQ(w.applied(), 6);
  }
}

// Both begin at once, with and without a channel: all of their first messages cross.
TEST(GpuEdge, BothSidesProposingAtOnceIsOneExchange) {
  GpuWorld w({});
  for (int round = 0; round < 3; ++round) {
    begin_both(w);
    for (const int i : {0, 1}) {
      while (w.machine.step(i)) {
      }
      w.poll(i);
    }
    ASSERT_EQ((w.mail[{0, 1}].size()), 1u);
    ASSERT_EQ((w.mail[{1, 0}].size()), 1u);
    ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
    ASSERT_EQ(w.applied(), 2 * (round + 1));
    ASSERT_EQ(w.machine.live_communicators(0), 1);
  }
  end_well(w);
}

TEST(GpuEdge, TheChannelIsOpenedOnceAndUsedAgain) {
  GpuWorld w({});
  for (int round = 0; round < 5; ++round) exchange(w);
  EXPECT_EQ(w.machine.live_communicators(0), 1);
  EXPECT_EQ(w.sessions.at(5).ready.at(0), 1u) << "the generation is the session that opened it";
}

TEST(GpuEdge, WhoIsNotReadyIsWaitedForOnTheHostOnly) {
  GpuWorld w({});
  exchange(w);
  w.agree(0, 1);
  w.begin(0, 100);
  ASSERT_TRUE(in_phase(w, Phase::ready));
  while (w.quiet_move()) {
  }
  EXPECT_EQ(w.edge(0, 1).phase(), Phase::ready);
  EXPECT_FALSE(w.machine.step(0))
      << "nothing of worker 0 may be on its device while the other has not come";
  w.gradient(0, 1);  // training goes on
  EXPECT_TRUE(w.machine.step(0));
  w.begin(1, 100);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  EXPECT_EQ(w.applied(), 4);
  end_well(w);
}

TEST(GpuEdge, ReadyThatComesTooLateIsAnsweredByAnAbortAndTheChannelIsKept) {
  GpuWorld w({});
  exchange(w);
  w.agree(0, 1);
  w.begin(0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.worker(0).results.size() == 2; }));
  EXPECT_THAT(w.worker(0).results.back().why, testing::HasSubstr("worker 1 was not ready in time"));
  w.begin(1, 100);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  EXPECT_THAT(w.worker(1).results.back().why, testing::HasSubstr("worker 0 gave the exchange up"));
  EXPECT_EQ(w.applied(), 2);
  exchange(w);
  EXPECT_EQ(w.sessions.at(3).ready.at(0), 1u)
      << "nothing was launched, so the communicator is still good";
  end_well(w);
}

// Our `abort` and the other's `ready` cross: it launches, and has to be freed.
TEST(GpuEdge, AnAbortThatCrossesAReadyEndsTheOtherSidesKernel) {
  for (const bool notices : {false, true}) {
    GpuWorld w({.faults = {.notices = notices}});
    exchange(w);
    begin_both(w);
    for (const int i : {0, 1})
      while (w.machine.step(i)) {
      }
    w.poll(0);  // says ready
    w.deliver(0, 1);
    w.give_up(0);  // says abort
    w.poll(1);
    ASSERT_EQ(w.edge(1, 0).phase(), Phase::moving);
    ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
    EXPECT_EQ(w.applied(), 2);
    exchange(w);
    EXPECT_EQ(w.sessions.at(3).ready.at(0), 3u)
        << "a new communicator: the old one was aborted by worker 1";
    end_well(w);
  }
}

struct AbortCase {
  Phase phase;
  bool first;  // the exchange opens the channel
};
class GpuEdgeAbort : public testing::TestWithParam<AbortCase> {};

// Worker 0 gives up, or its connection breaks, or its time is over, as soon as it is in this phase;
// in a first exchange or in a later one.
TEST_P(GpuEdgeAbort, InAnyPhaseLeavesBothSidesAgreedAndTheNextExchangeComesThrough) {
  const auto [phase, first] = GetParam();
  int reached = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && reached < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int how = reached % 3;
    GpuWorld w({.seed = seed});
    if (!first) exchange(w);
    const int before = w.applied();
    begin_both(w, how == 2 ? 1e6 : 100);
    // small moves, so that no phase is always passed over
    while (w.edge(0, 1).phase() != phase && w.worker(0).peer >= 0) w.random_move(false);
    if (w.edge(0, 1).phase() != phase) continue;
    ++reached;
    if (how == 0) w.give_up(0);
    if (how == 1) {
      w.disconnect(0, 1);
      w.notice(0, 1);
      w.notice(1, 0);
    }
    if (how == 2) w.now += 2e6;
    ASSERT_TRUE(w.come_to_rest());
    if (how != 1) EXPECT_FALSE(w.one_sided());
    if (phase != Phase::confirming && !(phase == Phase::inspecting && how == 2))
      EXPECT_EQ(w.applied(), before);
    exchange(w);
    EXPECT_TRUE(w.worker(0).results.back().ok);
    end_well(w);
  }
  EXPECT_EQ(reached, 30);
}
INSTANTIATE_TEST_SUITE_P(
    Phases, GpuEdgeAbort,
    testing::Values(AbortCase{Phase::opening, true}, AbortCase{Phase::joining, true},
                    AbortCase{Phase::arming, true}, AbortCase{Phase::arming, false},
                    AbortCase{Phase::ready, true}, AbortCase{Phase::ready, false},
                    AbortCase{Phase::moving, true}, AbortCase{Phase::moving, false},
                    AbortCase{Phase::inspecting, false}, AbortCase{Phase::confirming, true},
                    AbortCase{Phase::confirming, false}));

TEST(GpuEdge, WhoHasConfirmedAndCanWaitNoLongerAsksAndIsAnswered) {
  for (const bool other_in_time : {true, false}) {
    GpuWorld w({});
    exchange(w);
    begin_both(w, 50);
    for (int move = 0; w.edge(0, 1).phase() != Phase::confirming && move < 1000; ++move) {
      for (const int i : {0, 1}) w.machine.step(i);
      // then worker 1's host stands still
      if (w.edge(1, 0).phase() != Phase::moving) {
        w.deliver(0, 1);
        w.poll(1);
      }
      w.deliver(1, 0);
      w.poll(0);
    }
    ASSERT_EQ(w.edge(0, 1).phase(), Phase::confirming);
    ASSERT_EQ(w.edge(1, 0).phase(), Phase::moving);
    if (other_in_time) {
      while (w.edge(1, 0).phase() != Phase::confirming) {
        w.machine.step(1);
        w.poll(1);
      }
    }
    w.now += 51;
    w.poll(0);  // withdraws
    ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
    EXPECT_EQ(w.applied(), other_in_time ? 4 : 2);
    end_well(w);
  }
}

TEST(GpuEdge, ADeadPeerEndsTheExchangeAndWhatArrivedIsDropped) {
  for (const Phase phase : {Phase::joining, Phase::ready, Phase::moving}) {
    GpuWorld w({.workers = 3, .faults = {.notices = false}});
    if (phase != Phase::joining) exchange(w);
    begin_both(w);
    for (int move = 0; w.edge(0, 1).phase() != phase && move < 100'000; ++move)
      w.random_move(false);
    ASSERT_EQ(w.edge(0, 1).phase(), phase);
    const auto x = w.worker(0).state.x;
    w.kill(1);
    w.notice(0, 1);
    w.notice(2, 1);
    ASSERT_TRUE(w.run_until([&] { return w.worker(0).peer < 0; }));
    EXPECT_FALSE(w.worker(0).results.back().ok);
    while (w.quiet_move()) {
    }
    EXPECT_EQ(w.worker(0).state.x[1] - x[1], 0)
        << "only the drift of time may move it, and the second value has none";
    EXPECT_EQ(w.machine.live_communicators(0), 0);
    exchange(w, 0, 2);  // with the others it goes on
    for (const std::string& p : w.problems) ADD_FAILURE() << p;
  }
}

TEST(GpuEdge, OnlyOneSideLostItsChannel) {
  GpuWorld w({.workers = 3});
  exchange(w);
  for (const int loser : {0, 1}) {
    // Worker `loser` sees the connection break and return; the other hears of it before anything
    // else comes, as links promise.
    w.disconnect(0, 1);
    w.notice(loser, 1 - loser);
    w.notice(1 - loser, loser);
    exchange(w);
  }
  end_well(w);
}

TEST(GpuEdge, AnOtherSizeIsRefusedWithWords) {
  GpuWorld w({});
  w.agree(0, 1);
  w.begin(0, 100);
  GpuEdge::Request r{.session = 1,
                     .send = w.worker(1).send.data(),
                     .receive = w.worker(1).receive.data(),
                     .bytes = 8,
                     .snapshot = w.worker(1).taken,
                     .note = {},
                     .inspect = {},
                     .sound = {},
                     .until = 100};
  w.sessions.at(1).begun.insert(1);
  w.edge(1, 0).begin(r, w.now);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  EXPECT_TRUE(w.worker(0).results.back().why.find("wire?") != std::string::npos ||
              w.worker(1).results.back().why.find("wire?") != std::string::npos);
  EXPECT_EQ(w.applied(), 0);
}

TEST(GpuEdge, ValuesThatAreNotFiniteAreAppliedByNobody) {
  GpuWorld w({});
  w.worker(1).state.x[0] = std::numeric_limits<double>::infinity();
  w.worker(1).state.numbers.eta = 0;
  begin_both(w);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  EXPECT_EQ(w.applied(), 0);
}

TEST(GpuEdge, ADeviceThatNeverLetsGoIsSaidSoOnceAndForAll) {
  GpuWorld w({.faults = {.transfer_hangs = 1, .abort_hangs = true},
              .limits = {.grace_s = 1, .abort_s = 30}});
  begin_both(w, 5);
  ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
  EXPECT_TRUE(w.edge(0, 1).wedged());
  EXPECT_THAT(w.worker(0).results.back().why, testing::HasSubstr("did not let go"));
  begin_both(w, 5);
  w.run_until([&] { return w.worker(0).results.size() == 2; });
  EXPECT_THAT(w.worker(0).results.back().why, testing::HasSubstr("never let go"));
  EXPECT_EQ(w.applied(), 0);
}

TEST(GpuEdge, CopiesWhereTheMemoryCanBeReached) {
  GpuWorld w({.workers = 3, .best = true});
  for (int round = 0; round < 3; ++round) exchange(w);
  EXPECT_THAT(w.decisions,
              testing::UnorderedElementsAre("edge 0-1: peercopy", "edge 1-0: peercopy"));
  EXPECT_EQ(w.machine.live_communicators(0), 0);
  end_well(w);
}

TEST(GpuEdge, UsesNcclWhereEitherSideCanNotMapTheOthersMemory) {
  for (const int blind : {0, 1}) {
    GpuWorld w({.best = true});
    w.worker(blind).memory.reachable = false;
    for (int round = 0; round < 3; ++round) {
      begin_both(w);
      ASSERT_TRUE(w.run_until([&] { return w.idle(); }));
    }
    EXPECT_TRUE(w.worker(0).results.back().ok) << blind;
    EXPECT_EQ(w.machine.live_communicators(0), 1);
    EXPECT_THAT(w.decisions, testing::Contains(testing::HasSubstr("no mapping of another")));
    end_well(w);
  }
}

TEST(NcclChannelMaker, TakesFewerMultiprocessorsBetweenTwoMachines) {
  for (const auto& [other, ctas] : {std::pair(7, 4), {8, 2}, {0, 2}}) {
    fake::Machine machine(2, 1);
    NcclChannelMaker lower(0, machine.gpu(0), machine.gpu(0), 4, 7),
        higher(1, machine.gpu(1), machine.gpu(1), 4, static_cast<std::uint64_t>(other));
    const ChannelBytes offer = higher.offer(0, {}), answer = lower.answer(1, {}, offer);
    const auto a = lower.open(1, true, {}, answer, offer),
               b = higher.open(0, false, {}, offer, answer);
    for (const int rank : {0, 1}) EXPECT_EQ(machine.most_ctas(rank), ctas) << other;
    EXPECT_THROW(lower.open(1, true, {}, answer, {}), DistError);
    EXPECT_THROW(higher.open(0, false, {}, offer, offer), DistError);
  }
}

// --- any order

struct Exploration {
  const char* name;
  int workers;
  bool peer_copy;
  double patience, gives_up, breaks;
  fake::Faults faults;
  bool best = false;
};
class GpuEdgeExplored : public testing::TestWithParam<Exploration> {};

void explore(std::uint64_t seed, GpuWorld::Options o, int moves, std::map<std::string, int>& seen) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  o.seed = seed;
  GpuWorld w(o);
  if (o.best) w.worker(static_cast<int>(seed % 3)).memory.reachable = false;  // edges of both kinds
  for (int move = 0; move < moves; ++move) w.random_move(true);
  EXPECT_TRUE(w.come_to_rest()) << "an exchange does not end";
  w.check();
  for (const auto& each : w.workers)
    for (const auto& r : each->results) ++seen[r.ok ? "ok" : r.why.substr(0, 200)];
}

TEST_P(GpuEdgeExplored, NothingIsLaunchedTooEarlyAppliedAloneOrLost) {
  const Exploration& e = GetParam();
  const GpuWorld::Options o{.workers = e.workers,
                            .peer_copy = e.peer_copy,
                            .best = e.best,
                            .faults = e.faults,
                            .patience = e.patience,
                            .breaks = e.breaks,
                            .gives_up = e.gives_up};
  std::map<std::string, int> seen;
  const int seeds = 500;
  for (int seed = 1; seed <= seeds && !HasFailure(); ++seed)
    explore(static_cast<std::uint64_t>(seed), o, 3000, seen);
  EXPECT_GT(seen["ok"], seeds) << "too little came through to prove anything";
  if (e.patience < 10) EXPECT_GT(seen.size(), 8u) << "too little went wrong to prove anything";
  if (std::getenv("GOSSAMER_EXPLAIN"))
    for (const auto& [what, n] : seen) std::printf("%6d  %s\n", n, what.c_str());
}
INSTANTIATE_TEST_SUITE_P(
    Worlds, GpuEdgeExplored,
    testing::Values(Exploration{"two", 2, false, 100, 0, 0, {}},
                    Exploration{"four", 4, false, 100, 0, 0, {}},
                    Exploration{"late", 2, false, 2, 0, 0, {}},
                    Exploration{"threeLate", 3, false, 2, 0, 0, {}},
                    Exploration{"broken", 2, false, 5, .0005, .0005, {}},
                    Exploration{"threeBroken", 3, false, 5, .001, .001, {}},
                    Exploration{"faulty",
                                2,
                                false,
                                5,
                                .0005,
                                .0005,
                                {.init_fails = .1,
                                 .init_hangs = .1,
                                 .transfer_fails = .1,
                                 .transfer_hangs = .1,
                                 .id_fails = .05}},
                    Exploration{"faultyUnnoticed",
                                3,
                                false,
                                5,
                                .0005,
                                .0005,
                                {.init_fails = .1,
                                 .init_hangs = .1,
                                 .transfer_fails = .1,
                                 .transfer_hangs = .1,
                                 .notices = false}},
                    Exploration{"copies", 3, true, 100, 0, 0, {}},
                    Exploration{"copiesLate", 3, true, 2, .001, .001, {}},
                    Exploration{"best",
                                3,
                                false,
                                5,
                                .0005,
                                .0005,
                                {.init_fails = .05, .transfer_fails = .05, .transfer_hangs = .02},
                                true}),
    [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace gossamer::dist
