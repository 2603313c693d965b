// The GPU's input pass against data/resize on a CPU: crops, windows of a resized picture, flips,
// both layouts.
#include <algorithm>

#include "core/kernel_helpers.h"
#include "data/helpers.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {
namespace {

struct Batch {
  std::vector<std::uint8_t> bytes;
  std::vector<Picture> pictures;
  std::vector<std::vector<std::uint8_t>> want;  // u8 [height, width, 3] each
  int height, width;

  // The box of a picture resized to `to`, of which the window at (x, y) is wanted.
  void add(const Image& image, Box box, ImageSize to, int x, int y, bool flip) {
    const auto base = static_cast<i64>(bytes.size());
    bytes.insert(bytes.end(), image.pixels.begin(), image.pixels.end());
    pictures.push_back({base + (i64{box.y} * image.width + box.x) * 3, image.width * 3, box.width,
                        box.height, to.width, to.height, x, y, flip});
    std::vector<std::uint8_t> scratch, out(static_cast<std::size_t>(height) * width * 3);
    resize_window(image, -box.x, -box.y, make_axis(box.width, to.width, x, width),
                  make_axis(box.height, to.height, y, height), out.data());
    if (flip)
      for (int row = 0; row < height; ++row)
        for (int a = 0, b = width - 1; a < b; ++a, --b)
          std::swap_ranges(out.data() + (row * width + a) * 3,
                           out.data() + (row * width + a) * 3 + 3,
                           out.data() + (row * width + b) * 3);
    want.push_back(out);
  }
  // first: where the bytes begin in their memory
  Tensor run(DType type, const std::array<float, 3>& mean, const std::array<float, 3>& std,
             i64 first = 0) const {
    check_pictures(pictures, static_cast<i64>(bytes.size()), height, width);
    const i64 n = static_cast<i64>(pictures.size());
    Tensor table = Tensor::empty({n * static_cast<i64>(sizeof(Picture))}, DType::u8),
           memory = Tensor::empty({first + static_cast<i64>(bytes.size())}, DType::u8),
           pixels = memory.slice(first, memory.numel());
    std::memcpy(table.data(), pictures.data(), table.bytes());
    std::memcpy(pixels.data(), bytes.data(), pixels.bytes());
    Tensor out = Tensor::full({n, height, width, 3}, 7, type);
    input_pass(pixels, table, mean, std, out);
    return out;
  }
};

Batch a_batch(int height, int width) {
  Batch b{{}, {}, {}, height, width};
  b.add(pattern(301, 199), {13, 21, 100, 150}, {width, height}, 0, 0, false);
  b.add(pattern(301, 199), {0, 0, 301, 199}, {width, height}, 0, 0, true);
  // enlarged
  b.add(pattern(64, 48), {5, 6, 17, 9}, {width, height}, 0, 0, false);
  // as it is
  b.add(pattern(width, height), {0, 0, width, height}, {width, height}, 0, 0, true);
  // a window of the resized picture
  b.add(pattern(120, 90), {0, 0, 120, 90}, {width + 23, height + 8}, 11, 7, false);
  // several rounds of lines
  b.add(pattern(40, 1700), {1, 3, 37, 1690}, {width, height}, 0, 0, true);
  // lines that are too wide for shared memory
  b.add(pattern(1700, 40), {1, 3, 1690, 37}, {width, height}, 0, 0, false);
  b.add(pattern(1, 1), {0, 0, 1, 1}, {width, height}, 0, 0, false);
  return b;
}

TEST(InputPass, IsTheResizeOfTheCpuWithinOneStepOfAByte) {
  for (const auto& [height, width] :
       {std::pair{32, 32}, std::pair{40, 34}, std::pair{16, 50}, std::pair{2, 2}}) {
    const Batch b = a_batch(height, width);
    const Tensor out = b.run(DType::f32, {0, 0, 0}, {1, 1, 1});
    const std::size_t size = static_cast<std::size_t>(height) * width * 3;
    double sum = 0;
    for (std::size_t i = 0; i < b.want.size() * size; ++i) {
      const double gap =
          std::fabs(static_cast<double>(out.span<float>()[i]) * 255 - b.want[i / size][i % size]);
      ASSERT_LE(gap, 1.001) << "picture " << i / size << " at " << i % size << ", " << height
                            << " x " << width;
      sum += gap;
    }
    EXPECT_LE(sum / static_cast<double>(b.want.size() * size), 0.4)
        << "rounding alone gives about 0.3";
  }
}

// Then no 16 bytes are read at once.
TEST(InputPass, HasTheSameBitsWhereverTheBytesLie) {
  const Batch b = a_batch(40, 34);
  const Tensor want = b.run(DType::f32, {0, 0, 0}, {1, 1, 1});
  for (const i64 first : {1, 8})
    testing::expect_same_bits(b.run(DType::f32, {0, 0, 0}, {1, 1, 1}, first), want, "moved");
}

TEST(InputPass, NormalisesInEveryType) {
  const std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, std{0.229f, 0.224f, 0.225f};
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [height, width] : {std::pair{32, 48}, std::pair{18, 20}}) {
      const Batch b = a_batch(height, width);
      const Tensor plain = b.run(type, mean, std);
      // at one pixel of the picture that is only mirrored
      const std::size_t at = (3 * static_cast<std::size_t>(height) * width + 5 * width + 4) * 3;
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_NEAR(
            testing::as_f32(plain).span<float>()[at + c],
            (static_cast<float>(b.want[3][(5 * width + 4) * 3 + c]) / 255 - mean[c]) / std[c],
            type == DType::f32 ? 1e-5 : testing::rounding(type));
    }
}

