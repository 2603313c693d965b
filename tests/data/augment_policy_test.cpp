// Recipes: the same pixels for the same generator, torchvision's probabilities, any picture however
// small, clear refusals.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/augment/preparer.h"

namespace gossamer::data {
namespace {

using testing::HasSubstr;

Pixels pixels(Image& image) { return {image.pixels.data(), image.height, image.width}; }

std::vector<std::uint8_t> after(const PixelStep& step, Image image, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::uint8_t> scratch{1, 2, 3};
  apply(step, pixels(image), rng, scratch);
  return image.pixels;
}

TEST(Policy, IsAFunctionOfPictureAndGenerator) {
  const Image image = pattern(31, 22);
  for (const PixelStep& step :
       {PixelStep(ColourJitter{0.4, 0.4, 0.4, 0.2}), PixelStep(RandAugment{}),
        PixelStep(TrivialAugmentWide{}), PixelStep(RandomErasing{.probability = 1})}) {
    int different = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      ASSERT_EQ(after(step, image, seed), after(step, image, seed));
      different += after(step, image, seed) != after(step, image, seed + 1);
    }
    EXPECT_GE(different, 14);
  }
}

TEST(Policy, DrawsEveryOperationAsOften) {
  const Image image = pattern(24, 24);
  const int draws = 20'000;
  std::vector<std::uint8_t> scratch;
  std::array<int, kPolicyOps> count{};
  for (int i = 0; i < draws; ++i) {
    Rng rng(7, static_cast<std::uint64_t>(i)), same(7, static_cast<std::uint64_t>(i));
    Image copy = image;
    apply(PixelStep(TrivialAugmentWide{}), pixels(copy), rng, scratch);
    const auto op = static_cast<PolicyOp>(same.below(kPolicyOps));
    const Strength s = trivial_augment_strength(op, static_cast<int>(same.below(kMagnitudes)));
    const double value = s.either_sign && same.below(2) ? -s.value : s.value;
    Image wanted = image;
    apply(op, value, pixels(wanted), Filter::nearest, scratch);
    ASSERT_EQ(copy.pixels, wanted.pixels);
    ++count[static_cast<std::size_t>(op)];
  }
  double chi2 = 0;
  for (const int c : count) chi2 += (c - draws / 14.0) * (c - draws / 14.0) / (draws / 14.0);
  EXPECT_LT(chi2, 13 + 5 * std::sqrt(26.0));
}

TEST(ColourJitter, StaysInItsRange) {
  // One gray pixel: brightness scales it, and nothing else changes it.
  double sum = 0, low = 1e9, high = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const auto out = after(ColourJitter{.brightness = 0.5}, flat(1, 1, 100, 100, 100), seed);
    sum += out[0];
    low = std::min<double>(low, out[0]);
    high = std::max<double>(high, out[0]);
  }
  EXPECT_GE(low, 50);
  EXPECT_LE(low, 51);
  // 150 itself has probability 0; Pillow cuts off
  EXPECT_EQ(high, 149);
  EXPECT_NEAR(sum / 4000, 99.5, 2);
}

TEST(ColourJitter, AppliesItsFourChangesInAnyOrder) {
  const Image image = pattern(9, 8);
  std::set<std::array<int, 4>> orders;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    std::array<int, 4> order{0, 1, 2, 3};
    for (std::uint32_t i = 4; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    double factor[4];
    for (double& f : factor) f = rng.uniform53();
    Image wanted = image;
    for (const int i : order) {
      if (i == 0) brightness(pixels(wanted), 0.6 + 0.8 * factor[0]);
      if (i == 1) contrast(pixels(wanted), 0.7 + 0.6 * factor[1]);
      if (i == 2) saturation(pixels(wanted), 2 * factor[2]);  // never below 0
      if (i == 3) hue(pixels(wanted), -0.1 + 0.2 * factor[3]);
    }
    const auto out = after(ColourJitter{0.4, 0.3, 1, 0.1}, image, seed);
    // the factors' last bits
    for (std::size_t k = 0; k < out.size(); ++k) ASSERT_NEAR(out[k], wanted.pixels[k], 1) << seed;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 24u);
}

