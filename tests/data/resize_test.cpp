// The resize against Pillow 13 (Image.resize(…, BILINEAR) on the formula picture) and OpenCV 5.0
// (INTER_AREA), and the crops against torchvision's arithmetic.
#include "gossamer/data/codec/resize.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/error.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/preparer.h"

namespace gossamer::data {
namespace {

std::vector<std::uint8_t> resized(const Image& image, Box box, int width, int height) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(width) * height * 3);
  resize(image, box, width, height, out.data());
  return out;
}
Box all(const Image& image) { return {0, 0, image.width, image.height}; }

struct Golden {
  int width, height, to_width, to_height;
  std::uint64_t hash;
  int first[3], last[3];
};

TEST(Resize, EqualsPillowBitForBit) {
  const Golden table[] = {
      {64, 48, 32, 32, 0x74fb773f82c04082ull, {24, 55, 87}, {107, 139, 171}},
      {100, 75, 224, 224, 0xf51b3a8ae5714c68ull, {0, 31, 63}, {77, 109, 141}},
      {301, 199, 224, 224, 0xcfccac515fb20022ull, {8, 40, 71}, {182, 214, 68}},
      {33, 500, 32, 32, 0x3e87f11f998783e7ull, {115, 123, 152}, {134, 123, 142}},
      {40, 40, 40, 17, 0x2725e45c959d0d5bull, {27, 59, 91}, {69, 101, 132}},
      {5, 3, 224, 224, 0x5f7e2defd06b8a9eull, {0, 31, 63}, {90, 122, 153}},
      {640, 480, 7, 5, 0xafccbafc76d6f7edull, {128, 128, 127}, {127, 127, 128}},
      // vertical pass first
      {320, 685, 256, 548, 0xca3fc47c8e092a21ull, {15, 46, 78}, {57, 89, 121}},
      {60, 70, 96, 32, 0x21c4c55b071dec37ull, {26, 58, 89}, {71, 102, 134}},
  };
  for (const Golden& g : table) {
    const Image image = pattern(g.width, g.height);
    const auto out = resized(image, all(image), g.to_width, g.to_height);
    for (int c = 0; c < 3; ++c) {
      EXPECT_EQ(out[c], g.first[c]) << g.width << "x" << g.height;
      EXPECT_EQ(out[out.size() - 3 + c], g.last[c]) << g.width << "x" << g.height;
    }
    EXPECT_EQ(fnv(out), g.hash) << g.width << "x" << g.height << " to " << g.to_width << "x"
                                << g.to_height;
  }
}

TEST(Resize, OfABoxEqualsPillowsCropAndResize) {
  EXPECT_EQ(fnv(resized(pattern(301, 199), {13, 21, 100, 150}, 57, 200)), 0x1274c4e871b8c6c1ull);
}

TEST(Resize, KeepsAFlatPictureAndCopiesAtTheSameSize) {
  const Image gray = flat(50, 31, 17, 255, 0);
  const auto out = resized(gray, all(gray), 123, 7);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], gray.pixels[i % 3]);
  const Image image = pattern(21, 34);
  EXPECT_EQ(resized(image, all(image), 21, 34), image.pixels);
}

// The mean of the rectangle of `image` that one pixel of the result covers.
double mean_of_cover(const Image& image, int x, int y, int c, int to_width, int to_height) {
  const double left = static_cast<double>(x) * image.width / to_width,
               right = static_cast<double>(x + 1) * image.width / to_width;
  const double top = static_cast<double>(y) * image.height / to_height,
               bottom = static_cast<double>(y + 1) * image.height / to_height;
  double sum = 0, area = 0;
  for (int j = 0; j < image.height; ++j)
    for (int i = 0; i < image.width; ++i) {
      const double w = std::max(0.0, std::min(i + 1.0, right) - std::max<double>(i, left));
      const double share = w * std::max(0.0, std::min(j + 1.0, bottom) - std::max<double>(j, top));
      sum += share * image.pixels[static_cast<std::size_t>((j * image.width + i) * 3 + c)];
      area += share;
    }
  return sum / area;
}

