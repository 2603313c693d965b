// Workers that come back: started again with a neighbour's state, thawed, or behind a cable that
// was mended.
#include "gossamer/dist/gossip/rejoin.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>

#include "dist/gossip/training.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

using testing::HasSubstr;

class Rejoin : public testing::TestWithParam<const char*> {};

TEST_P(Rejoin, ARestartedWorkerGoesOnFromANeighboursStateAndAllFinishTogether) {
  Training t(4, 900, GetParam());
  t.start();
  ASSERT_TRUE(t.reaches(.2));
  t.kill(2);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 2) == 3; }));
  ASSERT_TRUE(t.reaches(.4));
  // the run is not over before it is back
  for (const int rank : {0, 1, 3}) t.worker(rank).step_us = 20000;
  t.restart(2);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 2) == 3; }));
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 2000;
  t.finish();
  EXPECT_GE(t.worker(2).samples_at_start, .35 * t.options.total_samples);
  // not its own 2 of before the first step: what the others have found
  EXPECT_NEAR(t.worker(2).at_start[0], 1.5, 1.2);
  EXPECT_GT(t.worker(2).gradients.at(1), 0);
  EXPECT_GT(t.worker(2).stats.exchanges, 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
  // nobody stops short, nobody runs on
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}
INSTANTIATE_TEST_SUITE_P(Methods, Rejoin, testing::Values("a2cid2", "adpsgd", "async-tracking"),
                         [](const auto& test) { return word(test.param); });

// Of every type and length.
TEST(StateBlock, CarriesWhatItTook) {
  const auto state = [](float first, i64 steps) {
    Tensor bytes = Tensor::zeros({3}, DType::u8);
    bytes.span<std::uint8_t>()[2] = static_cast<std::uint8_t>(steps);
    Tensor count = Tensor::zeros({1}, DType::i64);
    count.span<i64>()[0] = steps;
    return std::vector<NamedTensor>{
        {"bytes", bytes}, {"first_moment", Tensor::full({5}, first)}, {"steps", count}};
  };
  const auto given = state(.25F, 7), taken = state(0, 0);
  StateBlock from(10, true, 4, given, 3), to(10, true, 4, taken, 3);
  from.x.copy_from(Tensor::full({10}, 1));
  from.twin.copy_from(Tensor::full({10}, 2));
  from.buffers.copy_from(Tensor::full({4}, 3));
  from.take(given);
  from.set_count({.5, 12, std::vector<Account>(3, Account{4, 5})});
  Tensor(to.tensor()).copy_from(from.tensor());
  to.give(taken);
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_EQ(std::memcmp(given[i].tensor.data(), taken[i].tensor.data(), given[i].tensor.bytes()),
              0)
        << given[i].name;
  EXPECT_EQ(to.x.span<float>()[9], 1);
  EXPECT_EQ(to.twin.span<float>()[0], 2);
  EXPECT_EQ(to.buffers.span<float>()[3], 3);
  EXPECT_EQ(to.count().gradients_of_all, 12);
  EXPECT_EQ(to.count().accounts.at(2).taken_over, 5);
}

TEST(Rejoin, TheStateIsTheNeighboursAtOneMoment) {
  // Worker 1 stands still, so its state at the time is known: its last parameters, its statistics,
  // and the estimate of progress.
  Training t(3, 600);
  t.options.rate = 0;  // without exchanges
  t.start();
  ASSERT_TRUE(t.reaches(.2));
  t.kill(2);
  for (const int rank : {0, 1}) t.worker(rank).step_us = 20000;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  t.restart(2);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 2) == 2; }));
  for (const int rank : {0, 1}) t.worker(rank).step_us = 300;
  t.finish();
  // Without exchanges worker r tends to r: the state is that of worker 0 or 1, not a new start at
  // the mean of all (1.0 exactly).
  const float x = t.worker(2).at_start[0];
  EXPECT_LT(std::min(std::abs(x - 0), std::abs(x - 1)), .3) << x;
  // of batch norm; each worker's is its rank here
  const double mean = t.worker(2).mean_at_start;
  EXPECT_TRUE(mean == 0 || mean == 1) << mean;
}

TEST(Rejoin, ManyDeathsAndReturnsOneAfterTheOther) {
  Training t(5, 1200, "a2cid2", "exponential");
  t.start();
  for (const int victim : {0, 3, 0, 4}) {
    ASSERT_TRUE(t.reaches(t.seen() / t.options.total_samples + .08));
    t.kill(victim);
    ASSERT_TRUE(t.reaches(t.seen() / t.options.total_samples + .05));
    const int before = t.count("joined", victim);
    t.restart(victim);
    ASSERT_TRUE(t.until([&] { return t.count("joined", victim) == before + 4; }));
  }
  t.finish();
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 5) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .15);
}

TEST(Rejoin, TwoDeadMayComeBackTogether) {
  Training t(4, 1200);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.kill(1);
  t.kill(2);
  ASSERT_TRUE(t.reaches(.3));
  t.restart(1);
  t.restart(2);
  t.finish();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
}

