// What the formulas leave open: NaN, ties, masks, stability, running statistics, and independence
// of the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <gtest/gtest.h>

#include "gossamer/core/blocks.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/ops/rearrange.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "support/stream_of.h"

namespace gossamer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor values(std::vector<float> v) { return Tensor::from(v, {static_cast<i64>(v.size())}); }
Tensor labels(std::vector<std::int32_t> v) { return Tensor::from(v, {static_cast<i64>(v.size())}); }
// on a mutable tensor the name is the setter
bool wants(const Tensor& t) { return t.requires_grad(); }
std::vector<float> list(const Tensor& t) {
  const Tensor wide = t.to(DType::f32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}
Tensor normal(Shape shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}

TEST(Rearranging, MovesEachNumberToItsPlace) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 2, 3});
  EXPECT_EQ(list(transpose(x, 1, 2)), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(transpose(x, 0, 2).shape(), Shape({3, 2, 1}));
  EXPECT_EQ(list(slice_along(x, 2, 1, 3)), (std::vector<float>{2, 3, 5, 6}));
  EXPECT_EQ(list(concat({x, x * 10.0f}, 1)),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(list(concat({x, x * 10.0f}, -1)),
            (std::vector<float>{1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60}));
  EXPECT_EQ(list(sum_along(x, 1)), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(sum_along(x, 1).shape(), Shape({1, 3}));
  EXPECT_EQ(list(sum_along(x, -1)), (std::vector<float>{6, 15}));
}

TEST(Rearranging, NamesTheDimensionOrTheShapesThatDoNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(transpose(x, 0, 2), ShapeError);
  EXPECT_THROW(slice_along(x, 1, 2, 4), ShapeError);
  EXPECT_THROW(slice_along(x, 1, 2, 2), ShapeError);
  EXPECT_THROW(sum_along(x, -3), ShapeError);
  EXPECT_THROW(sum_along(Tensor::zeros({}), 0), ShapeError);
  EXPECT_THROW(concat({}, 0), ShapeError);
  EXPECT_THROW(concat({x, Tensor::zeros({3, 3})}, 1), ShapeError);
  EXPECT_THROW(concat({x, x.to(DType::bf16)}, 0), ShapeError);
}

TEST(Elementwise, BroadcastsTheSecondOperandInThreeWays) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(list(a + a), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(list(a * Tensor::full({}, 3)), (std::vector<float>{3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(list(a - values({1, 0, -1})), (std::vector<float>{0, 2, 4, 3, 5, 7}));
  EXPECT_EQ(list(a / values({1, 2, 3})), (std::vector<float>{1, 1, 1, 4, 2.5, 2}));
  EXPECT_EQ(list(-(2.0f * a + 1.0f)), (std::vector<float>{-3, -5, -7, -9, -11, -13}));
}

TEST(Elementwise, OpsOnNoElementsGiveNoElements) {
  Tensor x = Tensor::empty({0, 4});
  x.requires_grad();
  EXPECT_EQ((relu(x) + values({1, 2, 3, 4})).shape(), (Shape{0, 4}));
  sum(square(x)).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0, 4}));
}

TEST(Elementwise, GradientOfABroadcastIsSummedOnce) {
  Tensor bias = values({1, 2, 3}).requires_grad(), one = Tensor::full({}, 2).requires_grad();
  const Tensor a = Tensor::full({5, 3}, 1);
  sum((a + bias) * one).backward();
  EXPECT_EQ(list(bias.grad()), (std::vector<float>{10, 10, 10}));
  EXPECT_EQ(one.grad().shape(), Shape{});
  EXPECT_FLOAT_EQ(one.grad().item(), 5 * (2 + 3 + 4));
}

TEST(Elementwise, ReluKeepsNanAndHasNoSlopeAtZero) {
  Tensor x = values({-1, 0, 2, kNan}).requires_grad();
  const Tensor y = relu(x);
  EXPECT_EQ(list(y.slice(0, 3)), (std::vector<float>{0, 0, 2}));
  EXPECT_TRUE(std::isnan(list(y)[3]));
  sum(y).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>{0, 0, 1, 0}));
  Tensor z = values({-2, 0, 3}).requires_grad();
  sum(abs(z)).backward();
  EXPECT_EQ(list(z.grad()), (std::vector<float>{-1, 0, 1}));
}

