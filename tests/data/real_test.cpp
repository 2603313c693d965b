// Real data, where it is: CIFAR-10 as JPEG files in tar shards, and 400 ImageNet photos. Looked for
// in ../shared/data beside the source folder, or in GOSSAMER_TEST_DATA.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

std::filesystem::path data_folder() {
  if (const char* set = std::getenv("GOSSAMER_TEST_DATA")) return set;
  return std::filesystem::path(GOSSAMER_SOURCE_DIR).parent_path() / "shared" / "data";
}

#define NEEDS(path)                   \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << (path).string()     \
               << " is not on this machine; set GOSSAMER_TEST_DATA to a folder with it"

TEST(RealData, CifarShardsHoldFiftyThousandBalancedImages) {
  const auto folder = data_folder() / "cifar10";
  NEEDS(folder);
  std::vector<std::string> shards;
  for (int i = 0; i < 5; ++i)
    shards.push_back((folder / ("train-" + std::to_string(i) + ".tar")).string());
  const auto train = open(shards), val = open({(folder / "test-0.tar").string()});
  ASSERT_EQ(train->size(), 50'000);
  ASSERT_EQ(val->size(), 10'000);
  check_same_classes(*train, *val);
  EXPECT_EQ(val->classes()[3], "cat");
  std::array<int, 10> count{};
  for (i64 i = 0; i < train->size(); ++i) ++count[static_cast<std::size_t>(train->label(i))];
  for (const int c : count) EXPECT_EQ(c, 5000);
}

TEST(RealData, CifarValidationImagesComeOutAsDecoded) {
  const auto path = data_folder() / "cifar10" / "test-0.tar";
  NEEDS(path);
  const auto set = open({path.string()});
  Loader loader(set, {.batch = 500, .size = 32, .threads = 2, .epoch = {.shuffle = false}});
  i64 at = 0;
  for (Batch b = loader.next(); b.images.defined(); b = loader.next()) {
    Bytes buffer;
    const Image image = decode(set->bytes(at, buffer), set->name(at));
    ASSERT_EQ(image.pixels.size(), 32u * 32 * 3);
    ASSERT_TRUE(std::ranges::equal(image.pixels, b.images.slice(0, 1).span<std::uint8_t>()))
        << set->name(at);
    ASSERT_EQ(b.labels.as<std::int32_t>()[0], set->label(at));
    at += b.images.shape(0);
  }
  EXPECT_EQ(at, 10'000);
  EXPECT_EQ(loader.stats().damaged, 0);
}

TEST(RealData, PhotosDecodeAndTheirBoxesEqualCrops) {
  const auto path = data_folder() / "photos" / "photos.tar";
  NEEDS(path);
  const auto set = open({path.string()});
  ASSERT_EQ(set->size(), 400);
  Rng rng(1);
  Bytes buffer;
  for (i64 i = 0; i < 400; i += 10) {
    const auto bytes = set->bytes(i, buffer);
    const Image whole = decode(bytes, set->name(i));
    const Box box = random_resized_crop(probe(bytes, set->name(i)), rng);
    ASSERT_EQ(decode_box(bytes, set->name(i), box).pixels, crop(whole, box).pixels) << set->name(i);
  }
}

TEST(RealData, PhotosTrainAndEvaluateWithoutDamage) {
  const auto path = data_folder() / "photos" / "photos.tar";
  NEEDS(path);
  const auto set = open({path.string()});
  for (const Augment augment : {Augment::resized_crop_flip, Augment::none}) {
    Loader loader(set, {.batch = 40, .size = 224, .augment = augment, .threads = 2});
    double mean = 0;
    const Batch batch = loader.next();
    for (const std::uint8_t v : batch.images.span<std::uint8_t>()) mean += v;
    mean /= static_cast<double>(batch.images.numel());
    EXPECT_GT(mean, 80);  // ImageNet's mean is 115 of 255
    EXPECT_LT(mean, 150);
    EXPECT_EQ(loader.stats().damaged, 0);
  }
}

}  // namespace
}  // namespace gossamer::data
