// Layers: initial values, what they compute, their errors.
#include "gossamer/nn/layers.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/flat.h"
#include "gossamer/nn/init.h"

namespace gossamer::nn {
namespace {

using testing::HasSubstr;

Tensor parameter(const Module& module, const std::string& name) {
  for (const NamedTensor& t : module.state())
    if (t.name == name) return t.tensor;
  return {};
}
Tensor noise(Shape shape, std::uint64_t seed) {
  Rng rng(seed);
  return normal(shape, 0.5f, 2, rng);
}
double mean_of(const Tensor& t) {
  double sum = 0;
  for (const float v : t.span<float>()) sum += v;
  return sum / double(t.numel());
}
double variance_of(const Tensor& t) {
  double sum = 0;
  const double mean = mean_of(t);
  for (const float v : t.span<float>()) sum += (v - mean) * (v - mean);
  return sum / double(t.numel());
}

TEST(Init, NothingIsDrawnForWeightsThatAreLoadedNext) {
  seed_initialisation(3);
  Rng before = init_rng();
  {
    const NoInitialValues outer;
    { const NoInitialValues inner; }
    EXPECT_EQ(Linear(4, 8).parameters().front().tensor.shape(), (Shape{8, 4}));
  }
  EXPECT_EQ(Rng(init_rng()).word(), before.word());
  Linear(4, 8);
  EXPECT_NE(Rng(init_rng()).word(), Rng(before).word());
}

TEST(Init, ConvolutionsStartWithVarianceTwoOverFanOut) {
  seed_initialisation(3);
  const Conv2d conv(64, 128, {.kernel = 3});
  const Tensor w = parameter(conv, "weight");
  EXPECT_EQ(w.shape(), (Shape{128, 3, 3, 64}));
  EXPECT_NEAR(mean_of(w), 0, 5e-4);
  // 73,728 draws: standard deviation of the estimate 0.5 %
  EXPECT_NEAR(variance_of(w) * 128 * 9 / 2, 1, 0.03);
}

TEST(Init, LinearStartsUniformWithinOneOverRootOfItsInputs) {
  seed_initialisation(4);
  const Linear layer(100, 200);
  for (const char* name : {"weight", "bias"}) {
    float largest = 0;
    const Tensor values = parameter(layer, name);
    for (const float v : values.span<float>()) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, 0.1f);
    EXPECT_GT(largest, 0.095f);
  }
}

TEST(Init, TheSeedDecidesAllValues) {
  const auto draw = [](std::uint64_t seed) {
    seed_initialisation(seed);
    return parameter(Linear(3, 3), "weight").as<float>()[4];
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Conv2d, AddsItsBiasToEveryPixel) {
  Conv2d with(3, 4, {.kernel = 1, .bias = true});
  Tensor bias = parameter(with, "bias");
  EXPECT_EQ(mean_of(bias), 0);
  const Tensor x = noise({2, 3, 3, 3}, 1);
  const Tensor before = with(x).clone();
  for (int i = 0; i < 4; ++i) bias.as<float>()[i] = static_cast<float>(i + 1);
  const Tensor after = with(x);
  for (i64 i = 0; i < after.numel(); ++i)
    EXPECT_NEAR(after.as<float>()[i] - before.as<float>()[i], static_cast<float>(i % 4 + 1), 1e-5);
}

TEST(Conv2d, WorksInBfloat16WithAFloatBiasAndGivesFloatGradients) {
  Conv2d conv(3, 4, {.kernel = 3, .padding = 1, .bias = true});
  FlatParams params(conv.parameters(), conv.buffers(), {.compute = DType::bf16});
  const Tensor y = conv(noise({2, 5, 5, 3}, 1).to(DType::bf16));
  EXPECT_EQ(y.dtype(), DType::bf16);
  params.zero_grad();
  sum(y).backward();
  params.settle_grads();
  for (const auto& [name, gradient] : params.windows(params.grads()))
    if (name == "bias") {
      EXPECT_FLOAT_EQ(gradient.as<float>()[0], 50.f);  // 2 x 5 x 5 pixels
    }
}

TEST(Layers, AnInputOfAnotherTypeThanTheWeightIsRefusedWithTheRemedy) {
  Conv2d conv(3, 4);
  Linear layer(3, 4);
  for (Module* m : std::vector<Module*>{&conv, &layer}) {
    FlatParams params(m->parameters(), {}, {.compute = DType::bf16});
    try {
      (*m)(Tensor::zeros(m == &conv ? Shape{1, 4, 4, 3} : Shape{1, 3}));
      ADD_FAILURE() << "accepted";
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cast(x, DType::bf16)"));
    }
  }
}

TEST(Layers, PicturesThatWereNotNormalisedAreRefusedWithTheRemedy) {
  Conv2d conv(3, 4);
  BatchNorm norm(3);
  for (Module* m : std::vector<Module*>{&conv, &norm}) {
    try {
      (*m)(Tensor::zeros({1, 4, 4, 3}, DType::u8));
      ADD_FAILURE() << "accepted";
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(HasSubstr("is u8"), HasSubstr("normalize(images, …)"),
                                 HasSubstr("x.to(DType::f32)")));
    }
  }
}

TEST(Layers, ImpossibleSizesAreRefused) {
  EXPECT_THROW(Conv2d(3, 4, {.groups = 2}), ConfigError);
  EXPECT_THROW(Conv2d(0, 4), ConfigError);
  EXPECT_THROW(Conv2d(3, 4, {.stride = 0}), ConfigError);
  EXPECT_THROW(Linear(3, 0), ConfigError);
  EXPECT_THROW(BatchNorm(0), ConfigError);
  EXPECT_THROW(Dropout(1), ConfigError);
  EXPECT_THROW(Dropout(-0.1f), ConfigError);
}

TEST(BatchNorm, TrainingUpdatesTheRunningStatisticsAndTheCounterAndEvalDoesNot) {
  BatchNorm norm(1);
  // mean 3, unbiased variance 14/3
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 6}, {4, 1});
  norm(x);
  EXPECT_FLOAT_EQ(parameter(norm, "running_mean").item(), 0.3f);
  EXPECT_NEAR(parameter(norm, "running_var").item(), 0.9 + 0.1 * 14 / 3, 1e-6);
  EXPECT_EQ(*parameter(norm, "num_batches_tracked").as<i64>(), 1);
  norm.eval();
  const Tensor y = norm(x);
  EXPECT_NEAR(y.as<float>()[0], (1 - 0.3) / std::sqrt(0.9 + 0.1 * 14 / 3 + 1e-5), 1e-5);
  EXPECT_FLOAT_EQ(parameter(norm, "running_mean").item(), 0.3f);
  EXPECT_EQ(*parameter(norm, "num_batches_tracked").as<i64>(), 1);
}