TEST(Elementwise, NormalizeIsPixelOver255MinusMeanOverStd) {
  Tensor images = Tensor::empty({1, 2, 2, 3}, DType::u8);
  for (std::size_t i = 0; i < 12; ++i)
    images.span<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 23);
  const std::array<float, 3> mean{0.5f, 0.4f, 0.3f}, std{0.2f, 0.25f, 0.3f};
  const auto got = list(normalize(images, mean, std));
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(got[i], (static_cast<float>(i * 23) / 255 - mean[i % 3]) / std[i % 3], 1e-6f);
  EXPECT_EQ(normalize(images, mean, std, DType::bf16).dtype(), DType::bf16);
}

TEST(Elementwise, NormalizeTakesAsManyChannelsAsThereAreMeans) {
  for (const std::size_t channels : {1u, 3u, 5u, 64u}) {
    Tensor images = Tensor::empty({1, 2, 1, static_cast<i64>(channels)}, DType::u8);
    std::vector<float> mean, std;
    for (std::size_t i = 0; i < 2 * channels; ++i)
      images.span<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7);
    for (std::size_t c = 0; c < channels; ++c) {
      mean.push_back(static_cast<float>(c) / 100);
      std.push_back(1 + static_cast<float>(c));
    }
    const auto got = list(normalize(images, mean, std, DType::f32));
    for (std::size_t i = 0; i < 2 * channels; ++i) {
      const float byte = static_cast<std::uint8_t>(i * 7);
      EXPECT_NEAR(got[i], (byte / 255 - mean[i % channels]) / std[i % channels], 1e-6f);
    }
    EXPECT_THROW(normalize(images, std::span(mean), std::span(std).first(channels - 1), DType::f32),
                 ShapeError);
    std[0] = 0;
    EXPECT_THROW(normalize(images, mean, std, DType::f32), ShapeError);
    mean.push_back(0), std.push_back(1);
    EXPECT_THROW(normalize(images, mean, std, DType::f32), ShapeError);
  }
}

// The masks of a seed and a stream are fixed for good: a run that goes on draws those of the one
// that stopped, whatever has been built since.
TEST(Dropout, KeepsTheElementsThatPhiloxSays) {
  const Tensor x = Tensor::full({4099}, 1), stream = stream_of((i64{1} << 40) + 3, x);
  const auto y = list(dropout(x, 0.25f, 7, stream)),
             with = list(dropout_add(x, x, 0.25f, 7, stream));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::uint32_t word = Philox(7)(i / 4, (std::uint64_t{1} << 40) + 3).v[i % 4];
    ASSERT_EQ(y[i] != 0, to_unit(word) >= 0.25f) << i;
    ASSERT_EQ(with[i], 1 + y[i]) << i;
  }
}

TEST(Dropout, TakesTheNumbersOfACounterInTurn) {
  const Tensor counter = stream_of(5, Tensor::zeros({})), first = take_number(counter),
               second = take_number(counter);
  EXPECT_EQ(*first.as<i64>(), 5);
  EXPECT_EQ(*second.as<i64>(), 6);
  EXPECT_EQ(*counter.as<i64>(), 7);
  EXPECT_EQ(first.shape(), Shape());
}

