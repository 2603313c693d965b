// Runs the code blocks of models/README.md.
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

class ModelsReadme : public InTempFolder {};

TEST_F(ModelsReadme, ItsExampleRuns) {
  NoGrad no_grad;
  const Tensor images = Tensor::full({2, 32, 32, 3}, 0.5f);
  auto net = models::make("resnet20-cifar", {.classes = 10, .seed = 1});
  Tensor logits = (*net)(images);  // [N, H, W, 3] -> [N, classes]; any H and W
  EXPECT_EQ(logits.shape(), (Shape{2, 10}));
}

TEST_F(ModelsReadme, ItsModelFileIsOpened) {
  NoGrad no_grad;
  const auto path = file("m.safetensors");
  nn::save(path, *models::make("resnet8-cifar", {.classes = 3}));
  const Tensor image = Tensor::full({1, 32, 32, 3}, 7, DType::u8);
  const auto m = models::open(path);
  const Tensor p = softmax((*m.net)(m.pictures(image)));  // [1, m.classes.size()]
  EXPECT_EQ(p.shape(), (Shape{1, 3}));
}

}  // namespace
}  // namespace gossamer
