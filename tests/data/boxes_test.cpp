// A loader that hands over boxes, resized by input_pass, against one that resizes: the same
// pictures, whatever the threads do.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/memory.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

using testing::HasSubstr;

// Pictures of odd sizes: JPEG, PNG, or raw pixels of one size. `bad` ones are cut in half.
class Photos : public Dataset {
 public:
  Photos(int count, bool raw = false, std::set<i64> bad = {}) : raw_(raw) {
    for (int i = 0; i < count; ++i) {
      const int width = raw ? 33 : 29 + 17 * (i % 5), height = raw ? 27 : 31 + 11 * (i % 7);
      Image image = pattern(width, height);
      for (auto& p : image.pixels) p = static_cast<std::uint8_t>(p / 2 + i * 3);
      if (raw)
        files_.push_back(to_bytes({image.pixels.begin(), image.pixels.end()}));
      else if (i % 4 == 3)
        files_.push_back(make_png(image));
      else
        files_.push_back(encode_jpeg(image));
      if (bad.contains(i)) files_.back().resize(files_.back().size() / 2);
    }
  }
  i64 size() const override { return static_cast<i64>(files_.size()); }
  int label(i64 i) const override { return static_cast<int>(i); }
  std::string name(i64 i) const override { return "photo/" + std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>&) const override {
    return files_[static_cast<std::size_t>(i)];
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  Raw raw() const override { return raw_ ? Raw{27, 33} : Raw{}; }

 private:
  bool raw_;
  std::vector<Bytes> files_;
  std::vector<std::string> classes_{"a"};
};

// What a device makes of a batch of boxes: f32 [N, size, size, 3], values 0 to 255.
std::vector<float> made(const Batch& b) {
  Tensor out = Tensor::empty({b.count(), b.size, b.size, 3});
  input_pass(b.bytes, b.pictures, {0, 0, 0}, {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}, out);
  const auto values = out.span<float>();
  return {values.begin(), values.end()};
}
std::vector<std::int32_t> labels(const Batch& b) {
  const auto v = b.labels.span<std::int32_t>();
  return {v.begin(), v.end()};
}
std::span<const Picture> pictures(const Batch& b) {
  return {static_cast<const Picture*>(b.pictures.data()), static_cast<std::size_t>(b.count())};
}

// All batches of an epoch from both; how many pictures differ at all, as the device rounds once and
// the host twice.
void expect_alike(Loader& host, Loader& boxes) {
  for (int step = 0;; ++step) {
    const Batch want = host.next(), got = boxes.next();
    ASSERT_EQ(want.labels.defined(), got.labels.defined()) << step;
    if (!want.labels.defined()) break;
    EXPECT_FALSE(got.images.defined());
    EXPECT_EQ(labels(want), labels(got)) << step;
    ASSERT_EQ(want.side(), got.side());
    EXPECT_LE(got.bytes.numel(), got.room);
    const auto pixels = want.images.span<std::uint8_t>();
    const auto values = made(got);
    ASSERT_EQ(pixels.size(), values.size());
    float worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(values[i] - static_cast<float>(pixels[i])));
    EXPECT_LE(worst, 1.001f) << step;
  }
}

// The rule that models and the program follow too: at 96 pixels its rounding shows.
TEST(Loader, ResizesForTheCentreCropByTheUsualRule) {
  static_assert(usual_resize(64) == 64 && usual_resize(96) == 109 && usual_resize(224) == 256);
  const auto photos = std::make_shared<const Photos>(3);
  const LoaderOptions usual{.batch = 3, .size = 96, .epoch = in_order(0, 1)};
  LoaderOptions told = usual;
  told.resize = usual_resize(96);
  Loader first(photos, usual), second(photos, told);
  const Batch a = first.next(), b = second.next();
  EXPECT_TRUE(std::ranges::equal(a.images.span<std::uint8_t>(), b.images.span<std::uint8_t>()));
}

TEST(Boxes, BecomeThePicturesOfTheHostWithinOneStepOfAByte) {
  for (const bool raw : {false, true})
    for (const Augment crop : {Augment::resized_crop_flip, Augment::none})
      for (const int size : {16, 21}) {
        SCOPED_TRACE(testing::Message()
                     << "raw " << raw << " crop " << static_cast<int>(crop) << " size " << size);
        const auto set = std::make_shared<Photos>(23, raw);
        LoaderOptions o{.batch = 5,
                        .size = size,
                        .augment = crop,
                        .threads = 2,
                        .epoch = {.drop_last = false, .seed = 3}};
        Loader host(set, o);
        o.boxes = true;
        Loader boxes(set, o);
        expect_alike(host, boxes);
        expect_alike(host, boxes);           // the next epoch: other crops
        for (Loader* l : {&host, &boxes}) {  // smaller pictures from a place in the middle
          l->seek(4, 2);
          l->set_size(9);
        }
        expect_alike(host, boxes);
      }
}

