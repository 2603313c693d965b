// The resize against a plain implementation of what Pillow 13 does, at random sizes, with every
// kind of vector instructions. tests/interop/sizes_torchvision.py does the same with Pillow itself.
#include <cmath>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/random.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {
namespace {

// One pass: `in` pixels of each line become `out`. From line to line and from pixel to pixel it is
// so many bytes.
struct Lines {
  int in, out;
  int count;                                           // of lines
  std::size_t from_line, from_step, to_line, to_step;  // bytes
};

std::vector<std::uint8_t> one_pass(const std::vector<std::uint8_t>& from, const Lines& l) {
  std::vector<std::uint8_t> to(static_cast<std::size_t>(l.out) * l.count * 3);
  const double scale = static_cast<double>(l.in) / l.out, support = scale < 1 ? 1 : scale;
  for (int i = 0; i < l.out; ++i) {
    const double centre = (i + 0.5) * scale;
    const int low = std::max(0, static_cast<int>(centre - support + 0.5)),
              high = std::min(l.in, static_cast<int>(centre + support + 0.5));
    std::vector<double> weights;
    double total = 0;
    for (int pixel = low; pixel < high; ++pixel) {
      const double distance = std::fabs((pixel - centre + 0.5) * (1 / support));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      total += weights.back();
    }
    for (int line = 0; line < l.count; ++line)
      for (std::size_t c = 0; c < 3; ++c) {
        std::int64_t sum = 1 << 21;
        for (std::size_t t = 0; t < weights.size(); ++t)
          sum += static_cast<std::int64_t>(0.5 + weights[t] / total * (1 << 22)) *
                 from[l.from_line * static_cast<std::size_t>(line) +
                      l.from_step * (static_cast<std::size_t>(low) + t) + c];
        to[l.to_line * static_cast<std::size_t>(line) + l.to_step * static_cast<std::size_t>(i) +
           c] = static_cast<std::uint8_t>(std::min<std::int64_t>(255, sum >> 22));
      }
  }
  return to;
}

std::vector<std::uint8_t> across(const std::vector<std::uint8_t>& from, int width, int height,
                                 int to) {
  const auto in = static_cast<std::size_t>(width) * 3, out = static_cast<std::size_t>(to) * 3;
  return one_pass(from, {width, to, height, in, 3, out, 3});
}
std::vector<std::uint8_t> down(const std::vector<std::uint8_t>& from, int width, int height,
                               int to) {
  const auto row = static_cast<std::size_t>(width) * 3;
  return one_pass(from, {height, to, width, 3, row, 3, row});
}

std::vector<std::uint8_t> as_pillow(const Image& image, int width, int height) {
  const bool down_first =
      image.height > height && image.height - height > 2 * (image.width - width);
  return down_first ? across(down(image.pixels, image.width, image.height, height), image.width,
                             height, width)
                    : down(across(image.pixels, image.width, image.height, width), width,
                           image.height, height);
}

TEST(ResizeAsPillow, AtRandomSizesWithEveryKindOfInstructions) {
  Rng rng(685);
  const auto below = [&](int n) {
    return static_cast<int>(rng.below(static_cast<std::uint32_t>(n)));
  };
  int down_first = 0;
  for (int n = 0; n < 2000; ++n) {
    const int most = n % 50 == 0 ? 700 : n % 5 == 0 ? 200 : 60;
    int width = 1 + below(most), height = 1 + below(most);
    const int to_width = 1 + below(n % 3 ? 60 : most), to_height = 1 + below(n % 3 ? 60 : most);
    if (n % 4 == 0) width = std::max(1, to_width * 5 / 4), height = std::max(1, to_height * 5 / 4);
    Image image{height, width, {}};
    image.pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
    for (std::uint8_t& p : image.pixels)
      p = n % 3 ? static_cast<std::uint8_t>(rng.word()) : rng.word() & 1u ? 255 : 0;
    const Image right{to_height, to_width, as_pillow(image, to_width, to_height)};
    down_first += height - to_height > std::max(0, 2 * (width - to_width));
    // a window of it, from rows that come a few at a time
    const int x = below(to_width), y = below(to_height), w = 1 + below(to_width - x),
              h = 1 + below(to_height - y), rows = 1 + below(40);
    const Axis horizontal = make_axis(width, to_width, x, w),
               vertical = make_axis(height, to_height, y, h);
    const std::size_t stride = static_cast<std::size_t>(width) * 3;
    const std::vector<std::uint8_t> wanted = crop(right, {x, y, w, h}).pixels;
    for (const ResizePasses passes : resize_passes()) {
      Resizer resizer(passes);
      resizer.start(horizontal, vertical, 0);
      for (int at = vertical.begin(); at < vertical.end(); at += rows)
        resizer.add({image.pixels.data() + static_cast<std::size_t>(at) * stride, stride,
                     std::min(rows, vertical.end() - at),
                     image.pixels.data() + image.pixels.size()});
      std::vector<std::uint8_t> out(wanted.size(), 77);
      resizer.finish(out.data());
      ASSERT_EQ(out, wanted) << width << "x" << height << " to " << to_width << "x" << to_height
                             << ", " << w << "x" << h << " of it from " << x << "," << y
                             << ", kind " << static_cast<int>(passes);
    }
  }
  EXPECT_GT(down_first, 200);
}

}  // namespace
}  // namespace gossamer::data
