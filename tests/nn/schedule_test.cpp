// Learning-rate curves at the places where they are known. Oracle T21.
#include "gossamer/nn/schedule.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"

namespace gossamer::nn {
namespace {

// The gradients of a run of the A2CiD2 experiments: whole batches of 128 in an epoch, and as many
// for each worker.
int gradients(int n, int images, int epochs) { return n * (epochs * (images / 128) / n); }

// Its recipe for n workers of batch 128: warm-up over 5 "epochs" from 0.1 to 0.1 * 128 n / 256.
struct Recipe {
  double total, peak;
  Schedule rate;
  Recipe(int n, double steps, double epochs, std::vector<double> milestones)
      : total(steps * 128),
        peak(linear_scaling(0.1, n, 128)),
        rate(make_schedule({.kind = "step",
                            .peak = peak,
                            .total = total,
                            .warmup = 5 * std::floor(steps / epochs) * 128,
                            .warmup_from = 0.1,
                            .milestones = milestones})) {}
};

// Local steps of n equal workers at which the warm-up ends and at which the rate drops.
std::vector<int> changes(const Recipe& recipe, int n) {
  std::vector<int> out;
  const int last = static_cast<int>(recipe.total / 128 / n);
  int k = 0;
  while (recipe.rate(double(k) * n * 128) < recipe.peak) ++k;
  out.push_back(k);
  for (++k; k <= last; ++k)
    if (recipe.rate(double(k) * n * 128) < recipe.rate(double(k - 1) * n * 128)) out.push_back(k);
  return out;
}

TEST(Schedule, T21_HasThePublishedStepsOfImageNetOn64And16Workers) {
  EXPECT_EQ(gradients(64, 1'281'167, 90), 64 * 14'075);
  EXPECT_EQ(gradients(64, 1'281'167, 90), 900'800);
  EXPECT_EQ(gradients(16, 1'281'167, 90), 16 * 56'300);
  const Recipe wide(64, 900'800, 90, {0.3, 0.6, 0.8});
  EXPECT_DOUBLE_EQ(wide.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(wide.peak, 3.2);
  EXPECT_EQ(changes(wide, 64), (std::vector{782, 4223, 8445, 11'260}));
  EXPECT_NEAR(wide.rate(wide.total), 0.0032, 1e-15);
  const Recipe narrow(16, 900'800, 90, {0.3, 0.6, 0.8});
  EXPECT_DOUBLE_EQ(narrow.peak, 0.8);
  EXPECT_EQ(changes(narrow, 16), (std::vector{3128, 16'890, 33'780, 45'040}));
}

TEST(Schedule, T21_HasThePublishedStepsOfCifarOn32Workers) {
  EXPECT_EQ(gradients(32, 50'000, 300), 32 * 3'656);
  EXPECT_EQ(gradients(32, 50'000, 300), 116'992);
  const Recipe cifar(32, 116'992, 300, {0.5, 0.75});
  EXPECT_DOUBLE_EQ(cifar.peak, 1.6);
  EXPECT_EQ(changes(cifar, 32), (std::vector{61, 1828, 2742}));
}

TEST(Schedule, CosineStartsAtThePeakAndEndsAtItsFinalRate) {
  const Schedule rate = make_schedule(
      {.kind = "cosine", .peak = 2, .total = 1000, .warmup = 200, .warmup_from = 1, .final = 0.5});
  EXPECT_DOUBLE_EQ(rate(0), 1);
  EXPECT_DOUBLE_EQ(rate(100), 1.5);
  EXPECT_DOUBLE_EQ(rate(200), 2);
  EXPECT_DOUBLE_EQ(rate(600), 1.25);
  EXPECT_DOUBLE_EQ(rate(400), 0.5 + 1.5 * 0.5 * (1 + std::cos(std::acos(-1) / 4)));
  EXPECT_DOUBLE_EQ(rate(1000), 0.5);
  EXPECT_DOUBLE_EQ(rate(5000), 0.5);  // a fast worker may run past the end
}

TEST(Schedule, OneCycleRisesForThirtyPercentUnlessToldOtherwise) {
  const Schedule rate = make_schedule({.kind = "one-cycle", .peak = 1, .total = 100});
  EXPECT_DOUBLE_EQ(rate(0), 0);
  EXPECT_DOUBLE_EQ(rate(15), 0.5);
  EXPECT_DOUBLE_EQ(rate(30), 1);
  EXPECT_DOUBLE_EQ(rate(65), 0.5);
  EXPECT_DOUBLE_EQ(rate(100), 0);
  EXPECT_DOUBLE_EQ(make_schedule({.kind = "one-cycle", .peak = 1, .total = 100, .warmup = 50})(75),
                   0.5);
}

TEST(Schedule, LinearFallsFromTheWarmUpToTheEnd) {
  const Schedule rate =
      make_schedule({.kind = "linear", .peak = 1, .total = 110, .warmup = 10, .final = 0.2});
  EXPECT_DOUBLE_EQ(rate(5), 0.5);
  EXPECT_DOUBLE_EQ(rate(10), 1);
  EXPECT_DOUBLE_EQ(rate(60), 0.6);
  EXPECT_DOUBLE_EQ(rate(110), 0.2);
  EXPECT_DOUBLE_EQ(rate(200), 0.2);
  EXPECT_DOUBLE_EQ(make_schedule({.kind = "linear", .peak = 1, .total = 10})(0), 1);
}

// Hu et al. 2024: lr(k) = peak (1 - (k - S)/(N - S)) behind the plateau, which ends at S.
TEST(Schedule, WsdStaysAtItsPeakAndFallsAtTheEnd) {
  const auto with = [](double total, double decay) {
    return make_schedule({.kind = "wsd", .peak = 2, .total = total, .warmup = 10, .decay = decay});
  };
  const Schedule rate = with(100, 0.2);
  EXPECT_DOUBLE_EQ(rate(5), 1);
  EXPECT_DOUBLE_EQ(rate(10), 2);
  EXPECT_DOUBLE_EQ(rate(80), 2);
  EXPECT_DOUBLE_EQ(rate(95), 0.5);
  EXPECT_DOUBLE_EQ(rate(100), 0);
  EXPECT_DOUBLE_EQ(with(100, 0)(99.9), 2) << "no fall";
  // A longer run has the same plateau, so it goes on from any point of the shorter one's.
  for (const double at : {3.0, 20.0, 80.0}) EXPECT_DOUBLE_EQ(with(500, 0.1)(at), rate(at));
  EXPECT_THROW(with(100, 0.95), ConfigError);
  EXPECT_THROW(with(100, 1.1), ConfigError);
}

TEST(Schedule, InverseSqrtFallsFromTheEndOfTheWarmUp) {
  const Schedule rate = make_schedule(
      {.kind = "inverse-sqrt", .peak = 2, .total = 1000, .warmup = 100, .warmup_from = 1});
  EXPECT_DOUBLE_EQ(rate(0), 1);
  EXPECT_DOUBLE_EQ(rate(50), 1.5);
  EXPECT_DOUBLE_EQ(rate(100), 2);
  EXPECT_DOUBLE_EQ(rate(400), 1);
  EXPECT_DOUBLE_EQ(rate(10'000), 0.2);
  EXPECT_THROW(make_schedule({.kind = "inverse-sqrt", .total = 10}), ConfigError);
}

TEST(Schedule, ConstantStaysAtItsPeakAfterTheWarmUp) {
  const Schedule rate = make_schedule({.kind = "constant", .peak = 0.3, .total = 10, .warmup = 2});
  EXPECT_DOUBLE_EQ(rate(1), 0.15);
  EXPECT_DOUBLE_EQ(rate(2), 0.3);
  EXPECT_DOUBLE_EQ(rate(99), 0.3);
}

TEST(Schedule, WarmUpOverTheWholeRunIsAllowed) {
  EXPECT_DOUBLE_EQ(make_schedule({.kind = "cosine", .peak = 1, .total = 10, .warmup = 10})(5), 0.5);
}

TEST(Schedule, LinearScalingMultipliesByTheGlobalBatch) {
  EXPECT_DOUBLE_EQ(linear_scaling(0.1, 8, 32), 0.1);
  EXPECT_DOUBLE_EQ(linear_scaling(0.1, 4, 128), 0.2);
  EXPECT_DOUBLE_EQ(linear_scaling(0.05, 1, 32, 128), 0.0125);
  EXPECT_THROW(linear_scaling(0.1, 0, 32), ConfigError);
}

TEST(Schedule, BadOptionsAreRefusedByName) {
  try {
    make_schedule({.kind = "triangle"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("\"triangle\""),
                                             testing::HasSubstr("one-cycle")));
  }
  EXPECT_THROW(make_schedule({.peak = -1}), ConfigError);
  EXPECT_THROW(make_schedule({.peak = NAN}), ConfigError);
  EXPECT_THROW(make_schedule({.total = 0}), ConfigError);
  EXPECT_THROW(make_schedule({.total = 10, .warmup = 11}), ConfigError);
  EXPECT_THROW(make_schedule({.kind = "step", .milestones = {0.6, 0.3}}), ConfigError);
  EXPECT_THROW(make_schedule({.kind = "step", .milestones = {1.5}}), ConfigError);
}

}  // namespace
}  // namespace gossamer::nn
