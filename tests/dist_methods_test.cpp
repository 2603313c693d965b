// The methods on four workers in one process: they learn, agree, count right, and survive a death.
#include "dist_workers.h"

namespace gossamer::dist {
namespace {

void work(double ms) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); }

struct Outcome {
  std::vector<float> x;
  MethodStats stats;
  double seen = 0;
};

Outcome train(const std::string& method_name, int rank, Group& group, MethodOptions options, double lr, double ms = 0.3) {
  Quadratic q(rank, 40, method_needs_frozen_compute(method_name));
  auto method = make_method(method_name, q.params, q.sgd, group, make_graph("ring", group.size()), options);
  while (!method->done()) {
    q.gradient(0.01f);
    work(ms);
    method->step(lr * std::max(0.02, 1 - method->samples_seen() / options.total_samples));
  }
  method->finish();
  const auto x = q.params.values().span<float>();
  return {{x.begin(), x.begin() + 40}, method->stats(), method->samples_seen()};
}

class MethodsOnFourWorkers : public testing::TestWithParam<const char*> {};

TEST_P(MethodsOnFourWorkers, ReachTheMinimumOfTheSumAndEndWithOneModel) {
  LocalCluster cluster(4);
  std::vector<Outcome> outcomes(4);
  MethodOptions options;
  options.batch = 2;
  options.total_samples = 4 * 2 * 400;
  options.seed = 3;
  on_workers(cluster, 4, [&](int rank, Group& group) { outcomes[static_cast<std::size_t>(rank)] = train(GetParam(), rank, group, options, 0.1); });
  i64 gradients = 0;
  for (const Outcome& o : outcomes) {
    gradients += o.stats.gradients;
    EXPECT_EQ(o.x, outcomes[0].x);
    EXPECT_NEAR(o.seen, options.total_samples, 0.1 * options.total_samples);
    EXPECT_EQ(o.stats.failed, 0);
    EXPECT_EQ(o.stats.alive, 4);
    for (int k = 0; k < 40; ++k) EXPECT_NEAR(o.x[static_cast<std::size_t>(k)], 1.5 + 0.01 * k, 0.35) << "coordinate " << k;
  }
  EXPECT_NEAR(static_cast<double>(gradients), 1600, 100);
  for (const Outcome& o : outcomes)
    std::printf("[ %s ] gradients %lld exchanges %lld distance %.4f exposed %.3f transfer %.3f eta %.3f x0 %.3f\n", GetParam(), static_cast<long long>(o.stats.gradients), static_cast<long long>(o.stats.exchanges), o.stats.consensus_distance, o.stats.exposed_s, o.stats.transfer_s, o.stats.eta, o.x[0]);
}
INSTANTIATE_TEST_SUITE_P(Methods, MethodsOnFourWorkers, testing::Values("a2cid2", "adpsgd", "allreduce"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gossamer::dist
