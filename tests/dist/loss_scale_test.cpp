// A loss scale changes nothing that a method does: gradients are divided by it before they are
// clipped, averaged or measured. And who skips when one worker's gradient overflows.
#include <limits>

#include "dist/rounds/synchronous.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/use_backend.h"

namespace gossamer::dist {
namespace {

struct End {
  std::vector<float> x;
  MethodStats stats;
  i64 skipped = 0;
};

// overflow_at: this step's gradient of worker 1 is infinite.
std::vector<End> train(const std::string& name, int workers, float loss_scale, double clip,
                       int overflow_at = -1) {
  LocalCluster cluster(workers);
  std::vector<End> ends(static_cast<std::size_t>(workers));
  on_workers(cluster, workers, [&](int rank, Group& group) {
    Quadratic q(rank, 40, 0.9f, loss_scale);
    MethodOptions options;
    options.total_samples = 30.0 * workers;
    options.clip_norm = clip;
    options.settings.set("period", 3);
    options.settings.set("bucket_mb", 64. / (1 << 20));
    options.settings.set("control.target", "online");
    options.settings = options.settings.only(method_settings(name));
    const auto method =
        make_method(name, q.params, q.sgd, group, make_graph(graph_for(name), workers), options);
    for (int step = 0; !method->done(); ++step) {
      method->prepare(0.05);
      q.gradient(0.01f);
      if (step == overflow_at && rank == 1)
        q.params.grads().span<float>()[3] = std::numeric_limits<float>::infinity();
      method->step(0.05);
    }
    method->finish();
    ends[static_cast<std::size_t>(rank)] = {
        {q.params.values().span<float>().begin(), q.params.values().span<float>().end()},
        method->stats(),
        q.params.skipped_steps()};
  });
  return ends;
}

TEST(LossScaleOfMethods, LeavesEveryStepAsItIs) {
  for (const std::string& name : method_names())
    for (const double clip : {0.0, 0.5}) {
      // alone below; dpsgd by another name
      if (!method_traits(name).synchronous || method_traits(name).usual_optimizer() != "sgd")
        continue;
      SCOPED_TRACE(testing::Message() << name << " clip " << clip);
      const auto plain = train(name, 3, 1, clip), scaled = train(name, 3, 1024, clip);
      for (std::size_t w = 0; w < 3; ++w) {
        EXPECT_EQ(plain[w].x, scaled[w].x);
        EXPECT_EQ(plain[w].stats.control.gossip, scaled[w].stats.control.gossip);
        EXPECT_EQ(scaled[w].skipped, 0);
      }
    }
  for (const char* name :
       {"a2cid2", "adpsgd", "async-tracking"}) {  // alone, since exchanges come when they come
    const auto plain = train(name, 1, 1, 0.5), scaled = train(name, 1, 1024, 0.5);
    EXPECT_EQ(plain[0].x, scaled[0].x) << name;
  }
}

// As on a GPU: the norm stays where it is measured, and so does the overflow.
TEST(ThePassesOfAGpu, ClipAndSkipAsTheLoopsDo) {
  for (const char* name : {"allreduce", "dpsgd", "sgp", "local-sgd", "a2cid2", "adpsgd"})
    for (const float loss_scale : {1.f, 1024.f})
      for (const int overflow_at : {-1, 7}) {
        if (loss_scale == 1 && overflow_at >= 0) continue;
        SCOPED_TRACE(testing::Message()
                     << name << " scale " << loss_scale << " overflow " << overflow_at);
        const int workers = std::string(name) == "a2cid2" || std::string(name) == "adpsgd" ? 1 : 3;
        const auto loops = train(name, workers, loss_scale, 0.5, workers == 1 ? -1 : overflow_at);
        const UseBackend use("cuda_emulated");
        const auto passes = train(name, workers, loss_scale, 0.5, workers == 1 ? -1 : overflow_at);
        for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w) {
          EXPECT_EQ(loops[w].x, passes[w].x);
          EXPECT_EQ(loops[w].skipped, passes[w].skipped);
        }
        EXPECT_NE(loops[0].x,
                  train(name, workers, loss_scale, 0, workers == 1 ? -1 : overflow_at)[0].x)
            << "it did clip";
      }
}

TEST(OverflowOfOneWorker, LeavesOutTheStepOfAllWhoShareTheGradientAndOfNobodyElse) {
  for (const std::string name :
       {"allreduce", "dpsgd", "a2cid2", "async-tracking", "gradient-tracking", "decentlam"}) {
    const auto ends = train(name, 3, 1024, 0.5, 7);
    for (std::size_t w = 0; w < 3; ++w) {
      EXPECT_EQ(ends[w].skipped, name == "allreduce" || w == 1 ? 1 : 0) << name << " worker " << w;
      EXPECT_GE(ends[w].stats.gradients, 1);
      for (const float v : ends[w].x) ASSERT_TRUE(std::isfinite(v)) << name;
    }
  }
}

}  // namespace
}  // namespace gossamer::dist