TEST(Boxes, AreTheSamePicturesWhateverTheThreadsDoAndWhereverOneBegins) {
  const auto set = std::make_shared<Photos>(26, false, std::set<i64>{4, 9});
  LoaderOptions o{.batch = 4,
                  .size = 20,
                  .augment = Augment::resized_crop_flip,
                  .epoch = {.seed = 5},
                  .boxes = true,
                  .box_room = 1};
  std::vector<std::vector<float>> want;
  for (const int threads : {1, 2, 7}) {
    o.threads = threads;
    Loader loader(set, o);
    std::vector<std::vector<float>> all;
    for (Batch b = loader.next(); b.labels.defined(); b = loader.next()) all.push_back(made(b));
    if (want.empty()) want = all;
    EXPECT_EQ(all, want) << threads << " threads";
    loader.seek(0, 3);
    EXPECT_EQ(made(loader.next()), want[3]) << threads << " threads";
    EXPECT_EQ(loader.damaged().size(), 2u);
  }
}

TEST(Boxes, ABoxThatIsTooLargeIsResizedOnTheHost) {
  const auto set = std::make_shared<Photos>(30);
  LoaderOptions o{.batch = 6,
                  .size = 16,
                  .augment = Augment::resized_crop_flip,
                  .epoch = {.seed = 2},
                  .boxes = true,
                  .box_room = 4};
  Loader tight(set, o);
  o.box_room = 64;
  Loader wide(set, o);
  o.boxes = false;
  Loader host(set, o);
  int resized = 0, kept = 0;
  for (Batch a = tight.next(), b = wide.next(), h = host.next(); a.labels.defined();
       a = tight.next(), b = wide.next(), h = host.next()) {
    EXPECT_EQ(a.room, 6 * 4 * 16 * 16 * 3);
    const auto few = made(a);
    const auto pixels = h.images.span<std::uint8_t>();
    for (std::size_t i = 0; i < 6; ++i) {
      const Picture& p = pictures(b)[i];
      EXPECT_EQ(p.width * 3, p.pitch);
      const bool large = p.width * p.height > 4 * 16 * 16;
      (large ? resized : kept) += 1;
      if (!large) {
        EXPECT_EQ(pictures(a)[i].width, p.width);
        EXPECT_EQ(pictures(a)[i].flip, p.flip);
        continue;
      }
      EXPECT_EQ(pictures(a)[i].width, 16);
      EXPECT_EQ(pictures(a)[i].flip, 0) << "it is mirrored already";
      for (std::size_t k = i * 768; k < (i + 1) * 768; ++k)
        ASSERT_NEAR(few[k], static_cast<float>(pixels[k]), 1e-4) << "exactly the host's";
    }
  }
  EXPECT_GT(resized, 5);
  EXPECT_GT(kept, 5);
}

TEST(Boxes, OfDamagedPicturesAreReplacedOrLeftOutAsEver) {
  const auto set = std::make_shared<Photos>(17, false, std::set<i64>{0, 3, 8, 16});
  for (const bool replace : {true, false}) {
    LoaderOptions o{.batch = 4,
                    .size = 12,
                    .augment = Augment::resized_crop_flip,
                    .threads = 3,
                    .epoch = {.drop_last = false, .seed = 9}};
    o.replace_damaged = replace;
    Loader host(set, o);
    o.boxes = true;
    Loader boxes(set, o);
    expect_alike(host, boxes);
    EXPECT_EQ(host.damaged(), boxes.damaged());
    EXPECT_EQ(boxes.damaged().size(), 4u);
    EXPECT_EQ(host.stats().images, boxes.stats().images);
    EXPECT_EQ(boxes.stats().images, replace ? 17 : 13);
    o.strict = true;
    Loader strict(set, o);
    EXPECT_THROW(while (strict.next().labels.defined()){}, DataError);
  }
}

TEST(Boxes, MemoryIsUsedAgain) {
  const auto set = std::make_shared<Photos>(40);
  Loader loader(set, {.batch = 4,
                      .size = 24,
                      .augment = Augment::resized_crop_flip,
                      .threads = 2,
                      .epoch = {.seed = 1},
                      .boxes = true});
  std::set<const void*> places;
  for (int epoch = 0; epoch < 6; ++epoch)
    for (Batch b = loader.next(); b.labels.defined(); b = loader.next())
      places.insert(b.bytes.data());
  EXPECT_LE(places.size(), 4u + 2u);
  Batch held = loader.next();
  const auto before = made(held);
  for (int i = 0; i < 8; ++i) loader.next();
  EXPECT_EQ(made(held), before) << "as long as somebody holds them, they stay";
}

TEST(Boxes, WhatNeedsResizedPixelsIsRefused) {
  const auto set = std::make_shared<Photos>(8);
  const auto refused = [&](LoaderOptions o) {
    o.boxes = true;
    return error_of<ConfigError>([&] { Loader(set, o); });
  };
  EXPECT_THAT(refused({.batch = 4, .augment = Augment::pad_crop_flip}),
              HasSubstr("pad_crop_flip shifts pictures that are resized already"));
  const LoaderOptions steps{
      .batch = 4, .augment = Augment::resized_crop_flip, .steps = {ColourJitter{.4, .4, .4, 0}}};
  EXPECT_THAT(refused(steps), HasSubstr("steps change pictures"));
  EXPECT_THAT(refused({.batch = 4, .augment = Augment::resized_crop_flip, .box_room = 0}),
              HasSubstr("box_room 0"));
}

}  // namespace
}  // namespace gossamer::data
