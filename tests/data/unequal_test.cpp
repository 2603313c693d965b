// Unequal data: shares of classes after Dirichlet, and the part of a data set that a worker sees.
#include "gossamer/data/unequal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer::data {
namespace {

// Classes in turn; each sample is named after its number.
class Numbers final : public Dataset {
 public:
  Numbers(i64 size, int classes)
      : size_(size), classes_(static_cast<std::size_t>(classes), "class") {}
  i64 size() const override { return size_; }
  int label(i64 i) const override {
    return static_cast<int>(i % static_cast<i64>(classes_.size()));
  }
  std::string name(i64 i) const override { return std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    buffer.assign(1, static_cast<std::byte>(i));
    return buffer;
  }
  const std::vector<std::string>& classes() const override { return classes_; }

 private:
  i64 size_;
  std::vector<std::string> classes_;
};

TEST(Unequal, EverySampleBelongsToOneWorker) {
  for (const double alpha : {.01, .3, 100.0})
    for (const int workers : {1, 2, 7, 64}) {
      const Numbers set(1003, 10);
      std::vector<int> owners(1003);
      for (const auto& part : dirichlet_parts(set, alpha, workers, 5)) {
        EXPECT_TRUE(std::ranges::is_sorted(part));
        for (const i64 i : part) ++owners.at(static_cast<std::size_t>(i));
      }
      EXPECT_EQ(owners, std::vector<int>(1003, 1)) << alpha << " " << workers;
    }
}

TEST(Unequal, IsTheSameForTheSameSeedOnly) {
  const Numbers set(500, 10);
  EXPECT_EQ(dirichlet_parts(set, .3, 4, 1), dirichlet_parts(set, .3, 4, 1));
  EXPECT_NE(dirichlet_parts(set, .3, 4, 1), dirichlet_parts(set, .3, 4, 2));
}

// Of Dirichlet(alpha, …) with k workers a share has mean 1/k and variance (k - 1) / (k² (k alpha +
// 1)), the first worker's as the last one's.
TEST(Unequal, SharesHaveTheMomentsOfDirichlet) {
  constexpr int kWorkers = 4, kClasses = 4000, kOfClass = 200;
  const Numbers set(i64{kClasses} * kOfClass, kClasses);
  for (const double alpha : {.3, 1.0, 10.0}) {
    const auto parts = dirichlet_parts(set, alpha, kWorkers, 3);
    for (int w = 0; w < kWorkers; ++w) {
      std::vector<double> share(kClasses);
      for (const i64 i : parts[static_cast<std::size_t>(w)])
        share[static_cast<std::size_t>(set.label(i))] += 1.0 / kOfClass;
      const double mean = std::accumulate(share.begin(), share.end(), 0.0) / kClasses;
      double variance = 0;
      for (const double s : share) variance += (s - mean) * (s - mean) / kClasses;
      const double expected = (kWorkers - 1.0) / (kWorkers * kWorkers * (kWorkers * alpha + 1));
      EXPECT_NEAR(mean, 1.0 / kWorkers, 5 * std::sqrt(expected / kClasses))
          << alpha << ", worker " << w;
      EXPECT_NEAR(variance, expected, .1 * expected) << alpha << ", worker " << w;
    }
  }
}

TEST(Unequal, APartShowsItsOwnSamplesAndAllClasses) {
  const auto set = std::make_shared<Numbers>(100, 10);
  const auto part = part_of(set, {3, 42, 99});
  std::vector<std::byte> buffer;
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(part->name(1), "42");
  EXPECT_EQ(part->label(2), 9);
  EXPECT_EQ(part->bytes(0, buffer)[0], std::byte{3});
  EXPECT_EQ(part->classes().size(), 10u);
  EXPECT_EQ(part->raw().height, 0);
}

TEST(Unequal, ReadsItsText) {
  EXPECT_EQ(parse_dirichlet("dirichlet:0.3"), .3);
  for (const char* bad : {"dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:nan",
                          "dirichlet:1x", "dirichlet:1e9", "true"})
    EXPECT_NE(error_of([&] { parse_dirichlet(bad); }).find("dirichlet:0.3"), std::string::npos)
        << bad;
}

}  // namespace
}  // namespace gossamer::data