TEST(Resize, ByAreaIsTheMeanOfWhatAPixelCovers) {
  // cv2.resize(…, INTER_AREA)
  struct {
    int width, height, to_width, to_height, first[3], last[3], middle[3];
  } const table[] = {
      {64, 48, 32, 32, {21, 52, 84}, {114, 146, 178}, {199, 188, 177}},
      {301, 199, 224, 112, {21, 52, 84}, {146, 177, 102}, {131, 64, 65}},
      {33, 500, 32, 32, {113, 135, 165}, {146, 129, 144}, {142, 114, 136}},
      {640, 480, 7, 5, {127, 128, 127}, {127, 127, 128}, {128, 128, 128}},
      {100, 75, 33, 25, {41, 72, 104}, {123, 42, 73}, {188, 175, 164}},
  };
  for (const auto& g : table) {
    const Image image = pattern(g.width, g.height);
    std::vector<std::uint8_t> out(static_cast<std::size_t>(g.to_width) * g.to_height * 3);
    resize(image, all(image), g.to_width, g.to_height, out.data(), Shrink::area);
    const auto at = [&](int x, int y, int c) {
      return static_cast<int>(out[static_cast<std::size_t>((y * g.to_width + x) * 3 + c)]);
    };
    for (int c = 0; c < 3; ++c) {  // rounded after each pass here, once there
      EXPECT_NEAR(at(0, 0, c), g.first[c], 1) << g.width << "x" << g.height;
      EXPECT_NEAR(at(g.to_width - 1, g.to_height - 1, c), g.last[c], 1)
          << g.width << "x" << g.height;
      EXPECT_NEAR(at(g.to_width / 2, g.to_height / 2, c), g.middle[c], 1)
          << g.width << "x" << g.height;
    }
    for (int k = 0; k < 40; ++k) {
      const int x = k * 97 % g.to_width, y = k * 61 % g.to_height, c = k % 3;
      ASSERT_NEAR(at(x, y, c), mean_of_cover(image, x, y, c, g.to_width, g.to_height), 1.001)
          << x << " " << y;
    }
  }
}

TEST(Resize, ByAreaGrowsBilinearlyAndKeepsSizesThatAreTheSame) {
  const Image image = pattern(40, 30);
  std::vector<std::uint8_t> area(50 * 45 * 3);
  resize(image, all(image), 50, 45, area.data(), Shrink::area);
  EXPECT_EQ(area, resized(image, all(image), 50, 45));
  std::vector<std::uint8_t> same(40 * 30 * 3);
  resize(image, all(image), 40, 30, same.data(), Shrink::area);
  EXPECT_EQ(same, image.pixels);
}

TEST(Resize, ByAreaOfACropNeedsOnlyItsPixels) {
  Rng rng(4);
  const Image image = pattern(211, 157);
  for (int i = 0; i < 50; ++i) {
    const Box box = random_resized_crop({image.width, image.height}, rng);
    const int side = 1 + static_cast<int>(rng.below(64));
    const Crop wanted{box, side, side, 0, 0, side, i % 2 == 1, Shrink::area};
    const Box needed = wanted.needed();
    ASSERT_GE(needed.x, box.x);
    ASSERT_LE(needed.x + needed.width, box.x + box.width);
    std::vector<std::uint8_t> part(static_cast<std::size_t>(side) * side * 3), whole(part.size());
    resize_window(crop(image, needed), needed.x - box.x, needed.y - box.y, wanted.horizontal(),
                  wanted.vertical(), part.data());
    resize_window(crop(image, box), 0, 0, wanted.horizontal(), wanted.vertical(), whole.data(),
                  ResizePasses::plain);
    ASSERT_EQ(part, whole) << i;
  }
}

TEST(Resize, OfAWindowIsThatPartOfTheWhole) {
  const Image image = pattern(120, 90);
  const auto whole = resized(image, all(image), 50, 40);
  const Axis horizontal = make_axis(120, 50, 11, 20), vertical = make_axis(90, 40, 7, 25);
  const Box box{horizontal.begin(), vertical.begin(), horizontal.end() - horizontal.begin(),
                vertical.end() - vertical.begin()};
  std::vector<std::uint8_t> part(20 * 25 * 3);
  resize_window(crop(image, box), box.x, box.y, horizontal, vertical, part.data());
  EXPECT_EQ(part, crop({40, 50, whole}, {11, 7, 20, 25}).pixels);
}

TEST(Resize, GivesTheSameBytesWithAndWithoutVectorInstructions) {
  Rng rng(9);
  for (int i = 0; i < 400; ++i) {
    const auto side = [&](std::uint32_t most) {
      return 1 + static_cast<int>(rng.below(i % 20 ? most : 10 * most));
    };
    Image image = pattern(side(300), side(300));
    // where rounding could go over
    if (i % 3 == 0)
      for (std::uint8_t& p : image.pixels) p = rng.word() & 1u ? 255 : 0;
    const int width = side(250), height = side(250),
              x = static_cast<int>(rng.below(static_cast<std::uint32_t>(width))),
              y = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
    const bool mirrored = rng.word() & 1u;
    const Axis horizontal = make_axis(image.width, width, x, width - x, mirrored),
               vertical = make_axis(image.height, height, y, height - y);
    const Box box{horizontal.begin(), vertical.begin(), horizontal.end() - horizontal.begin(),
                  vertical.end() - vertical.begin()};
    const Image part = crop(image, box);
    std::vector<std::uint8_t> plain(static_cast<std::size_t>(width - x) * (height - y) * 3, 77);
    resize_window(part, box.x, box.y, horizontal, vertical, plain.data(), ResizePasses::plain);
    for (const ResizePasses passes : resize_passes()) {
      std::vector<std::uint8_t> fast(plain.size(), 99);
      resize_window(part, box.x, box.y, horizontal, vertical, fast.data(), passes);
      ASSERT_EQ(fast, plain) << static_cast<int>(passes) << ": " << image.width << "x"
                             << image.height << " to " << width << "x" << height << " from " << x
                             << "," << y;
    }
  }
}