TEST(Dropout, KeepsAboutOneMinusPScalesTheRestAndGivesBackwardTheSameMask) {
  Tensor x = Tensor::full({20011}, 1);
  x.requires_grad();
  const Tensor y = dropout(x, 0.25f, 7, stream_of(3, x));
  const auto out = list(y);
  const auto kept = std::ranges::count_if(out, [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 20011, 0.75, 0.02);
  for (const float v : out) EXPECT_TRUE(v == 0 || std::fabs(v - 1 / 0.75f) < 1e-6f) << v;
  sum(y).backward();
  EXPECT_EQ(list(x.grad()), out);
  EXPECT_EQ(list(dropout(x.detach(), 0.25f, 7, stream_of(3, x))), out)
      << "the same call must draw the same mask";
  EXPECT_NE(list(dropout(x.detach(), 0.25f, 7, stream_of(4, x))), out)
      << "another stream must draw another mask";
  EXPECT_NE(list(dropout(x.detach(), 0.25f, 8, stream_of(3, x))), out)
      << "another seed must draw another mask";
}

TEST(Linear, FollowedByAnActivationEqualsBothOpsInSequence) {
  const struct {
    Activation activation;
    Tensor (*op)(const Tensor&);
  } tails[] = {
      {Activation::relu, relu}, {Activation::gelu, gelu}, {Activation::gelu_tanh, gelu_tanh}};
  for (const auto& [activation, op] : tails)
    for (const bool with_bias : {false, true}) {
      const auto leaf = [](Shape shape, std::uint64_t seed) {
        return normal(shape, seed).requires_grad();
      };
      const Tensor x1 = leaf({3, 5, 40}, 1), w1 = leaf({33, 40}, 2), b1 = leaf({33}, 3),
                   x2 = leaf({3, 5, 40}, 1), w2 = leaf({33, 40}, 2), b2 = leaf({33}, 3),
                   g = normal({3, 5, 33}, 4);
      const Tensor y1 = linear(x1, w1, with_bias ? b1 : Tensor(), activation),
                   y2 = op(linear(x2, w2, with_bias ? b2 : Tensor()));
      sum(y1 * g).backward();
      sum(y2 * g).backward();
      const auto close = [](const Tensor& a, const Tensor& b) {
        const auto left = list(a), right = list(b);
        ASSERT_EQ(left.size(), right.size());
        for (std::size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-4f);
      };
      EXPECT_EQ(y1.shape(), (Shape{3, 5, 33}));
      close(y1, y2);
      close(x1.grad(), x2.grad());
      close(w1.grad(), w2.grad());
      if (with_bias) close(b1.grad(), b2.grad());
    }
}

TEST(Gelu, KeepsNanAndTendsToZeroAndToX) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const auto op : {gelu, gelu_tanh}) {
    Tensor x = values({-1e30f, -200, -9, 0, 9, 200, 1e30f, kNan}).requires_grad();
    const Tensor y = op(x);
    const auto out = list(y);
    EXPECT_EQ(std::vector<float>(out.begin() + 3, out.begin() + 7),
              (std::vector<float>{0, 9, 200, 1e30f}));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(out[i], 0, 1e-6f) << i;
    EXPECT_TRUE(std::isnan(out[7]));
    sum(y).backward();
    const auto slope = list(x.grad());
    for (std::size_t i = 0; i < 7; ++i)
      EXPECT_NEAR(slope[i], i < 3 ? 0 : i == 3 ? 0.5f : 1, 1e-6f) << i;
    EXPECT_EQ(list(op(values({inf})))[0], inf);
  }
}

TEST(CrossEntropy, IsStableForHugeLogitsAndExactForSureOnes) {
  const Tensor huge = Tensor::from(std::vector<float>{1e4f, 1e4f, -1e4f, 3e4f, -3e4f, 0}, {2, 3});
  Tensor z = huge.clone().requires_grad();
  const Tensor loss = cross_entropy(z, labels({0, 0}));
  EXPECT_NEAR(loss.item(), 0.5f * std::log(2.0f), 1e-5f);
  loss.backward();
  EXPECT_NEAR(list(z.grad())[0], 0.5f * (0.5f - 1), 1e-6f);
  EXPECT_NEAR(list(z.grad())[1], 0.5f * 0.5f, 1e-6f);
  EXPECT_TRUE(all_finite(z.grad()));
}

