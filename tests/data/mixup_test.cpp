// Beta variables follow their distribution, the plan of a batch keeps its promises about area and
// weight.
#include "gossamer/data/augment/mixup.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"

namespace gossamer::data {
namespace {

using testing::HasSubstr;

TEST(Beta, HasItsMeanAndVariance) {
  for (const auto& [a, b] : {std::pair{0.2, 0.2}, std::pair{1.0, 1.0}, std::pair{2.0, 5.0},
                             std::pair{0.5, 3.0}, std::pair{30.0, 30.0}}) {
    const int draws = 40'000;
    double sum = 0, squares = 0;
    for (int i = 0; i < draws; ++i) {
      Rng rng(5, static_cast<std::uint64_t>(i));
      const double v = draw_beta(rng, a, b);
      ASSERT_TRUE(v >= 0 && v <= 1);
      sum += v;
      squares += v * v;
    }
    const double mean = a / (a + b), variance = a * b / ((a + b) * (a + b) * (a + b + 1));
    EXPECT_NEAR(sum / draws, mean, 4 * std::sqrt(variance / draws)) << a << " " << b;
    EXPECT_NEAR(squares / draws - sum / draws * sum / draws, variance, 0.04 * variance)
        << a << " " << b;
  }
}

TEST(Beta, OfOneAndOneIsUniform) {
  std::vector<double> v;
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) v.push_back(draw_beta(rng, 1, 1));
  std::ranges::sort(v);
  double distance = 0;  // Kolmogorov and Smirnov's
  for (std::size_t i = 0; i < v.size(); ++i)
    distance = std::max(
        distance, std::abs(v[i] - (static_cast<double>(i) + 0.5) / static_cast<double>(v.size())));
  EXPECT_LT(distance, 1.95 / std::sqrt(20'000.0));  // one in a thousand
}

TEST(Beta, OfTinyShapesIsNearlyACoin) {
  int high = 0, between = 0;
  for (int i = 0; i < 4000; ++i) {
    Rng rng(1, static_cast<std::uint64_t>(i));
    const double v = draw_beta(rng, 1e-3, 1e-3);
    ASSERT_TRUE(std::isfinite(v));
    high += v > 0.5;
    between += v > 0.01 && v < 0.99;
  }
  EXPECT_NEAR(high / 4000.0, 0.5, 0.04);
  EXPECT_LT(between, 60);
  Rng rng(1);
  EXPECT_THAT(error_of<ConfigError>([&] { draw_beta(rng, 0, 1); }),
              HasSubstr("both must be above 0"));
}

TEST(MixPlan, IsAFunctionOfTheGenerator) {
  for (std::uint64_t s = 0; s < 50; ++s) {
    Rng a(1, s), b(1, s);
    const MixPlan p = draw_mix({0.2, 1}, 224, 192, a), q = draw_mix({0.2, 1}, 224, 192, b);
    EXPECT_EQ(p.own, q.own);
    EXPECT_EQ(p.plan, q.plan);
  }
  Rng rng(0);
  EXPECT_EQ(draw_mix({}, 8, 8, rng).own, 1);
  EXPECT_THAT(error_of<ConfigError>([&] {
                draw_mix({-1, 0}, 8, 8, rng);
              }),
              HasSubstr("neither can be negative"));
}

TEST(MixPlan, WeighsTheLabelByWhatIsLeftOfThePicture) {
  int cut = 0, whole = 0;
  double own = 0;
  for (std::uint64_t s = 0; s < 4000; ++s) {
    Rng rng(2, s);
    const MixPlan p = draw_mix({0.4, 1}, 40, 56, rng);
    if (p.plan[0] == p.plan[1]) {  // mixup: one share everywhere
      EXPECT_FLOAT_EQ(p.plan[0], static_cast<float>(p.own));
      ++whole;
      continue;
    }
    ++cut;
    EXPECT_EQ(p.plan[0], 1);
    EXPECT_EQ(p.plan[1], 0);
    int kept = 0;
    for (int y = 0; y < 40; ++y)
      for (int x = 0; x < 56; ++x)
        kept += !(static_cast<float>(y) >= p.plan[2] && static_cast<float>(y) < p.plan[3] &&
                  static_cast<float>(x) >= p.plan[4] && static_cast<float>(x) < p.plan[5]);
    ASSERT_NEAR(p.own, kept / (40.0 * 56), 1e-9);
    own += p.own;
  }
  EXPECT_NEAR(cut / 4000.0, 0.5, 0.04);
  EXPECT_GT(whole, 0);
  EXPECT_GT(own / cut, 0.5);  // rectangles are cut at the edges
}

}  // namespace
}  // namespace gossamer::data
