// What cuDNN would do for attention on GPUs from an A100 to an RTX 5090, asked without one: it
// knows the graphs, and has kernels for them. It makes these kernels while the program runs and
// loads them with the driver; where there is none, the toolkit's stub of it stands in, up to the
// loading.
#include <filesystem>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/cuda/gpu_properties.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_attention.h"

namespace gossamer::cudnn {
namespace {

class AttentionPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
    if (library_version().starts_with("not found")) GTEST_SKIP() << library_version();
    // cuDNN asks for libcuda.so.1, which is also the name that the stub gives itself.
    if (!dlopen("libcuda.so.1", RTLD_NOW) && !dlopen(GOSSAMER_CUDA_STUB, RTLD_NOW))
      GTEST_SKIP() << "neither a driver nor the toolkit's stub of it: " << dlerror();
  }
};

TEST_F(AttentionPlans, ExistForHeadsUpTo128) {
  for (const std::string& gpu :
       {testing::kA100, testing::kL40S, testing::kH100, testing::kB200, testing::kRtx5090}) {
    const Planner planner = Planner::for_properties(gpu);
    for (const DType type : {DType::bf16, DType::f16})
      for (const i64 size : {8, 64, 128})
        for (const bool causal : {true, false})
          for (const i64 length : {1024, 100}) {
            AttentionProblem p{.type = type,
                               .batch = 8,
                               .heads = 12,
                               .queries = length,
                               .keys = causal ? length : length / 2,
                               .size = size,
                               .causal = causal,
                               .q_row = 3 * 12 * size,
                               .kv_row = 3 * 12 * size,
                               .log_sums = true};
            EXPECT_GE(planner.proposals(p), 1u) << p.key() << ", " << gpu.substr(0, 40);
            p.log_sums = false;
            EXPECT_GE(planner.proposals(p), 1u) << p.key() << ", " << gpu.substr(0, 40);
            p.backward = true;
            EXPECT_GE(planner.proposals(p), 1u) << p.key() << ", " << gpu.substr(0, 40);
            p.any_order = true;
            EXPECT_GE(planner.proposals(p), 1u) << p.key() << ", " << gpu.substr(0, 40);
          }
  }
}

TEST_F(AttentionPlans, AreNotProposedForWhatCudnnDoesNotKnow) {
  const Planner planner = Planner::for_properties(testing::kH100);
  const AttentionProblem p{.backward = true,
                           .batch = 1,
                           .heads = 1,
                           .queries = 8,
                           .keys = 8,
                           .size = 264,
                           .q_row = 792,
                           .kv_row = 792};
  EXPECT_EQ(planner.proposals(p), 0u);
}

TEST(AttentionProblem, FitsWhatTheGraphCanSay) {
  const Tensor qkv = Tensor::empty({2, 6, 3 * 64}, DType::bf16);
  const Attention good{.batch = 2,
                       .heads = 1,
                       .kv_heads = 1,
                       .queries = 6,
                       .keys = 6,
                       .size = 64,
                       .causal = true,
                       .first = 0,
                       .window = 0,
                       .dropout = 0,
                       .seed = 0,
                       .stream = {},
                       .q = {qkv, 0, 192},
                       .k = {qkv, 64, 192},
                       .v = {qkv, 128, 192},
                       .lengths = {},
                       .begins = {}};
  EXPECT_TRUE(fits(good));
  EXPECT_EQ(problem_of(good, false, true).key(),
            "attention bf16 b2 h1 q6 k6 d64 causal rows 192,192 sums");
  Attention a = good;
  a.dropout = 0.1f;
  EXPECT_FALSE(fits(a));
  a = good;
  a.lengths = Tensor::zeros({2}, DType::i32);
  EXPECT_FALSE(fits(a));
  a = good;
  a.queries = 1;
  a.first = 5;
  EXPECT_FALSE(fits(a));
  a = good;
  a.keys = 40;  // a prompt in a cache: each length would be compiled anew
  EXPECT_FALSE(fits(a));
  a = good;
  a.heads = 2;  // which share those of keys
  EXPECT_FALSE(fits(a));
  a = good;
  a.window = 4;
  EXPECT_FALSE(fits(a));
  a = good;
  a.begins = Tensor::zeros({2, 6}, DType::i32);
  EXPECT_FALSE(fits(a));
  a = good;
  a.size = 20;
  EXPECT_FALSE(fits(a));
  a = good;
  a.q.t = Tensor::empty({2, 6, 192});
  EXPECT_FALSE(fits(a));
}

}  // namespace
}  // namespace gossamer::cudnn
