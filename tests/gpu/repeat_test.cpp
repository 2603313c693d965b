// With CudaOptions::deterministic the same numbers twice give the same bits on a GPU: every row of
// the list of ops, every convolution of the models, attention, the training of small models. These
// tests must be the first of their process that use the GPU, since its options are those of all.
#include <cstdio>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "core/cuda/model_convs.h"
#include "core/kernel_helpers.h"
#include "core/ops/op_cases.h"
#include "core/ops/op_results.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_engine.h"
#include "models/small_resnet.h"

namespace gossamer::testing {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

class GpuRepeats : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda::device_count() == 0) return;
    try {
      configure_cuda({.deterministic = true});
      ready_ = true;
    } catch (const DeviceError&) {
    }
  }
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
    if (!ready_)
      GTEST_SKIP()
          << "another test has used the GPU in this process: --gtest_filter='GpuRepeats.*'";
  }

 private:
  static inline bool ready_ = false;
};

TEST_F(GpuRepeats, EveryRowOfTheListOfOps) {
  for (const DType type : kTypes) {
    int compared = 0, left_out = 0;
    for (const OpCase& c : op_cases()) {
      const std::string what = std::string(name_of(type)) + ": " + label_of(c);
      const std::vector<Tensor> inputs = inputs_in(type, c);
      std::vector<Tensor> first;
      try {
        first = results_of(c, inputs, Device::cuda());
      } catch (const DeviceError& e) {  // rows of less than 8 channels in 16 bits
        ASSERT_NE(std::string(e.what()).find("no plan for"), std::string::npos) << e.what();
        ++left_out;
        continue;
      }
      const Tensor other_memory = Tensor::empty({4099}, DType::f32, Device::cuda());
      const std::vector<Tensor> second = results_of(c, inputs, Device::cuda());
      for (std::size_t k = 0; k < first.size(); ++k) expect_same_bits(second[k], first[k], what);
      ++compared;
    }
    std::printf("%s: %d rows repeated, %d refused by cuDNN\n", name_of(type), compared, left_out);
    EXPECT_GT(compared, 3 * left_out);
  }
}

// Of the size at which the models train.
TEST_F(GpuRepeats, EveryConvolutionOfTheModels) {
  const Device gpu = Device::cuda();
  cudnn::ConvEngine engine(gpu, {.deterministic = true});
  const auto drawn = [&](Shape shape, DType type, std::uint64_t seed) {
    const Tensor row = normal({1 << 16}, seed, type).to(gpu);
    Tensor out = Tensor::empty({shape.numel()}, type, gpu);
    for (i64 at = 0; at < out.numel(); at += row.numel()) {
      Tensor part = out.slice(at, std::min(out.numel(), at + row.numel()));
      part.copy_from(row.slice(0, part.numel()));
    }
    return out;
  };
  for (const DType type : kTypes) {
    int repeated = 0;
    each_conv_of_the_models(type, [&](const std::string& what, const cudnn::ConvProblem& p) {
      Tensor x = drawn({p.n, p.h, p.w, p.c}, type, 1), w = drawn({p.k, p.r, p.s, p.c}, type, 2),
             y = drawn({p.n, p.ho(), p.wo(), p.k}, type, 3);
      Tensor& result = p.op == cudnn::ConvOp::forward         ? y
                       : p.op == cudnn::ConvOp::backward_data ? x
                                                              : w;
      std::vector<Tensor> got;
      for (int run = 0; run < 2; ++run) {
        result.fill(.5f);
        engine.run(p, {.x = x.data(), .w = w.data(), .y = y.data()});
        got.push_back(result.to(Device::cpu()));
        if (run == 0) got.back() = got.back().clone();
      }
      EXPECT_EQ(std::memcmp(got[0].data(), got[1].data(), got[0].bytes()), 0)
          << what << ", " << p.key();
      ++repeated;
    });
    std::printf("%s: %d convolutions repeated\n", name_of(type), repeated);
  }
  for (const auto& choice : engine.choices()) EXPECT_EQ(choice.from, "first right");
}

// Larger than what fits the usual workspace, where the sums of dq would be taken in any order.
TEST_F(GpuRepeats, AttentionOfManyLongTexts) {
  const Device gpu = Device::cuda();
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensor qkv = normal({20, 1024, 3 * 768}, 1, type).to(gpu);
    const auto gradient = [&] {
      const Tensor leaf = qkv.clone().requires_grad();
      sum(square(cast(attention(leaf, {.heads = 12, .causal = true}), DType::f32))).backward();
      return leaf.grad().to(Device::cpu());
    };
    const Tensor first = gradient();
    expect_same_bits(gradient(), first, name_of(type));
  }
}

TEST_F(GpuRepeats, TheTrainingOfASmallResNet) {
  for (const DType type : kTypes)
    for (const bool bottleneck : {false, true}) {
      const Trained first = train_small(Device::cuda(), bottleneck, type, 20),
                    second = train_small(Device::cuda(), bottleneck, type, 20);
      EXPECT_EQ(first.losses, second.losses) << name_of(type);
      expect_same_bits(second.values, first.values, name_of(type));
      expect_same_bits(second.buffers, first.buffers, name_of(type));
    }
}

}  // namespace
}  // namespace gossamer::testing