TEST(Rejoin, WhoComesWhenTheOthersAreDoneIsTold) {
  Training t(3, 100);
  t.options.exchange_timeout_s = .5;
  t.start();
  ASSERT_TRUE(t.reaches(.2));
  t.kill(2);
  for (const int rank : {0, 1}) t.worker(rank).thread.join();
  t.cluster.kill(0);
  t.cluster.kill(1);
  t.restart(2);
  try {
    t.finish();
    FAIL() << "no error";
  } catch (const DistError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no worker gave it the state"));
  }
}

TEST(Rejoin, ASynchronousMethodSaysThatItCant) {
  LocalCluster cluster(2);
  cluster.kill(1);
  Group& group = cluster.revive(1);
  Quadratic q(1, 10);
  MethodOptions options;
  options.rejoin = true;
  EXPECT_THROW(make_method("allreduce", q.params, q.sgd, group, make_graph("ring", 2), options),
               ConfigError);
}

TEST(Rejoin, AWorkerOfAnotherRunIsToldWhatDiffers) {
  Training t(3, 1500);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.kill(2);
  {
    Group& group = t.cluster.revive(2);
    const auto refusal = [&](int dimensions, const char* method, const char* graph, double rate) {
      Quadratic q(2, dimensions);
      MethodOptions options = t.options;
      options.rejoin = true;
      options.rate *= rate;
      return error_of<DistError>(
          [&] { make_method(method, q.params, q.sgd, group, make_graph(graph, 3), options); });
    };
    EXPECT_THAT(refusal(41, "a2cid2", "ring", 1), HasSubstr("has another model"));
    EXPECT_THAT(refusal(40, "adpsgd", "ring", 1),
                HasSubstr("has another method, optimizer, setting of it or rate; "));
    EXPECT_THAT(refusal(40, "a2cid2", "ring", 2),
                HasSubstr("has another method, optimizer, setting of it or rate; "));
    EXPECT_THAT(refusal(40, "a2cid2", "star", 1), HasSubstr("has another graph; "));
    EXPECT_THAT(refusal(41, "a2cid2", "star", 1), HasSubstr("parameters) and another graph; "));
  }
  t.cluster.kill(2);
  t.finish();
  EXPECT_EQ(t.worker(0).stats.alive, 2);
}

TEST(Rejoin, IfTheGiverDiesAnotherIsAsked) {
  // Rank 0 and 2 are the neighbours on the ring of 4. Their training stands still, so neither can
  // give; 0 is killed, 2 goes on.
  Training t(4, 900);
  t.start();
  ASSERT_TRUE(t.reaches(.15));
  t.kill(1);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 1) == 3; }));
  for (const int rank : {0, 2, 3}) t.worker(rank).frozen = true;
  t.restart(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  t.cluster.kill(0);
  for (const int rank : {0, 2, 3}) t.worker(rank).frozen = false;
  t.finish();
  for (const int rank : {1, 2, 3}) {
    EXPECT_EQ(t.worker(rank).stats.alive, 3) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(1).x) << rank;
  }
}

TEST(Return, ACutWorkerKeepsItsStateAndGoesOnGossiping) {
  Training t(4, 2500);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  for (const int other : {0, 1, 2}) t.cluster.cut(3, other);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 3) == 3 && t.count("dead", 0) == 1; }));
  const double then = t.seen();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const int other : {0, 1, 2}) t.cluster.mend(3, other);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 3; }));
  EXPECT_LT(then, t.options.total_samples);
  t.finish();
  EXPECT_EQ(t.worker(3).gradients.size(), 1u);  // one life
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
  // what both sides did meanwhile is counted
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Return, WhoWasCutOffWhileAnotherWasStartedAgainIsCountedOnce) {
  Training t(4, 2000);
  t.start();
  ASSERT_TRUE(t.reaches(.5));
  // from here on little is done
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 20000;
  t.worker(3).frozen = true;
  for (const int other : {0, 1, 2}) t.cluster.cut(3, other);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 3) == 3; }));
  t.kill(2);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 2) == 3; }));
  t.restart(2);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 2) == 2; }));
  const double before = t.seen(), done = t.steps();
  for (const int other : {0, 1, 2}) t.cluster.mend(3, other);
  t.worker(3).frozen = false;
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 3; }));
  ASSERT_TRUE(t.each_steps(2));
  EXPECT_LT(t.seen() - before, t.steps() - done + .02 * t.options.total_samples)
      << "its gradients of before, an eighth of all, were counted already";
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

