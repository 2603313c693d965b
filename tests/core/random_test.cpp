// Philox against its published answers, and the distributions drawn from it.
#include "gossamer/core/random.h"

#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace gossamer {
namespace {

// Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds): counter words 0 … 3, key
// words 0 and 1.
TEST(Philox4x32, MatchesTheKnownAnswersOfItsAuthors) {
  const auto words = [](std::uint64_t counter, std::uint64_t stream, std::uint64_t key) {
    const auto four = Philox(key)(counter, stream);
    return std::vector<std::uint32_t>(four.v, four.v + 4);
  };
  EXPECT_EQ(words(0, 0, 0),
            (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0ull, ~0ull, ~0ull),
            (std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x85a308d3243f6a88ull, 0x0370734413198a2eull, 0x299f31d0a4093822ull),
            (std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RngDraws, RepeatForOneSeedAndDifferBetweenSeedsAndStreams) {
  const auto draw = [](std::uint64_t seed, std::uint64_t stream) {
    Rng rng(seed, stream);
    std::vector<std::uint32_t> words;
    for (int i = 0; i < 10; ++i) words.push_back(rng.word());
    return words;
  };
  EXPECT_EQ(draw(1, 2), draw(1, 2));
  EXPECT_NE(draw(1, 2), draw(1, 3));
  EXPECT_NE(draw(1, 2), draw(2, 2));
}

TEST(RngDraws, AreTheWordsOfPhiloxInOrder) {
  Rng rng(5, 6);
  const Philox philox(5);
  for (std::uint64_t block = 0; block < 3; ++block)
    for (const std::uint32_t word : philox(block, 6).v) EXPECT_EQ(rng.word(), word);
}

constexpr int kDraws = 100000;

template <class F>
std::pair<double, double> mean_and_variance(F&& draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double v = static_cast<double>(draw());
    sum += v;
    squares += v * v;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

// Five standard errors: a right generator fails less than once in a million seeds, and the seed is
// fixed.
TEST(RngDraws, HaveTheMeanAndVarianceOfTheirDistribution) {
  Rng rng(42);
  auto [m, v] = mean_and_variance([&] { return rng.uniform(); });
  EXPECT_NEAR(m, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(v, 1.0 / 12, 0.002);
  std::tie(m, v) = mean_and_variance([&] { return rng.uniform53(); });
  EXPECT_NEAR(m, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  std::tie(m, v) = mean_and_variance([&] { return rng.normal(); });
  EXPECT_NEAR(m, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(v, 1, 5 * std::sqrt(2.0 / kDraws));
  std::tie(m, v) = mean_and_variance([&] { return rng.exponential(); });
  EXPECT_NEAR(m, 1, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(v, 1, 0.06);
  std::tie(m, v) = mean_and_variance([&] { return rng.poisson(1.5); });
  EXPECT_NEAR(m, 1.5, 5 * std::sqrt(1.5 / kDraws));
  EXPECT_NEAR(v, 1.5, 0.06);
  std::tie(m, v) = mean_and_variance([&] { return rng.uniform(-3, 5); });
  EXPECT_NEAR(m, 1, 0.05);
}

TEST(RngDraws, StayInTheirRange) {
  Rng rng(7);
  for (int i = 0; i < kDraws; ++i) {
    const float u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    const double d = rng.uniform53();
    ASSERT_TRUE(d >= 0 && d < 1);
    ASSERT_TRUE(std::isfinite(rng.normal()));
    ASSERT_GE(rng.exponential(), 0);
  }
  EXPECT_LT(to_unit(0xffffffffu), 1);
  EXPECT_EQ(rng.poisson(0), 0);
}

TEST(RngBelow, IsEvenOverItsRange) {
  Rng rng(3);
  for (const std::uint32_t n : {1u, 2u, 7u, 10u}) {
    std::vector<int> counts(n);
    for (int i = 0; i < kDraws; ++i) {
      const std::uint32_t v = rng.below(n);
      ASSERT_LT(v, n);
      ++counts[v];
    }
    const double want = static_cast<double>(kDraws) / n;
    for (const int c : counts) EXPECT_NEAR(c, want, 5 * std::sqrt(want));
  }
  std::set<bool> halves;
  for (int i = 0; i < 100; ++i) halves.insert(rng.below(0xffffffffu) > 0x7fffffffu);
  EXPECT_EQ(halves.size(), 2u);
}

}  // namespace
}  // namespace gossamer
