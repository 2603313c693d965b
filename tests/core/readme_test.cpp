// Runs the examples of core/README.md. That they are the same: tests/apps/readme_paths_test.cpp.
#include <iostream>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

TEST(CoreReadme, ItsExamplePrintsTheGradient) {
  testing::internal::CaptureStdout();
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, -4}, {2, 2});
  Tensor w = Tensor::full({2, 2}, 0.5f);
  w.requires_grad();
  Tensor loss = mean(relu(matmul(x, w)));
  loss.backward();
  const Tensor grad = w.grad();
  for (float g : grad.span<float>()) std::cout << g << ' ';
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "0.25 0.25 0.5 0.5 ");
  EXPECT_EQ(loss.item(), 0.75f);  // x w = 1.5 1.5 / -0.5 -0.5
}

TEST(CoreReadme, ItsExampleOfALossScaleRuns) {
  Tensor x = Tensor::full({2, 2}, 3), w = Tensor::full({2, 2}, 0.5f);
  FlatParams params({{"w", w}}, {}, {.compute = DType::f16, .loss_scale = 1024});
  Tensor y = matmul(x.to(DType::f16), w);
  params.backward(mean(cast(y, DType::f32)));  // instead of backward() of the loss itself
  EXPECT_EQ(w.grad().as<float>()[0], 1024 * 2 * 3 / 4.0f);
}

}  // namespace
}  // namespace gossamer
