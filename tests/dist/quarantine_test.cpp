// Workers whose models are refused: who says so, and what becomes of them.
#include "gossamer/dist/quarantine.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

Message doubt_of(int worker, bool still = true) {
  return {.type = MessageType::doubt, .epoch = still ? 1u : 0u, .value = double(worker)};
}

TEST(Quarantine, AWorkerDoubtsAfterSomeRefusalsInARow) {
  Quarantine q(0, 4);
  for (int i = 1; i < Quarantine::kInARow; ++i) EXPECT_FALSE(q.refused(1, true)) << i;
  EXPECT_FALSE(q.applied(1));
  for (int i = 1; i < Quarantine::kInARow; ++i) EXPECT_FALSE(q.refused(1, true)) << i;
  EXPECT_FALSE(q.refused(2, true)) << "another one";
  const auto said = q.refused(1, true);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->type, MessageType::doubt);
  EXPECT_EQ(said->value, 1);
  EXPECT_EQ(said->epoch, 1u);
  EXPECT_FALSE(q.refused(1, true)) << "said once";
  const auto taken_back = q.applied(1);
  ASSERT_TRUE(taken_back);
  EXPECT_EQ(taken_back->epoch, 0u);
  EXPECT_FALSE(q.applied(1));
}

TEST(Quarantine, MoreThanHalfOfTheNeighboursAndAtLeastTwoMakeABrokenWorker) {
  Quarantine q(0, 8);
  q.heard(1, doubt_of(3));
  EXPECT_FALSE(q.is_broken(3, {1})) << "which of two is wrong nobody can say";
  q.heard(2, doubt_of(3));
  EXPECT_TRUE(q.is_broken(3, {1, 2}));
  EXPECT_TRUE(q.is_broken(3, {1, 2, 5}));
  EXPECT_FALSE(q.is_broken(3, {1, 2, 5, 6})) << "half is not more than half";
  EXPECT_FALSE(q.is_broken(3, {1, 5})) << "worker 2 is no neighbour";
  q.heard(2, doubt_of(3, false));
  EXPECT_FALSE(q.is_broken(3, {1, 2, 5}));
  q.heard(2, doubt_of(3));
  q.forget(1);
  EXPECT_FALSE(q.is_broken(3, {1, 2, 5})) << "what the dead have said counts no more";
}

TEST(Quarantine, AWorkerWhoseOwnModelIsNotFiniteDoubtsItself) {
  Quarantine q(2, 4);
  for (int i = 1; i < Quarantine::kInARow; ++i) (void)q.refused(1, false);
  const auto said = q.refused(1, false);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->value, 2);
  EXPECT_TRUE(q.is_broken(2, {1, 3}));
  EXPECT_FALSE(q.is_broken(1, {2, 3}));
  EXPECT_THAT(q.verdict({1, 3}), testing::HasSubstr("its model is not finite"));
}

TEST(Quarantine, WhatIsNoRankIsNotHeard) {
  Quarantine q(0, 4);
  for (const double none : {-1., 4., 1e300})
    for (int from = 1; from < 4; ++from)
      q.heard(from, {.type = MessageType::doubt, .epoch = 1, .value = none});
  for (int worker = 0; worker < 4; ++worker) EXPECT_FALSE(q.is_broken(worker, {0, 1, 2, 3}));
}

struct Broken {
  const char* method;
  const char* graph;
  const char* rounds;
  float gradient;
};

class BrokenWorker : public testing::TestWithParam<Broken> {};

// From its step 40 on the gradients of worker 3 are wrong.
TEST_P(BrokenWorker, IsPutInQuarantineAndTheOthersTrainOn) {
  constexpr int kWorkers = 6, kBroken = 3;
  LocalCluster cluster(kWorkers);
  std::atomic<int> quarantines = 0;
  std::string error;
  std::vector<std::vector<float>> x(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(rank, 10);
    MethodOptions options;
    options.total_samples = kWorkers * 400;
    options.seed = 5;
    options.rounds = GetParam().rounds;
    options.on_fault = [&](const std::string& what, int peer) {
      if (what != "quarantined") return;
      EXPECT_EQ(peer, kBroken);
      ++quarantines;
    };
    auto method = make_method(GetParam().method, q.params, q.sgd, group,
                              make_graph(GetParam().graph, kWorkers), options);
    const auto train = [&] {
      for (int step = 0; !method->done(); ++step) {
        q.gradient();
        if (rank == kBroken && step >= 40) Tensor(q.params.grads()).fill(GetParam().gradient);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        method->step(.05);
      }
      method->finish();
    };
    if (rank == kBroken) {
      error = error_of<GivenUp>(train);
      method.reset();
      return;
    }
    train();
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
    EXPECT_EQ(method->stats().alive, kWorkers - 1);
  });
  EXPECT_THAT(error, testing::HasSubstr("worker 3 is in quarantine"));
  if (method_traits(GetParam().method).synchronous)
    EXPECT_GE(quarantines, 1) << "others may have seen first that it is gone";
  else
    EXPECT_EQ(quarantines, kWorkers - 1);
  for (int rank = 0; rank < kWorkers; ++rank) {
    if (rank == kBroken) continue;
    EXPECT_EQ(x[static_cast<std::size_t>(rank)], x[0]) << rank;
    // between the targets; where it is, their speeds decide
    EXPECT_TRUE(x[0][0] > 0 && x[0][0] < 5) << x[0][0];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, BrokenWorker,
    testing::Values(Broken{"a2cid2", "ring", "", 1e20f}, Broken{"a2cid2", "complete", "", NAN},
                    Broken{"adpsgd", "ring", "", NAN}, Broken{"async-tracking", "ring", "", NAN},
                    Broken{"dpsgd", "ring", "", 1e20f},
                    Broken{"dpsgd", "ring", "one-peer-exp", 1e20f},
                    Broken{"dpsgd", "ring", "", NAN}, Broken{"gradient-tracking", "ring", "", NAN}),
    [](const auto& test) {
      std::string name = std::string(test.param.method) + "_" + test.param.graph + "_" +
                         test.param.rounds + (std::isnan(test.param.gradient) ? "nan" : "far");
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace gossamer::dist