TEST(CrossEntropy, GradientOfEachRowSumsToZero) {
  Tensor z = normal({6, 20}, 5).requires_grad();
  cross_entropy(z, labels({0, 19, 3, 3, 7, 11}), {.label_smoothing = 0.2f}).backward();
  for (i64 r = 0; r < 6; ++r) {
    double total = 0;
    const Tensor row = z.grad().slice(r, r + 1);
    for (const float v : row.span<float>()) total += static_cast<double>(v);
    EXPECT_NEAR(total, 0, 1e-7);
  }
}

TEST(CountTopK, CountsTiesAgainstAndNeverCountsNan) {
  const Tensor z =
      Tensor::from(std::vector<float>{1, 2, 3, 2, 2, 1, kNan, 0, -1, kNan, 5, 1}, {4, 3});
  EXPECT_EQ(count_top_k(z.slice(0, 1), labels({2}), 1).item(), 1);
  EXPECT_EQ(count_top_k(z.slice(0, 1), labels({1}), 1).item(), 0);
  EXPECT_EQ(count_top_k(z.slice(0, 1), labels({1}), 2).item(), 1);
  EXPECT_EQ(count_top_k(z.slice(1, 2), labels({0}), 1).item(), 0)
      << "a tie for the first place is not first";
  EXPECT_EQ(count_top_k(z.slice(1, 2), labels({0}), 2).item(), 1);
  EXPECT_EQ(count_top_k(z.slice(2, 3), labels({0}), 3).item(), 0) << "NaN is never right";
  EXPECT_EQ(count_top_k(z.slice(3, 4), labels({1}), 1).item(), 0) << "nor beaten";
  EXPECT_EQ(count_top_k(z, labels({2, 2, 2, 2}), 3).item(), 4);
}

TEST(MaxPool, GivesTheGradientToTheFirstMaximumAndLetsNanThrough) {
  Tensor x = Tensor::full({1, 2, 2, 1}, 3);
  x.requires_grad();
  sum(max_pool2d(x)).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>{1, 0, 0, 0}));
  const Tensor with_nan = Tensor::from(std::vector<float>{1, kNan, 7, 2}, {1, 2, 2, 1});
  EXPECT_TRUE(std::isnan(max_pool2d(with_nan).item()));
  const Tensor low = Tensor::full({1, 3, 3, 1}, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(list(max_pool2d(low, {3, 2, 1}))[0], -std::numeric_limits<float>::infinity());
}

TEST(AvgPool, CountsThePadding) {
  const Tensor x = Tensor::full({1, 2, 2, 1}, 9);
  EXPECT_EQ(list(avg_pool2d(x, {3, 1, 1})), (std::vector<float>(4, 4)));
}

TEST(SubsamplePad, TakesEveryOtherPixelAndPadsChannelsOnBothSides) {
  Tensor x = Tensor::empty({1, 3, 3, 2});
  for (std::size_t i = 0; i < 18; ++i) x.span<float>()[i] = static_cast<float>(i + 1);
  const Tensor y = subsample_pad(x, 2, 5);
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 5}));
  EXPECT_EQ(list(y),
            (std::vector<float>{0, 1, 2, 0, 0, 0, 5, 6, 0, 0, 0, 13, 14, 0, 0, 0, 17, 18, 0, 0}));
}