TEST(RandomErasing, ErasesAsOftenAndAsMuchAsAsked) {
  const RandomErasing step{.probability = 0.4, .fill = {1, 2, 3}};
  int erased = 0;
  double area = 0;
  const int draws = 4000, side = 64;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const auto out = after(step, flat(side, side, 200, 200, 200), seed);
    int inside = 0, left = side, right = -1, top = side, bottom = -1;
    for (int i = 0; i < side * side; ++i) {
      if (out[static_cast<std::size_t>(3 * i)] == 200) continue;
      ASSERT_EQ(out[static_cast<std::size_t>(3 * i + 1)], 2);
      ASSERT_EQ(out[static_cast<std::size_t>(3 * i + 2)], 3);
      ++inside;
      left = std::min(left, i % side), right = std::max(right, i % side),
      top = std::min(top, i / side), bottom = std::max(bottom, i / side);
    }
    if (inside == 0) continue;
    ASSERT_EQ(inside, (right - left + 1) * (bottom - top + 1));  // one rectangle
    ++erased;
    area += static_cast<double>(inside) / (side * side);
  }
  EXPECT_NEAR(erased / static_cast<double>(draws), 0.4, 0.03);
  // nearly uniform between 0.02 and 0.33: long ones don't fit and are drawn again
  EXPECT_NEAR(area / erased, 0.17, 0.02);
}

// Boxes by area, aspect and place.
std::size_t bin_of(Box box, ImageSize whole) {
  const double area = static_cast<double>(box.width) * box.height /
                      (static_cast<double>(whole.width) * whole.height);
  const double aspect = std::log(static_cast<double>(box.width) / box.height) / std::log(4.0 / 3);
  const double x =
      whole.width > box.width ? static_cast<double>(box.x) / (whole.width - box.width + 1) : 0;
  const double y =
      whole.height > box.height ? static_cast<double>(box.y) / (whole.height - box.height + 1) : 0;
  const auto bin = [](double v, int bins) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(v * bins), 0, bins - 1));
  };
  return ((bin(area, 8) * 4 + bin((aspect + 1) / 2, 4)) * 3 + bin(x, 3)) * 3 + bin(y, 3);
}

