// A whole ResNet in both forms, as a CPU computes it and as a GPU does (the backend
// "cuda_emulated": same blocks and threads), must agree: logits, loss, every gradient, running
// statistics, and parameters after steps of SGD.
#include <gtest/gtest.h>

#include "gossamer/core/compute.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/ops/grid.h"
#include "gossamer/nn/init.h"
#include "models/small_resnet.h"

namespace gossamer {
namespace {

using namespace testing;

Trained train(const std::string& form, bool bottleneck, DType type, int steps) {
  const UseBackend use(form);
  return train_small(Device::cpu(), bottleneck, type, steps);
}

struct Forms : ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Blocks, Forms, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Bottleneck" : "Basic"; });

TEST_P(Forms, AgreeInFloat32) {
  const std::string usual = backend_names().front();
  const Trained want = train(usual, GetParam(), DType::f32, 5),
                got = train("cuda_emulated", GetParam(), DType::f32, 5);
  // The forms differ in the order of f32 sums alone: 2^-24 times the root of a thousand terms, a
  // few layers deep.
  const auto close = [](const Tensor& a, const Tensor& b, double most, const char* what) {
    std::printf("%s: relative distance of the forms %.1e\n", what, distance(a, b));
    EXPECT_LT(distance(a, b), most) << what;
  };
  close(got.logits, want.logits, 1e-5, "logits");
  close(got.grads, want.grads, 1e-4, "gradients");
  close(got.buffers, want.buffers, 1e-4, "running statistics after five steps");
  close(got.values, want.values, 1e-4, "parameters after five steps");
  for (std::size_t step = 0; step < want.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], want.losses[step], 1e-4 * want.losses[step]) << step;
  EXPECT_LT(want.losses.back(), want.losses.front());
}

TEST_P(Forms, AgreeIn16BitsUpToTheirRounding) {
  const std::string usual = backend_names().front();
  const Trained exact = train(usual, GetParam(), DType::f32, 5);
  for (const DType type : {DType::bf16, DType::f16}) {
    const Trained want = train(usual, GetParam(), type, 5),
                  got = train("cuda_emulated", GetParam(), type, 5);
    // Rounding to 8 or 11 bits moves the usual form away from f32; the passes round at other
    // places, and must not be much further away.
    const auto no_worse = [&](const Tensor& a, const Tensor& b, const Tensor& truth,
                              const char* what) {
      const double passes = distance(a, truth), composed = distance(b, truth);
      std::printf("%s, %s: relative distance from f32 %.4f in passes, %.4f op by op\n",
                  name_of(type), what, passes, composed);
      EXPECT_LT(passes, 3 * composed) << what;
      EXPECT_GT(passes, 0) << what;
    };
    no_worse(got.logits, want.logits, exact.logits, "logits");
    no_worse(got.grads, want.grads, exact.grads, "gradients");
    no_worse(got.values, want.values, exact.values, "parameters after five steps");
  }
}

TEST(Passes, TheStemKeepsNoPictureBetweenItsNormAndItsPooling) {
  const auto kept = [](const std::string& form) {
    const UseBackend use(form);
    Tensor x = Tensor::full({4, 64, 64, 16}, 1).requires_grad(),
           scale = Tensor::full({16}, 1).requires_grad(),
           shift = Tensor::zeros({16}).requires_grad();
    const std::size_t before = memory_stats().in_use;
    const Tensor y = batch_norm_pool({x, scale, shift, {}, {}, {}});
    return memory_stats().in_use - before;
  };
  const std::size_t picture = 4 * 64 * 64 * 16 * sizeof(float), pooled = picture / 4,
                    taken = pooled / 4;
  for (const std::string& form : backend_names())
    EXPECT_LT(kept(form), pooled + taken + (1 << 16)) << form;
}

TEST(Passes, AStepGoesOverItsActivationsAsOftenAsTheReadmeSays) {
  const UseBackend use("cuda_emulated");
  const auto count = [](bool bottleneck) {
    const i64 before = block_launches.load();
    train_small(Device::cpu(), bottleneck, DType::f32, 1);
    return block_launches.load() - before;
  };
  // norms n, among them p pairs that are joined: sums n forward and n - p backward, each with a
  // small kernel that adds its parts; n - p elementwise passes forward and n - p backward. And one
  // for the loss.
  const auto passes = [](i64 n, i64 p) { return 2 * (n + n - p) + 2 * (n - p) + 1; };
  EXPECT_EQ(count(true), passes(1 + 4 * 3 + 2, 2));
  EXPECT_EQ(count(false), passes(1 + 4 * 2 + 1, 1));
  EXPECT_EQ(passes(53, 4), 102 + 102 + 98 + 1);  // ResNet-50: tests/bench/PREDICTIONS-GPU.md
}

TEST(Passes, EvaluationGivesTheSameLogits) {
  nn::seed_initialisation(8);
  const auto model = models::resnet(small_resnet(true));
  const Tensor x = random_images();
  const NoGrad off;
  (*model)(x);  // statistics that are not the initial ones
  model->eval();
  const Tensor want = (*model)(x);
  const UseBackend use("cuda_emulated");
  EXPECT_LT(distance((*model)(x), want), 1e-5);
}

}  // namespace
}  // namespace gossamer