TEST(BatchNorm, GivesMeanZeroAndVarianceOneAndMovesTheRunningStatistics) {
  const Tensor x = normal({50, 3}, 2) * 3.0f + 5.0f;
  Tensor mean = Tensor::zeros({3}), var = Tensor::full({3}, 1);
  const Tensor y = batch_norm(x, Tensor::full({3}, 1), Tensor::zeros({3}), mean, var);
  for (std::size_t c = 0; c < 3; ++c) {
    double m = 0, v = 0, my = 0, vy = 0;
    for (std::size_t r = 0; r < 50; ++r)
      m += static_cast<double>(x.span<float>()[r * 3 + c]) / 50,
          my += static_cast<double>(y.span<float>()[r * 3 + c]) / 50;
    for (std::size_t r = 0; r < 50; ++r) {
      v += std::pow(static_cast<double>(x.span<float>()[r * 3 + c]) - m, 2);
      vy += std::pow(static_cast<double>(y.span<float>()[r * 3 + c]) - my, 2);
    }
    EXPECT_NEAR(my, 0, 1e-5);
    EXPECT_NEAR(vy / 50, 1, 1e-4);
    EXPECT_NEAR(static_cast<double>(list(mean)[c]), 0.1 * m, 1e-5);
    EXPECT_NEAR(static_cast<double>(list(var)[c]), 0.9 + 0.1 * v / 49, 1e-4)
        << "the running variance is the unbiased one";
  }
}

TEST(BatchNorm, EvaluationUsesTheRunningStatisticsAndLeavesThemAlone) {
  const Tensor x = normal({4, 2}, 3), mean = values({1, -1}), var = values({4, 0.25f});
  const Tensor y =
      batch_norm(x, values({2, 1}), values({0, 3}), mean, var, {.eps = 0, .training = false});
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(list(y)[2 * r], (list(x)[2 * r] - 1) / 2 * 2, 1e-5f);
    EXPECT_NEAR(list(y)[2 * r + 1], (list(x)[2 * r + 1] + 1) / 0.5f + 3, 1e-5f);
  }
  EXPECT_EQ(list(mean), (std::vector<float>{1, -1}));
  EXPECT_EQ(list(var), (std::vector<float>{4, 0.25f}));
}

TEST(BatchNorm, SurvivesAConstantChannelWithALargeMean) {
  const Tensor x = Tensor::full({64, 16}, 1000.25f);
  Tensor mean = Tensor::zeros({16}), var = Tensor::full({16}, 1);
  const Tensor y = batch_norm(x, Tensor::full({16}, 1), Tensor::full({16}, 0.5f), mean, var);
  for (const float v : list(y)) EXPECT_NEAR(v, 0.5f, 0.05f);
  for (const float v : list(var)) EXPECT_NEAR(v, 0.9f, 1e-4f);
}

TEST(Reductions, AreExactForWholeNumbersAndAccurateForMany) {
  EXPECT_EQ(sum(Tensor::full({100000}, 3)).item(), 300000);
  EXPECT_EQ(mean(Tensor::full({123457}, 0.5f)).item(), 0.5f);
  EXPECT_EQ(list(sum_rows(Tensor::full({70001, 3}, 1))), (std::vector<float>(3, 70001)));
  EXPECT_NEAR(squared_norm(Tensor::full({1000003}, 0.1f)),
              1000003 * static_cast<double>(0.1f) * static_cast<double>(0.1f), 1e-6);
}

TEST(Reductions, DoNotDependOnTheNumberOfThreads) {
  const Tensor x = normal({3001, 37}, 9);
  const int before = compute_threads();
  set_compute_threads(1);
  const float total = sum(x).item();
  const auto rows = list(sum_rows(x));
  const double norm = squared_norm(x);
  for (const int threads : {2, 3, 5}) {
    set_compute_threads(threads);
    EXPECT_EQ(sum(x).item(), total);
    EXPECT_EQ(list(sum_rows(x)), rows);
    EXPECT_EQ(squared_norm(x), norm);
  }
  set_compute_threads(before);
}

TEST(Ops, RecordNothingUnderNoGrad) {
  Tensor x = normal({2, 4, 4, 3}, 1).requires_grad(), w = normal({2, 3, 3, 3}, 2).requires_grad();
  const NoGrad off;
  const Tensor y = max_pool2d(relu(conv2d(x, w, {.padding = 1})));
  EXPECT_FALSE(wants(y));
  EXPECT_EQ(Node::live(), 0);
}

}  // namespace
}  // namespace gossamer
