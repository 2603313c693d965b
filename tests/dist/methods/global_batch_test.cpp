// A batch of all workers together (MethodOptions::global_batch): each computes its share, and the
// sum is weighed by what came, also when a worker dies.
#include <gmock/gmock.h>

#include "dist/gossip/training.h"
#include "dist/workers.h"
#include "gossamer/core/share.h"

namespace gossamer::dist {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MethodOptions options_of(i64 global_batch, i64 batch = 2) {
  MethodOptions options;
  options.batch = batch;
  options.global_batch = global_batch;
  return options;
}

// The gradient of each batch of worker r is r + 1. Of 8 batches workers 0, 1, 2 have 3, 3, 2.
TEST(GlobalBatch, EachBatchCountsAsMuchWhoeverComputesIt) {
  LocalCluster cluster(3);
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(0, 4);
    auto method =
        make_method("allreduce", q.params, q.sgd, group, make_graph("complete", 3), options_of(16));
    const auto step = [&] {
      const std::vector<int>& sharing = method->sharing().workers;
      const auto place = std::ranges::find(sharing, rank) - sharing.begin();
      const auto batches = static_cast<float>(share_of(8, place, std::ssize(sharing)));
      std::ranges::fill(q.params.grads().span<float>(), batches * static_cast<float>(rank + 1) / 8);
      const float before = q.params.values().span<float>()[0];
      method->step(1);
      return before - q.params.values().span<float>()[0];
    };
    EXPECT_FLOAT_EQ(step(), (3 * 1 + 3 * 2 + 2 * 3) / 8.f);
    EXPECT_EQ(method->samples_seen(), 16);
    EXPECT_THAT(method->sharing().workers, ElementsAre(0, 1, 2));
    if (rank == 1) return cluster.kill(1);
    EXPECT_FLOAT_EQ(step(), (3 * 1 + 2 * 3) / 5.f) << "the mean of what came";
    EXPECT_EQ(method->samples_seen(), 16 + 10);
    EXPECT_THAT(method->sharing().workers, ElementsAre(0, 2));
    ASSERT_EQ(method->sharing().changes.size(), 1u);
    EXPECT_THAT(method->sharing().changes[0].workers, ElementsAre(0, 1, 2));
    EXPECT_THAT(method->sharing().changes[0].done, ElementsAre(2, 1, 2));
    EXPECT_FLOAT_EQ(step(), (4 * 1 + 4 * 3) / 8.f);
    EXPECT_EQ(method->samples_seen(), 16 + 10 + 16);
    method->finish();
  });
}

TEST(GlobalBatch, IsRefusedWhereItCannotBe) {
  LocalCluster cluster(3);
  Quadratic q(0, 4);
  const auto error = [&](const char* method, const MethodOptions& options) {
    try {
      check_method(method, "sgd", cluster.group(0), make_graph("ring", 3), options);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  MethodOptions recorded = options_of(12);
  recorded.record = "folder";
  EXPECT_THAT(error("a2cid2", recorded), HasSubstr("global_batch does not go with record"));
  EXPECT_THAT(error("allreduce", options_of(13)), HasSubstr("a multiple of batch 2"));
  EXPECT_THAT(error("allreduce", options_of(4)), HasSubstr("2 batches, too few for 3 workers"));
  EXPECT_EQ(error("allreduce", options_of(6)), "");
}

// Each has its own pace; what all do together is counted in batches.
TEST(GlobalBatch, OfGossipIsSharedAmongTheMembersThatAWorkerKnows) {
  struct Counts final : Training::Beside {
    Counts(std::atomic<i64>& all, int rank) : all_(all), rank_(rank) {}
    void begins(const Method& method) override { method_ = &method; }
    void before_step() override {
      const std::vector<int>& sharing = method_->sharing().workers;
      own_ = share_of(12, std::ranges::find(sharing, rank_) - sharing.begin(), std::ssize(sharing));
      EXPECT_GT(own_, 0);
    }
    void after_step() override { all_ += own_; }
    std::atomic<i64>& all_;
    const int rank_;
    const Method* method_ = nullptr;
    i64 own_ = 0;
  };
  std::atomic<i64> batches = 0;
  Training t(5, 0, "a2cid2", "ring", Seconds(.3), 4);
  t.options.global_batch = 12;
  t.options.total_samples = 12 * 500;
  t.beside = [&](int rank) { return std::make_unique<Counts>(batches, rank); };
  t.start();
  ASSERT_TRUE(t.reaches(.2));
  t.kill(1);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 1) == 3; }));
  t.restart(4);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 4) == 3; }));
  t.finish();
  // Those that stop together may do a gradient more each.
  EXPECT_NEAR(static_cast<double>(batches) / t.options.total_samples, 1, .05);
  for (const int rank : {0, 2, 3, 4}) EXPECT_GT(t.worker(rank).gradients.back(), 0);
}

}  // namespace
}  // namespace gossamer::dist
