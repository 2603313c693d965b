// Every op on a GPU against the CPU's reference backend: results and all gradients, f32, bf16 and
// f16; the list is that of the CPU's tests. And a whole ResNet, trained for some steps, against the
// CPU's run of the same passes.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/kernel_helpers.h"
#include "core/ops/op_results.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/cuda.h"
#include "models/small_resnet.h"

namespace gossamer::testing {
namespace {

class GpuOps : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
};

// cuDNN's 16-bit kernels load eight channels at once: rows with fewer are refused, with words, and
// counted.
bool refused(const std::exception& e) {
  return std::string(e.what()).find("no plan for") != std::string::npos;
}

void compare_all(DType type) {
  const UseBackend reference("reference");
  int compared = 0, left_out = 0;
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(label_of(c));
    const std::vector<Tensor> inputs = inputs_in(type, c);
    std::vector<Tensor> got;
    try {
      got = results_of(c, inputs, Device::cuda());
    } catch (const DeviceError& e) {
      ASSERT_TRUE(refused(e)) << e.what();
      ++left_out;
      continue;
    }
    const std::vector<Tensor> want = results_of(c, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) {
      float top = 0.05f;
      for (const float v : want[k].span<float>()) top = std::max(top, std::fabs(v));
      // f32: rounding of a sum grows with the root of its length. bf16: a result, and what a mask
      // or a later op reads, is rounded to 8 bits; f16: to 11.
      const float eps = type == DType::f32    ? 0x1p-20f * std::sqrt(static_cast<float>(c.terms))
                        : type == DType::bf16 ? 0x1p-6f
                                              : 0x1p-9f;
      for (std::size_t i = 0; i < static_cast<std::size_t>(want[k].numel()); ++i)
        ASSERT_NEAR(got[k].span<float>()[i], want[k].span<float>()[i], eps * top)
            << (k ? "gradient of input " : "result ") << k << ", element " << i;
    }
    ++compared;
  }
  std::printf("%d rows compared, %d refused by cuDNN\n", compared, left_out);
  EXPECT_GT(compared, 3 * left_out);
}

TEST_F(GpuOps, AgreeWithTheReferenceInFloat32) { compare_all(DType::f32); }
TEST_F(GpuOps, AgreeWithTheReferenceInBfloat16) { compare_all(DType::bf16); }
TEST_F(GpuOps, AgreeWithTheReferenceInFloat16) { compare_all(DType::f16); }

TEST_F(GpuOps, ALabelThatIsNoClassMakesTheLossNanAndDoesNotCount) {
  const Tensor z = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).to(Device::cuda()),
               labels = Tensor::from(std::vector<std::int32_t>{1 << 30, 2}, {2}).to(Device::cuda());
  EXPECT_TRUE(std::isnan(cross_entropy(z, labels).item()));
  EXPECT_EQ(count_top_k(z, labels, 3).item(), 1);
}

// Behind the lengths, and behind the tokens in a cache, lies what was never written.
TEST_F(GpuOps, AttentionReadsNothingBehindTheKeysThatAreSeen) {
  const Device gpu = Device::cuda();
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{7, 0, 33}, {3});
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const i64 queries : {1, 35}) {
      Tensor q = normal({3, queries, 128}, 1, type), zeros = normal({3, 40, 256}, 2), other;
      for (i64 b = 0; b < 3; ++b)
        for (i64 i = lengths.as<std::int32_t>()[b] * 256; i < 40 * 256; ++i)
          zeros.as<float>()[b * 40 * 256 + i] = 0;
      other = zeros.clone();
      for (float& v : other.span<float>()) v = v == 0 ? std::nanf("") : v;
      const auto of = [&](const Tensor& kv) {
        return attention(q.to(gpu), kv.to(type).to(gpu), {.heads = 2}, lengths.to(gpu))
            .to(Device::cpu());
      };
      expect_same_bits(of(other), of(zeros), name_of(type));
    }
}

TEST_F(GpuOps, RefuseToAddWhatIsOnAnotherDevice) {
  const Tensor here = Tensor::zeros({4, 8}), one = Tensor::full({8}, 1).to(Device::cuda());
  Tensor there = here.to(Device::cuda());
  EXPECT_THROW(batch_norm(there, one, one, {}, {}, {}, here), DeviceError);
  EXPECT_THROW(accumulate(there, here), DeviceError);
}

TEST_F(GpuOps, AResNetTrainsAsOnTheCpuInFloat32) {
  for (const bool bottleneck : {false, true}) {
    const Trained got = train_small(Device::cuda(), bottleneck, DType::f32, 5);
    const UseBackend passes("cuda_emulated");
    const Trained want = train_small(Device::cpu(), bottleneck, DType::f32, 5);
    EXPECT_LT(distance(got.logits, want.logits), 1e-4);
    EXPECT_LT(distance(got.grads, want.grads), 1e-4);
    EXPECT_LT(distance(got.buffers, want.buffers), 1e-4);
    EXPECT_LT(distance(got.values, want.values), 1e-4);
    for (std::size_t step = 0; step < want.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], want.losses[step], 1e-3 * want.losses[step]) << step;
  }
}

TEST_F(GpuOps, AResNetIn16BitsIsNoFurtherFromFloat32ThanOnTheCpu) {
  for (const DType type : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(type));
    const Trained got = train_small(Device::cuda(), true, type, 5);
    const UseBackend passes("cuda_emulated");
    const Trained want = train_small(Device::cpu(), true, type, 5),
                  exact = train_small(Device::cpu(), true, DType::f32, 5);
    EXPECT_LT(distance(got.logits, exact.logits), 1.5 * distance(want.logits, exact.logits));
    EXPECT_LT(distance(got.grads, exact.grads), 1.5 * distance(want.grads, exact.grads));
    EXPECT_LT(distance(got.values, exact.values), 1.5 * distance(want.values, exact.values));
  }
}

}  // namespace
}  // namespace gossamer::testing