TEST(Resize, IsDoneByTheBestInstructionsOfThisCpuBelowTheLimit) {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  EXPECT_EQ(fastest_passes(), avx512 ? ResizePasses::avx512 : ResizePasses::avx2);
  EXPECT_EQ(resize_passes().size(), avx512 ? 3u : 2u);
  if (!avx512) {
    EXPECT_THROW(Resizer{ResizePasses::avx512}, ConfigError);
  }
  cpu::limit_kernels("avx2");
  EXPECT_EQ(fastest_passes(), ResizePasses::avx2);
  cpu::limit_kernels("");
#elif defined(__aarch64__) && defined(__linux__)
  const bool dot_products = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  EXPECT_EQ(fastest_passes(), dot_products ? ResizePasses::neon : ResizePasses::plain);
  if (!dot_products) {
    EXPECT_THROW(Resizer{ResizePasses::neon}, ConfigError);
  }
#endif
  EXPECT_EQ(fastest_passes(), resize_passes().at(0));
}

TEST(Resize, MirroredIsTheSameBackwards) {
  const Image image = pattern(120, 90);
  const Image straight{40, 50, resized(image, all(image), 50, 40)};
  std::vector<std::uint8_t> mirrored(straight.pixels.size());
  resize_window(image, 0, 0, make_axis(120, 50, 0, 50, true), make_axis(90, 40, 0, 40),
                mirrored.data());
  for (std::size_t y = 0; y < 40; ++y)
    for (std::size_t x = 0; x < 50; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        ASSERT_EQ(mirrored[(y * 50 + x) * 3 + c], straight.pixels[(y * 50 + 49 - x) * 3 + c]);
}

TEST(Resize, RefusesABoxOutside) {
  std::uint8_t out[3];
  EXPECT_THROW(resize(pattern(8, 8), {4, 4, 5, 1}, 1, 1, out), ShapeError);
  EXPECT_THROW(resize(pattern(8, 8), {0, 0, 8, 8}, 0, 1, out), ShapeError);
}

TEST(RandomResizedCrop, HasTheAreaAndAspectItPromises) {
  Rng rng(3);
  double smallest = 1, largest = 0, mean = 0;
  for (int i = 0; i < 4000; ++i) {
    const Box box = random_resized_crop({500, 375}, rng, 0.08f);
    check_box(box, {500, 375}, "crop");
    const double area = box.width * box.height / (500.0 * 375),
                 aspect = static_cast<double>(box.width) / box.height;
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    mean += area / 4000;
    ASSERT_GT(aspect, 0.74);
    ASSERT_LT(aspect, 1.36);
  }
  EXPECT_NEAR(smallest, 0.08, 0.004);
  EXPECT_GT(largest, 0.95);
  // torchvision 0.14, 20,000 draws for the same size; large crops of 4:3 often do not fit
  EXPECT_NEAR(mean, 0.4334, 0.015);
}

TEST(RandomResizedCrop, TakesTheCentreOfASliver) {
  Rng rng(5);
  const Box wide = random_resized_crop({500, 33}, rng, 0.9f),
            high = random_resized_crop({20, 300}, rng, 0.9f),
            one = random_resized_crop({1, 1}, rng);
  EXPECT_EQ((std::vector{wide.x, wide.y, wide.width, wide.height}), (std::vector{228, 0, 44, 33}));
  EXPECT_EQ((std::vector{high.x, high.y, high.width, high.height}), (std::vector{0, 136, 20, 27}));
  EXPECT_EQ((std::vector{one.x, one.y, one.width, one.height}), (std::vector{0, 0, 1, 1}));
}

TEST(CentreCrop, RoundsAsTorchvisionDoes) {
  const CentreCrop a = centre_crop({500, 375}, 256, 224), b = centre_crop({375, 500}, 256, 224),
                   c = centre_crop({32, 32}, 32, 32);
  // 58.5 goes to the even number
  EXPECT_EQ((std::vector{a.width, a.height, a.x, a.y}), (std::vector{341, 256, 58, 16}));
  EXPECT_EQ((std::vector{b.width, b.height, b.x, b.y}), (std::vector{256, 341, 16, 58}));
  EXPECT_EQ((std::vector{c.width, c.height, c.x, c.y}), (std::vector{32, 32, 0, 0}));
  EXPECT_THROW(centre_crop({10, 10}, 200, 224), ConfigError);
}

TEST(ReadImage, EqualsDecodingResizingAndCropping) {
  const TempFolder folder;
  const Bytes jpeg = encode_jpeg(pattern(333, 200));
  const Tensor image = read_image(folder.write("a.jpg", jpeg), 96, 80);
  ASSERT_EQ(image.shape(), (Shape{1, 80, 80, 3}));
  const Image whole = decode(jpeg, "a.jpg");
  const CentreCrop at = centre_crop({333, 200}, 96, 80);
  const Image small{at.height, at.width, resized(whole, all(whole), at.width, at.height)};
  const Image wanted = crop(small, {at.x, at.y, 80, 80});
  EXPECT_TRUE(std::ranges::equal(image.span<std::uint8_t>(), wanted.pixels));
  EXPECT_NE(error_of([&] { read_image(folder / "none.jpg", 96, 80); }).find("none.jpg"),
            std::string::npos);
}

// The picture of 3 x 3 pixels, shifted by 1 to the right and down, is that of torch's
// F.pad(…, mode="reflect"), cropped.
TEST(PadCropFlip, ReflectsThePictureAtItsEdge) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 9; ++i) pixels.insert(pixels.end(), 3, static_cast<std::uint8_t>(i));
  const Recipe recipe{
      .augment = Augment::pad_crop_flip, .size = 3, .resize = 3, .pad = 1, .reflect = true};
  const std::vector<int> moved[] = {{4, 3, 4, 1, 0, 1, 4, 3, 4},   // right and down
                                    {0, 1, 2, 3, 4, 5, 6, 7, 8},   // not at all
                                    {4, 5, 4, 7, 8, 7, 4, 5, 4}};  // left and up
  std::vector<int> seen(3);
  Preparer preparer;
  for (int n = 0; n < 200; ++n) {
    std::vector<std::uint8_t> out(27);
    Rng rng(1, static_cast<std::uint64_t>(n));
    preparer.read({.bytes = std::as_bytes(std::span(pixels)),
                   .name = "raw",
                   .raw = {3, 3},
                   .mirror = Mirror::no},
                  recipe, rng);
    preparer.finish(out.data());
    std::vector<int> got;
    for (std::size_t i = 0; i < 27; i += 3) got.push_back(out[i]);
    for (std::size_t k = 0; k < 3; ++k) seen[k] += got == moved[k];
  }
  for (const int count : seen) EXPECT_NEAR(count, 200 / 9, 15) << "a ninth each";
}

