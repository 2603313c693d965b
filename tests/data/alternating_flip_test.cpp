// A flip that is not drawn: each picture is the other way round in every other epoch.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

constexpr int kSide = 20;

// Raw pictures, each of another brightness.
class Raws final : public Dataset {
 public:
  explicit Raws(int count) {
    for (int i = 0; i < count; ++i) {
      pictures_.push_back(pattern(kSide, kSide).pixels);
      for (auto& p : pictures_.back()) p = static_cast<std::uint8_t>(p / 2 + i);
    }
  }
  i64 size() const override { return static_cast<i64>(pictures_.size()); }
  int label(i64 i) const override { return static_cast<int>(i); }
  std::string name(i64 i) const override { return std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>&) const override {
    return std::as_bytes(std::span(picture(i)));
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  Raw raw() const override { return {kSide, kSide}; }
  const std::vector<std::uint8_t>& picture(i64 i) const {
    return pictures_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<std::vector<std::uint8_t>> pictures_;
  std::vector<std::string> classes_ = std::vector<std::string>(64);
};

std::vector<std::uint8_t> mirrored(std::vector<std::uint8_t> picture) {
  for (auto row = picture.begin(); row != picture.end(); row += 3 * kSide)
    for (int x = 0; x < kSide / 2; ++x)
      std::swap_ranges(row + 3 * x, row + 3 * x + 3, row + 3 * (kSide - 1 - x));
  return picture;
}

// By number, in whatever order they came.
std::vector<std::vector<std::uint8_t>> epoch(Loader& loader, i64 count) {
  const Batch batch = loader.next();
  std::vector<std::vector<std::uint8_t>> out(static_cast<std::size_t>(count));
  const auto pixels = batch.images.span<std::uint8_t>();
  for (i64 i = 0; i < count; ++i) {
    const auto one = pixels.subspan(static_cast<std::size_t>(i) * 3 * kSide * kSide,
                                    std::size_t{3} * kSide * kSide);
    out[static_cast<std::size_t>(batch.labels.as<std::int32_t>()[i])] = {one.begin(), one.end()};
  }
  EXPECT_FALSE(loader.next().labels.defined());
  return out;
}

TEST(AlternatingFlip, ShowsEachPictureTheOtherWayRoundInEveryOtherEpoch) {
  const auto set = std::make_shared<Raws>(64);
  for (const Augment augment : {Augment::pad_crop_flip, Augment::resized_crop_flip}) {
    Loader loader(set, {.batch = 64,
                        .size = kSide,
                        .augment = augment,
                        .pad = 0,
                        .min_area = 1,
                        .alternating = true});
    const auto first = epoch(loader, 64), second = epoch(loader, 64), third = epoch(loader, 64);
    EXPECT_EQ(first, third);
    int flipped = 0;
    for (i64 i = 0; i < 64; ++i) {
      const auto& one = first[static_cast<std::size_t>(i)];
      ASSERT_EQ(second[static_cast<std::size_t>(i)], mirrored(one)) << i;
      ASSERT_TRUE(one == set->picture(i) || one == mirrored(set->picture(i))) << i;
      flipped += one != set->picture(i);
    }
    EXPECT_NEAR(flipped, 32, 16);
  }
}

}  // namespace
}  // namespace gossamer::data
