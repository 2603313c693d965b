// Runs the smaller code blocks of nn/README.md (its program: readme_example.cpp).
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/nn/layers.h"

namespace gossamer {
namespace {

TEST(NnReadme, StatisticsAreThePlainMeanOverTheBatches) {
  nn::BatchNorm net(1);
  std::vector<Tensor> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(Tensor::full({4, 2, 2, 1}, static_cast<float>(i)));

  nn::estimate_batch_norm(net, [&] {
    for (const Tensor& images : batches) net(images);
  });
  net.eval();

  for (const NamedTensor& t : net.state())
    if (t.name == "running_mean") {
      EXPECT_EQ(t.tensor.as<float>()[0], 1);
    }
}

}  // namespace
}  // namespace gossamer