// A recipe on raw pixels of one size: what comes out is moved or mirrored input.
TEST(PadCropFlip, ShiftsByAtMostThePadAndMirrors) {
  const Image image = pattern(16, 16);
  const auto* bytes = reinterpret_cast<const std::byte*>(image.pixels.data());
  const Recipe recipe{.augment = Augment::pad_crop_flip, .size = 16, .resize = 16, .pad = 2};
  Preparer preparer;
  int seen[5][5][2] = {};
  for (int n = 0; n < 600; ++n) {
    std::vector<std::uint8_t> out(16 * 16 * 3);
    Rng rng(1, static_cast<std::uint64_t>(n));
    preparer.read({{bytes, image.pixels.size()}, "raw", {16, 16}}, recipe, rng);
    preparer.finish(out.data());
    int matches = 0;
    for (int dy = -2; dy <= 2; ++dy)
      for (int dx = -2; dx <= 2; ++dx)
        for (int mirrored = 0; mirrored < 2; ++mirrored) {
          bool same = true;
          for (int y = 0; y < 16 && same; ++y)
            for (int x = 0; x < 16 && same; ++x) {
              const int sx = (mirrored ? 15 - x : x) - dx, sy = y - dy;
              for (int c = 0; c < 3; ++c) {
                const int wanted =
                    sx < 0 || sy < 0 || sx > 15 || sy > 15
                        ? 0
                        : image.pixels[static_cast<std::size_t>((sy * 16 + sx) * 3 + c)];
                same = same && out[static_cast<std::size_t>((y * 16 + x) * 3 + c)] == wanted;
              }
            }
          if (same) ++matches, ++seen[dy + 2][dx + 2][mirrored];
        }
    ASSERT_EQ(matches, 1) << n;
  }
  for (auto& row : seen)
    for (auto& cell : row)
      for (const int count : cell) EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace gossamer::data