// While 3 is cut off, 1 trains for long, and then gives its state to 2, which has died: what 1 has
// done in that time is in 2's progress as well, and must be counted once by 3; and the time in
// which 3 stood still must not be taken off by 2, which never saw it go.
TEST(Return, WhatTheGiverDidWhileAnotherWasCutOffIsCountedOnce) {
  Training t(4, 2000);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.worker(3).frozen = true;
  for (const int other : {0, 1, 2}) t.cluster.cut(3, other);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 3) == 3; }));
  t.kill(2);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 2) == 3; }));
  ASSERT_TRUE(t.reaches(.5));
  // from here on little is done
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 20000;
  t.restart(2);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 2) == 2; }));
  for (const int other : {0, 1, 2}) t.cluster.mend(3, other);
  t.worker(3).frozen = false;
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 3 && t.count("joined", 2) == 3; }));
  ASSERT_TRUE(t.each_steps(2));  // the first may have begun before
  const double done = t.steps();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_NEAR(t.worker(rank).seen / t.options.total_samples, done / t.options.total_samples, .02)
        << "as worker " << rank << " counts";
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Return, TwoHalvesGoOnAndBecomeOneAgain) {
  Training t(4, 3000, "a2cid2", "complete");
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  const auto all = [&](auto f) {
    for (const int a : {0, 1})
      for (const int b : {2, 3}) f(a, b);
  };
  all([&](int a, int b) { t.cluster.cut(a, b); });
  ASSERT_TRUE(t.until([&] {
    return t.count("dead", 0) == 2 && t.count("dead", 1) == 2 && t.count("dead", 2) == 2 &&
           t.count("dead", 3) == 2;
  }));
  ASSERT_TRUE(t.reaches(t.seen() / t.options.total_samples + .02));  // each goes on
  all([&](int a, int b) { t.cluster.mend(a, b); });
  t.finish();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.count("joined", rank), 2) << rank;
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Return, AWorkerThatComesBackNearTheEndIsWaitedForOrLeftOutByAll) {
  for (const double when : {.85, .93, .99}) {
    Training t(4, 500);
    t.options.exchange_timeout_s = 2;
    t.start();
    ASSERT_TRUE(t.reaches(.5));
    t.kill(2);
    ASSERT_TRUE(t.reaches(when));
    t.restart(2);
    try {
      t.finish();
    } catch (const DistError& e) {
      // too late: only the one that came back may fail
      EXPECT_THAT(e.what(), HasSubstr("worker 2"));
    }
    const int alive = t.worker(0).stats.alive;
    EXPECT_GE(alive, 3);
    for (const int rank : {0, 1, 3}) {
      EXPECT_EQ(t.worker(rank).stats.alive, alive) << rank << " " << when;
      EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank << " " << when;
      EXPECT_FALSE(t.worker(rank).error) << rank << " " << when;
    }
    if (alive == 4) {
      EXPECT_EQ(t.worker(2).x, t.worker(0).x);
    }
  }
}

// --- disturbed links below the method

struct Faulty : Training {
  Faulty(int n, double gradients, const std::string& faults, const char* graph = "ring")
      : Training(n, gradients, "a2cid2", graph) {
    const auto all = parse_injections(faults);
    injectors.resize(static_cast<std::size_t>(n));
    groups.resize(static_cast<std::size_t>(n));
    around = [this, all](int rank, Group& group) -> Group& {
      const auto r = static_cast<std::size_t>(rank);
      injectors[r] = std::make_unique<Injector>(all, rank, Injector::Actions{});
      groups[r] = disturbed(group, *injectors[r], 11, Seconds(.2));
      injectors[r]->start();
      return *groups[r];
    };
  }
  ~Faulty() { join(); }
  std::vector<std::unique_ptr<Injector>> injectors;
  std::vector<std::unique_ptr<Group>> groups;
};

TEST(Injected, ATenthOfAllMessagesAndExchangesMayBeLost) {
  Faulty t(4, 2500,
           "drop:edge=0-1:p=0.1,drop:edge=1-2:p=0.1,drop:edge=2-3:p=0.1,drop:edge=0-3:p=0.1");
  t.options.exchange_least_s = .05;
  t.options.exchange_timeout_s = .5;
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 1000;
  t.start();
  t.finish();
  // exchanges whose COMMIT was lost fail on one side, at the deadline
  i64 exchanges = 0, failed = 0;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
    exchanges += t.worker(rank).stats.exchanges;
    failed += t.worker(rank).stats.failed;
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(exchanges, 10);
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Injected, ALateEdgeHoldsNobodyUp) {
  Faulty t(4, 300, "delay:edge=0-1:30ms");
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 2000;
  t.start();
  t.finish();
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  // waiting for the late edge each time, it would be 1 in 50
  EXPECT_GT(t.worker(2).stats.exchanges, t.worker(2).stats.gradients / 20);
}

TEST(Injected, APartitionOfTheLinksIsSurvivedByBothSides) {
  Faulty t(4, 4000, "partition:0,1|2,3:600ms@t=0.2");
  t.start();
  ASSERT_TRUE(t.until([&] {
    return t.count("joined", 0) == 2 && t.count("joined", 1) == 2 && t.count("joined", 2) == 2 &&
           t.count("joined", 3) == 2;
  }));
  t.finish();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(t.worker(rank).stats.alive, 4) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(0).x) << rank;
  }
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

}  // namespace
}  // namespace gossamer::dist