TEST(BatchNorm, FusedSumAndReluEqualTheSeparateOps) {
  BatchNorm fused(3), plain(3);
  const Tensor x = noise({4, 2, 2, 3}, 1), side = noise({4, 2, 2, 3}, 2);
  const Tensor one = fused.apply(x, true, side), two = relu(add(plain(x), side));
  for (i64 i = 0; i < one.numel(); ++i) EXPECT_NEAR(one.as<float>()[i], two.as<float>()[i], 1e-5);
}

TEST(BatchNorm, ReestimationIsThePlainMeanOverTheBatchesThatFollow) {
  Sequential net;
  net.push(BatchNorm(1)).push(BatchNorm(1));
  const NoGrad no_grad;
  net(noise({8, 1}, 9));  // history that must be forgotten
  double mean = 0, variance = 0;
  estimate_batch_norm(net, [&] {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Tensor x = noise({8, 1}, seed);
      net(x);
      mean += mean_of(x) / 3;
      variance += variance_of(x) * 8 / 7 / 3;
    }
  });
  EXPECT_NEAR(parameter(net, "0.running_mean").item(), mean, 1e-5);
  EXPECT_NEAR(parameter(net, "0.running_var").item(), variance, 1e-4);
  EXPECT_EQ(*parameter(net, "1.num_batches_tracked").as<i64>(), 3);
  // Afterwards the momentum rules again.
  net(noise({8, 1}, 5));
  EXPECT_NEAR(parameter(net, "0.running_mean").item(), 0.9 * mean + 0.1 * mean_of(noise({8, 1}, 5)),
              1e-5);
}

TEST(BatchNorm, ZeroScaleGivesZeroUntilItIsTrained) {
  BatchNorm norm(3, {.zero_scale = true});
  const Tensor y = norm(noise({5, 3}, 1));
  for (const float v : y.span<float>()) EXPECT_EQ(v, 0);
}

TEST(Dropout, MasksFollowSeedAndNumberOfCallsAndEvalIsTheIdentity) {
  const Tensor x = Tensor::full({1000}, 1);
  Dropout a(0.25f, 7), b(0.25f, 7);
  const Tensor first = a(x), second = a(x), again = b(x);
  const auto equal = [](const Tensor& p, const Tensor& q) {
    return std::ranges::equal(p.span<float>(), q.span<float>());
  };
  EXPECT_TRUE(equal(first, again));
  EXPECT_FALSE(equal(first, second));
  EXPECT_NEAR(mean_of(first), 1, 0.1);
  // A resumed run: the counter is part of the state.
  Dropout resumed(0.25f, 7);
  parameter(resumed, "calls").copy_from(parameter(b, "calls"));
  EXPECT_TRUE(equal(resumed(x), second));
  a.eval();
  EXPECT_EQ(a(x).data(), x.data());
}

TEST(Dropout, EachWorkerDrawsMasksOfItsOwn) {
  const Tensor x = Tensor::full({1000}, 1);
  const auto drawn = [&](Dropout& layer) {
    const Tensor y = layer(x);
    return std::vector<float>(y.span<float>().begin(), y.span<float>().end());
  };
  const auto mask_of = [&](int worker) {
    Dropout layer(0.5f, 7);
    layer.draw_for(worker);
    return drawn(layer);
  };
  Dropout alone(0.5f, 7);
  EXPECT_EQ(mask_of(0), drawn(alone));
  EXPECT_NE(mask_of(1), mask_of(0));
  EXPECT_NE(mask_of(2), mask_of(1));
  EXPECT_EQ(mask_of(2), mask_of(2));
}

TEST(Dropout, LayersWithoutASeedDrawDifferentMasksThatTheModelsSeedDecides) {
  const Tensor x = Tensor::full({1000}, 1);
  const auto equal = [](const Tensor& p, const Tensor& q) {
    return std::ranges::equal(p.span<float>(), q.span<float>());
  };
  seed_initialisation(3);
  Dropout a(0.5f), b(0.5f);
  seed_initialisation(3);
  Dropout again(0.5f);
  const Tensor first = a(x);
  EXPECT_FALSE(equal(first, b(x)));
  EXPECT_TRUE(equal(first, again(x)));
}

TEST(Pooling, LayersCallTheOpsWithTheirOptions) {
  const Tensor x = Tensor::full({1, 6, 6, 2}, 3);
  MaxPool2d max({.kernel = 3, .stride = 2, .padding = 1});
  AvgPool2d avg({.kernel = 2, .stride = 2});
  EXPECT_EQ(max(x).shape(), (Shape{1, 3, 3, 2}));
  EXPECT_EQ(avg(x).shape(), (Shape{1, 3, 3, 2}));
}

}  // namespace
}  // namespace gossamer::nn