TEST(RandomResizedCrop, FollowsTorchvisionsDistribution) {
  const SafeTensors golden = read_safetensors(std::filesystem::path(GOSSAMER_SOURCE_DIR) /
                                              "tests/golden/augment.safetensors");
  int compared = 0;
  for (const ImageSize whole : {ImageSize{500, 375}, ImageSize{333, 500}, ImageSize{40, 200}}) {
    const Tensor* theirs = golden.find("crop_boxes/" + std::to_string(whole.width) + "x" +
                                       std::to_string(whole.height));
    ASSERT_NE(theirs, nullptr);
    const auto counts = theirs->span<std::int32_t>();
    const int draws = 100'000;
    std::vector<int> ours(counts.size());
    for (int i = 0; i < draws; ++i) {
      Rng rng(3, static_cast<std::uint64_t>(i));
      ++ours[bin_of(random_resized_crop(whole, rng), whole)];
    }
    // Two samples: chi-square with one term for each bin that holds enough.
    const double theirs_all = std::accumulate(counts.begin(), counts.end(), 0.0),
                 a = std::sqrt(theirs_all / draws);
    double chi2 = 0;
    int freedom = -1;
    for (std::size_t b = 0; b < ours.size(); ++b) {
      const double both = ours[b] + counts[b];
      if (both < 40) continue;
      chi2 += std::pow(a * ours[b] - counts[b] / a, 2) / both;
      ++freedom;
    }
    EXPECT_GT(freedom, 20);
    EXPECT_LT(chi2, freedom + 4 * std::sqrt(2.0 * freedom)) << whole.width << "x" << whole.height;
    EXPECT_GT(chi2, freedom - 4 * std::sqrt(2.0 * freedom)) << whole.width << "x" << whole.height;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

PixelStep random_step(Rng& rng) {
  const Filter filter = rng.below(2) ? Filter::bilinear : Filter::nearest;
  switch (rng.below(4)) {
    case 0:
      return ColourJitter{2 * rng.uniform53(), 2 * rng.uniform53(), 2 * rng.uniform53(),
                          0.5 * rng.uniform53()};
    case 1:
      return RandAugment{1 + static_cast<int>(rng.below(4)),
                         static_cast<int>(rng.below(kMagnitudes)), filter};
    case 2:
      return TrivialAugmentWide{filter};
    default:
      return RandomErasing{.probability = 1, .min_area = 0.5 * rng.uniform53(), .max_area = 1};
  }
}

// Whatever the picture, a recipe makes size x size pixels and writes nowhere else.
TEST(Recipes, WorkOnPicturesOfAnySize) {
  Rng rng(11);
  const int sides[] = {1, 2, 3, 7, 64, 500};
  Preparer preparer;
  for (int i = 0; i < 300; ++i) {
    const int width = sides[rng.below(6)], height = sides[rng.below(6)];
    const Image image = pattern(width, height);
    Recipe recipe{.augment = static_cast<Augment>(rng.below(3)),
                  .size = 1 + static_cast<int>(rng.below(i % 10 ? 24 : 200)),
                  .pad = static_cast<int>(rng.below(6))};
    recipe.resize = recipe.size + static_cast<int>(rng.below(20));
    recipe.min_area = 0.01f + 0.9f * rng.uniform();
    for (std::uint32_t s = rng.below(4); s > 0; --s) recipe.steps.push_back(random_step(rng));
    const Bytes file = i % 2 ? make_png(image) : Bytes{};
    std::vector<std::uint8_t> out(recipe.bytes() + 64, 0xa5);
    Rng draw(static_cast<std::uint64_t>(i));
    const auto raw = std::as_bytes(std::span(image.pixels));
    const Sample sample = i % 2 ? Sample{file, "picture"} : Sample{raw, "picture", {width, height}};
    preparer.read(sample, recipe, draw);
    preparer.finish(out.data());
    ASSERT_EQ(std::count(out.end() - 64, out.end(), 0xa5), 64)
        << width << "x" << height << " to " << recipe.size;
  }
}

// Of two threads that make the same image only one may write it: reading writes nothing. A damaged
// image is known as such before.
TEST(Recipes, ReadingFindsDamageAndFinishingWritesTheSameImageEachTime) {
  const Bytes whole = encode_jpeg(pattern(60, 40), {.quality = 90}),
              cut(whole.begin(), whole.end() - whole.size() / 3);
  Rng steps(3);
  Preparer preparer, other;
  for (const Augment augment : {Augment::none, Augment::pad_crop_flip, Augment::resized_crop_flip})
    for (const bool more : {false, true}) {
      Recipe recipe{.augment = augment, .size = 24, .resize = 24};
      if (more) recipe.steps = {random_step(steps), random_step(steps)};
      Rng a(5), b(5), c(5);
      EXPECT_THROW(preparer.read({cut, "x.jpg"}, recipe, a), DataError);
      preparer.read({whole, "x.jpg"}, recipe, b);
      other.read({whole, "x.jpg"}, recipe, c);
      std::vector<std::uint8_t> first(recipe.bytes(), 0xa5), second(recipe.bytes(), 0x5a);
      preparer.finish(first.data());
      other.finish(second.data());
      EXPECT_EQ(first, second);
      second.assign(second.size(), 1);
      preparer.finish(second.data());
      EXPECT_EQ(first, second);
    }
}

TEST(PixelOperations, WorkOnPicturesOfAnySize) {
  std::vector<std::uint8_t> scratch;
  for (const int width : {1, 2, 3, 5, 17})
    for (const int height : {1, 2, 3, 5, 17})
      for (int op = 0; op < kPolicyOps; ++op)
        for (const int magnitude : {0, 1, 15, 20, 30})
          for (const double sign : {1.0, -1.0})
            for (const Filter filter : {Filter::nearest, Filter::bilinear}) {
              Image image = pattern(width, height);
              image.pixels.resize(image.pixels.size() + 32, 0x5a);
              apply(static_cast<PolicyOp>(op),
                    sign * trivial_augment_strength(static_cast<PolicyOp>(op), magnitude).value,
                    pixels(image), filter, scratch);
              ASSERT_EQ(std::count(image.pixels.end() - 32, image.pixels.end(), 0x5a), 32)
                  << op << " on " << width << "x" << height;
            }
}

TEST(Crops, AreReadFromTheirTexts) {
  EXPECT_EQ(parse_crop("none").augment, Augment::none);
  EXPECT_EQ(parse_crop("pad-crop-flip").pad, -1);
  const CropChoice all = parse_crop("pad-crop-flip:2:reflect:alternating");
  EXPECT_EQ(all.augment, Augment::pad_crop_flip);
  EXPECT_EQ(all.pad, 2);
  EXPECT_TRUE(all.reflect && all.alternating);
  const CropChoice resized = parse_crop("resized-crop-flip:alternating");
  EXPECT_EQ(resized.augment, Augment::resized_crop_flip);
  EXPECT_TRUE(resized.alternating && !resized.reflect);
  for (const char* wrong :
       {"", "pad", "none:alternating", "resized-crop-flip:reflect", "resized-crop-flip:4",
        "pad-crop-flip:-1", "pad-crop-flip:2:3", "pad-crop-flip:2x", "pad-crop-flip:99999999999"})
    EXPECT_THAT(error_of<ConfigError>([&] { parse_crop(wrong); }), HasSubstr("is no crop"))
        << wrong;
}

TEST(PixelSteps, AreReadFromTheirTexts) {
  const auto jitter = std::get<ColourJitter>(parse_pixel_step("colour-jitter:0.4:0.3:0.2:0.1"));
  EXPECT_EQ(jitter.brightness, 0.4);
  EXPECT_EQ(jitter.hue, 0.1);
  EXPECT_EQ(std::get<ColourJitter>(parse_pixel_step("color-jitter:0.4")).contrast, 0);
  const auto rand = std::get<RandAugment>(parse_pixel_step("rand-augment:3:12:bilinear"));
  EXPECT_EQ(rand.ops, 3);
  EXPECT_EQ(rand.magnitude, 12);
  EXPECT_EQ(rand.filter, Filter::bilinear);
  EXPECT_EQ(std::get<RandAugment>(parse_pixel_step("rand-augment")).magnitude, 9);
  EXPECT_EQ(std::get<RandAugment>(parse_pixel_step("randaugment:3:12:bilinear")).magnitude, 12);
  EXPECT_EQ(std::get<TrivialAugmentWide>(parse_pixel_step("trivial-augment-wide:bilinear")).filter,
            Filter::bilinear);
  EXPECT_EQ(std::get<RandomErasing>(parse_pixel_step("random-erasing:0.1")).probability, 0.1);
  const std::pair<const char*, const char*> wrong[] = {
      {"", "is unknown"},
      {"cutout", "is unknown; use colour-jitter:B:C:S:H"},
      {"rand-augment:2:9:1", "takes at most 2 numbers"},
      {"rand-augment:2.5", "2.5 is not a whole number"},
      {"rand-augment:two", "\"two\" is no number"},
      {"rand-augment:2:31", "magnitude 31; use 0 to 30"},
      {"colour-jitter:0.4:0:0:0.6", "hue 0.6; it must be 0 to 0.5"},
      {"colour-jitter:-1", "brightness -1"},
      {"random-erasing:1.5", "probability 1.5"},
      {"random-erasing:nan", "is no number"},
      {"random-erasing:0.1:0.5:0.2", "areas 0.5 to 0.2"},
      {"trivial-augment-wide:3", "takes at most 0 numbers"}};
  for (const auto& [text, words] : wrong)
    EXPECT_THAT(error_of<ConfigError>([&, text = text] { parse_pixel_step(text); }),
                HasSubstr(words))
        << text;
}

}  // namespace
}  // namespace gossamer::data
