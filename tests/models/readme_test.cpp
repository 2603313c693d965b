// Runs the code block of models/README.md.
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/models/registry.h"

namespace gossamer {
namespace {

TEST(ModelsReadme, ItsExampleRuns) {
  NoGrad no_grad;
  const Tensor images = Tensor::full({2, 32, 32, 3}, 0.5f);
  auto net = models::make("resnet20-cifar", {.classes = 10, .seed = 1});
  Tensor logits = (*net)(images);  // [N, H, W, 3] -> [N, classes]; any H and W
  EXPECT_EQ(logits.shape(), (Shape{2, 10}));
}

}  // namespace
}  // namespace gossamer
