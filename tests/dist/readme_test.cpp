// Runs the code of dist/README.md. That it is the same code: tests/apps/readme_paths_test.cpp.
#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer {
namespace {

TEST(DistReadme, ItsLoopTrainsInAGroupOfOne) {
  Tensor w = Tensor::full({4}, 3.0f);
  FlatParams params({{"w", w}});
  nn::Sgd optimizer(params);
  dist::MethodOptions options;
  options.total_samples = 60;
  const auto loss_of_the_next_batch = [&] { return mean(mul(w, w)); };
  const auto schedule = [](double samples) { return samples < 30 ? 0.1 : 0.05; };
  const float before = loss_of_the_next_batch().item();

  auto group = dist::join(dist::launch_info());
  auto graph = dist::make_graph("ring", group->size());
  auto method = dist::make_method("a2cid2", params, optimizer, *group, graph, options);
  while (!method->done()) {
    params.zero_grad();
    loss_of_the_next_batch().backward();
    // a gradient event; exchanges go on in the background
    method->step(schedule(method->samples_seen()));
  }
  // all workers now hold the mean of their models
  method->finish();

  EXPECT_EQ(method->stats().gradients, 60);
  EXPECT_LT(loss_of_the_next_batch().item(), 0.5f * before);
}

}  // namespace

namespace dist {
TEST(DistReadme, ItsClusterLosesAWorker) {
  const int rank = 1;
  LocalCluster cluster(4);  // then, in thread `rank`:
  // control link, payload and collectives between threads
  Group& group = cluster.group(rank);
  cluster.kill(2);  // as kill -9 does to a process
  EXPECT_EQ(group.alive(), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(group.control().next(Seconds(1)).kind, Event::Kind::dead);
}
}  // namespace dist

}  // namespace gossamer
