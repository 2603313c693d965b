// SGD and a plain training loop of one worker.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"

namespace gossamer::nn {
namespace {

// Images whose class is the quadrant with the bright spot: learnable, but not by the mean colour.
struct Batch {
  Tensor images, labels;
};
Batch quadrants(i64 n, std::uint64_t seed) {
  Rng rng(seed);
  Batch batch{normal({n, 16, 16, 3}, 0, 0.3f, rng), Tensor::empty({n}, DType::i32)};
  for (i64 i = 0; i < n; ++i) {
    const auto label = static_cast<std::int32_t>(rng.below(4));
    batch.labels.as<std::int32_t>()[i] = label;
    const i64 row = 8 * (label / 2) + rng.below(5), column = 8 * (label % 2) + rng.below(5);
    for (i64 y = row; y < row + 3; ++y)
      for (i64 x = column; x < column + 3; ++x)
        batch.images.as<float>()[((i * 16 + y) * 16 + x) * 3 + i % 3] += 2;
  }
  return batch;
}

TEST(Sgd, FollowsItsFormulaAndSparesVectorsFromWeightDecay) {
  Linear layer(2, 2);
  FlatParams params(layer.parameters());
  Sgd sgd(params, {.momentum = 0.9f, .weight_decay = 0.1f});
  double w = layer.parameters()[0].tensor.as<float>()[1],
         b = layer.parameters()[1].tensor.as<float>()[0], mw = 0, mb = 0;
  for (int step = 0; step < 3; ++step) {
    params.zero_grad();
    sum(layer(Tensor::full({1, 2}, 3))).backward();  // d/dw = 3, d/db = 1
    sgd.step(0.1f, nullptr, {0.5});
    mw = 0.9 * mw + 1.5 + 0.1 * w;
    w -= 0.1 * mw;
    mb = 0.9 * mb + 0.5;
    b -= 0.1 * mb;
    EXPECT_NEAR(layer.parameters()[0].tensor.as<float>()[1], w, 1e-5);
    EXPECT_NEAR(layer.parameters()[1].tensor.as<float>()[0], b, 1e-5);
  }
  ASSERT_EQ(sgd.state().size(), 1u);
  EXPECT_EQ(sgd.state()[0].name, "momentum");
  EXPECT_EQ(sgd.state()[0].tensor.shape(), params.values().shape());
}

TEST(Sgd, AParameterWithoutAGradientOnlyDecays) {
  Linear used(2, 2), unused(2, 2);
  Tensor w = unused.parameters()[0].tensor, b = unused.parameters()[1].tensor;
  std::vector<NamedTensor> all = used.parameters();
  for (NamedTensor t : unused.parameters()) all.push_back({"unused." + t.name, t.tensor});
  FlatParams params(all);
  Sgd sgd(params, {.momentum = 0, .weight_decay = 0.5f});
  params.grads().detach().fill(100);  // leftovers of an earlier step must not act
  params.zero_grad();
  const float before = w.as<float>()[0], bias = b.as<float>()[0];
  sum(used(Tensor::full({1, 2}, 1))).backward();
  sgd.step(0.1f);
  EXPECT_FLOAT_EQ(w.as<float>()[0], before * 0.95f);
  EXPECT_EQ(b.as<float>()[0], bias);
}

TEST(Sgd, ImpossibleOptionsAreRefused) {
  Linear layer(1, 1);
  FlatParams params(layer.parameters());
  EXPECT_THROW(Sgd(params, {.momentum = 1}), ConfigError);
  EXPECT_THROW(Sgd(params, {.momentum = -0.1f}), ConfigError);
  EXPECT_THROW(Sgd(params, {.weight_decay = -1}), ConfigError);
  EXPECT_THROW(Sgd(params, {.momentum = 0, .nesterov = true}), ConfigError);
}

double accuracy(Module& model, const Batch& batch, DType type) {
  const NoGrad no_grad;
  model.eval();
  const double right =
      static_cast<double>(count_top_k(model(batch.images.to(type)), batch.labels, 1).item());
  model.train();
  return right / static_cast<double>(batch.labels.numel());
}

class Training : public testing::TestWithParam<DType> {};
TEST_P(Training, AResNetLearnsWhereTheSpotIsAndLeavesNothingOnTheTape) {
  const auto model = models::make("resnet8-cifar", {.classes = 4, .seed = 1});
  FlatParams params(model->parameters(), model->buffers(), {.compute = GetParam()});
  Sgd sgd(params, {.momentum = 0.9f, .weight_decay = 1e-4f});
  float first = 0, last = 0;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const Batch batch = quadrants(32, step);
    const Tensor loss = cross_entropy((*model)(batch.images.to(GetParam())), batch.labels);
    params.zero_grad();
    loss.backward();
    sgd.step(0.05f);
    last = loss.item();
    if (step == 0) first = last;
  }
  EXPECT_EQ(Node::live(), 0);
  EXPECT_GT(first, 1.0f);
  EXPECT_LT(last, 0.3f * first);
  EXPECT_GT(accuracy(*model, quadrants(100, 1000), GetParam()), 0.8);
}
INSTANTIATE_TEST_SUITE_P(Types, Training, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return name_of(test.param); });

TEST(Training, TwoRunsOfTheSameSeedAreEqualBitForBit) {
  const auto run = [] {
    const auto model = models::make("resnet8-cifar", {.classes = 4, .seed = 3});
    FlatParams params(model->parameters(), model->buffers());
    Sgd sgd(params);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Batch batch = quadrants(8, step);
      params.zero_grad();
      cross_entropy((*model)(batch.images), batch.labels).backward();
      sgd.step(0.1f);
    }
    return params.values().clone();
  };
  const Tensor a = run(), b = run();
  EXPECT_TRUE(std::ranges::equal(a.span<float>(), b.span<float>()));
}

TEST(Training, MemoryIsTheSameAfterFiftyStepsAsAfterFive) {
  // One thread: pieces of a loop that run at once want more scratch memory than pieces in turn, and
  // a busy machine decides which.
  const int threads = compute_threads();
  set_compute_threads(1);
  const auto model = models::make("resnet8-cifar", {.classes = 4, .seed = 5});
  FlatParams params(model->parameters(), model->buffers());
  Sgd sgd(params, {.momentum = 0.9f});
  const Batch batch = quadrants(4, 1);
  MemoryStats early;
  reset_peak();
  for (int step = 1; step <= 50; ++step) {
    params.zero_grad();
    cross_entropy((*model)(batch.images), batch.labels).backward();
    sgd.step(0.01f);
    if (step == 5) early = memory_stats();
  }
  const MemoryStats late = memory_stats();
  EXPECT_EQ(late.peak, early.peak);
  EXPECT_EQ(late.in_use, early.in_use);
  EXPECT_EQ(late.allocations, early.allocations) << "a step asked the system for memory";
  set_compute_threads(threads);
}

}  // namespace
}  // namespace gossamer::nn
