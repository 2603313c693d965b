// shapes10: complete, balanced, the same every time, and not to be learned by a linear classifier.
#include "gossamer/data/formats/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/codec/resize.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Shapes, AreTheSameForTheSameSeedAndDifferElse) {
  EXPECT_EQ(draw_shape(3, 64, 1, 5).pixels, draw_shape(3, 64, 1, 5).pixels);
  EXPECT_NE(draw_shape(3, 64, 1, 5).pixels, draw_shape(3, 64, 1, 6).pixels);
  EXPECT_NE(draw_shape(3, 64, 1, 5).pixels, draw_shape(3, 64, 2, 5).pixels);
  EXPECT_NE(draw_shape(3, 64, 1, 5).pixels, draw_shape(4, 64, 1, 5).pixels);
  EXPECT_EQ(draw_shape(0, 17, 0, 0).pixels.size(), 17u * 17 * 3);
  EXPECT_TRUE(std::ranges::is_sorted(shape_classes()));
}

TEST(Shapes, MakeACompleteImageFolder) {
  const TempFolder folder;
  const std::string root = folder / "new/shapes";
  make_shapes(root, {.train = 43, .val = 20, .size = 32, .seed = 7, .threads = 3});
  const auto train = open({root + "/train"}), val = open({root + "/val"});
  EXPECT_EQ(train->size(), 43);
  EXPECT_EQ(val->size(), 20);
  EXPECT_EQ(train->classes(), shape_classes());
  check_same_classes(*train, *val);
  Bytes first, second;
  train->bytes(0, first);
  val->bytes(0, second);
  EXPECT_NE(first, second);  // validation pictures are others
  const Image image = decode(first, train->name(0));
  EXPECT_EQ(image.width, 32);

  const std::string again = folder / "again";
  make_shapes(again, {.train = 43, .val = 20, .size = 32, .seed = 7, .threads = 1});
  const auto other = open({again + "/train"});
  for (i64 i = 0; i < train->size(); ++i) {
    train->bytes(i, first);
    other->bytes(i, second);
    ASSERT_EQ(first, second) << train->name(i);  // whatever the threads did
  }
  // What is there and complete is kept.
  const auto before = std::filesystem::last_write_time(root + "/train/ring");
  make_shapes(root + "/", {.train = 43, .val = 20, .size = 32, .seed = 7});
  EXPECT_EQ(std::filesystem::last_write_time(root + "/train/ring"), before);
  // Nothing temporary is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "new"), {}), 1);
}

TEST(Shapes, NeverTouchWhatIsNotTheirs) {
  const TempFolder folder;
  folder.write("mine/thesis.txt", to_bytes("x"));
  EXPECT_THAT(error_of([&] { make_shapes(folder / "mine", {.train = 10, .val = 10}); }),
              HasSubstr("holds other files"));
  make_shapes(folder / "set", {.train = 10, .val = 10, .size = 16});
  EXPECT_THAT(error_of([&] { make_shapes(folder / "set", {.train = 20, .val = 10, .size = 16}); }),
              AllOf(HasSubstr("other options"), HasSubstr("train 10"), HasSubstr("train 20")));
  EXPECT_THAT(error_of<IoError>(
                  [&] { make_shapes(folder / "mine/thesis.txt/set", {.train = 10, .val = 10}); }),
              HasSubstr("can't be made"));
  EXPECT_THAT(error_of<IoError>([&] { make_shapes("/proc/set", {.train = 10, .val = 10}); }),
              HasSubstr("/proc/set"));
  EXPECT_THAT(error_of<ConfigError>([&] { make_shapes(folder / "x", {.train = 0}); }),
              HasSubstr("0 train"));
}

TEST(Shapes, CanBeMadeByTwoAtOnce) {
  const TempFolder folder;
  const std::string root = folder / "set";
  make_shapes(root, {.train = 10, .val = 10, .size = 16});
  {
    const std::jthread other([&] { make_shapes(root, {.train = 10, .val = 10, .size = 16}); });
    make_shapes(root, {.train = 10, .val = 10, .size = 16});
  }
  EXPECT_EQ(open({root + "/train"})->size(), 10);
}

// Softmax regression on 16x16 pixels by plain gradient descent. Chance is 10 %.
TEST(Shapes, DefeatALinearClassifier) {
  constexpr int side = 16, inputs = side * side * 3, train = 2000, val = 500;
  const auto features = [&](int count, std::uint64_t first) {
    std::vector<float> x;
    std::vector<std::uint8_t> small(inputs);
    for (int i = 0; i < count; ++i) {
      const Image image = draw_shape(i % 10, 64, 0, first + static_cast<std::uint64_t>(i));
      resize(image, {0, 0, 64, 64}, side, side, small.data());
      for (const auto p : small) x.push_back((static_cast<float>(p) - 128) / 64);
    }
    return x;
  };
  const std::vector<float> x = features(train, 0), y = features(val, 1 << 20);
  std::vector<float> w(10 * inputs, 0), g(10 * inputs);
  const auto scores = [&](const float* row) {
    std::array<float, 10> s{};
    for (std::size_t k = 0; k < 10; ++k)
      for (int j = 0; j < inputs; ++j) s[k] += w[k * inputs + j] * row[j];
    return s;
  };
  const auto accuracy = [&](const std::vector<float>& set, int count) {
    int right = 0;
    for (int i = 0; i < count; ++i) {
      const auto s = scores(set.data() + static_cast<std::ptrdiff_t>(i) * inputs);
      right += std::ranges::max_element(s) - s.begin() == i % 10;
    }
    return static_cast<double>(right) / count;
  };
  double best = 0;
  for (int step = 0; step < 20; ++step) {
    std::ranges::fill(g, 0.0f);
    for (int i = 0; i < train; ++i) {
      const float* row = x.data() + static_cast<std::ptrdiff_t>(i) * inputs;
      auto s = scores(row);
      const float top = *std::ranges::max_element(s);
      float total = 0;
      for (float& v : s) total += v = std::exp(v - top);
      for (std::size_t k = 0; k < 10; ++k) {
        const float d = s[k] / total - (static_cast<int>(k) == i % 10);
        for (int j = 0; j < inputs; ++j) g[k * inputs + j] += d * row[j];
      }
    }
    for (std::size_t j = 0; j < w.size(); ++j) w[j] -= 0.04f / train * g[j];
    if (step % 10 == 9) best = std::max(best, accuracy(y, val));
  }
  RecordProperty("linear_accuracy", std::to_string(best));
  EXPECT_GT(accuracy(x, train), 0.15);  // it did learn something of its own pictures
  EXPECT_LT(best, 0.60);
}

}  // namespace
}  // namespace gossamer::data