TEST(InputPass, OnlyPixelsThatAreUsedNeedBeThere) {
  // A picture of which the decoder kept the part that a window needs: the offset points before the
  // bytes.
  const Image image = pattern(200, 160);
  const Axis across = make_axis(200, 80, 30, 32), down = make_axis(160, 64, 20, 32);
  const Box kept{across.begin(), down.begin(), across.end() - across.begin(),
                 down.end() - down.begin()};
  const Image part = crop(image, kept);
  Batch whole{{}, {}, {}, 32, 32}, some{{}, {}, {}, 32, 32};
  whole.add(image, {0, 0, 200, 160}, {80, 64}, 30, 20, false);
  some.bytes = part.pixels;
  some.pictures.push_back(
      {-(i64{kept.y} * kept.width + kept.x) * 3, kept.width * 3, 200, 160, 80, 64, 30, 20, 0});
  const Tensor a = whole.run(DType::f32, {0, 0, 0}, {1, 1, 1}),
               b = some.run(DType::f32, {0, 0, 0}, {1, 1, 1});
  testing::expect_same_bits(a, b, "part");
}

TEST(InputPass, PicturesThatDoNotExistAreFoundBeforeTheDevice) {
  const Picture good{0, 30, 10, 10, 8, 8, 0, 0, 0};
  EXPECT_NO_THROW(check_pictures({&good, 1}, 300, 8, 8));
  const auto expect_bad = [&](auto change) {
    Picture p = good;
    change(p);
    EXPECT_THROW(check_pictures({&p, 1}, 300, 8, 8), ShapeError);
  };
  expect_bad([](Picture& p) { p.offset = 1; });
  expect_bad([](Picture& p) { p.offset = -1; });
  expect_bad([](Picture& p) { p.height = 11; });
  expect_bad([](Picture& p) { p.pitch = 31; });
  expect_bad([](Picture& p) { p.x = 1; });
  expect_bad([](Picture& p) { p.to_height = 7; });
  expect_bad([](Picture& p) { p.width = 0; });
}

}  // namespace
}  // namespace gossamer::data
