// Antialiased bilinear resize, bit for bit Pillow's: the triangle filter widened by the scale, horizontal pass first, each pass
// rounded to 8 bits, weights in 22-bit fixed point (Pillow, src/libImaging/Resample.c).
#include "gossamer/data/codec/resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/jpeg_device.h"
#include "gossamer/data/codec/resize_passes.h"

namespace gossamer::data {
namespace {

constexpr int kBits = 22;                                  // 32 minus 8 of the pixel minus 2 of headroom
constexpr int kHalf = 1 << (kBits - 1);

std::uint8_t rounded(int sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

void horizontal_row(const std::uint8_t* src, int src_x, const Axis& axis, std::uint8_t* dst) {
  const int outputs = static_cast<int>(axis.first.size());
  for (int i = 0; i < outputs; ++i) {
    const std::int32_t* w = axis.weights.data() + static_cast<std::size_t>(i) * axis.taps;
    const std::uint8_t* s = src + static_cast<std::size_t>(axis.first[i] - src_x) * 3;
    int r = kHalf, g = kHalf, b = kHalf;
    for (int t = 0; t < axis.count[i]; ++t) {
      r += w[t] * s[3 * t];
      g += w[t] * s[3 * t + 1];
      b += w[t] * s[3 * t + 2];
    }
    dst[3 * i] = rounded(r);
    dst[3 * i + 1] = rounded(g);
    dst[3 * i + 2] = rounded(b);
  }
}

// One output row from `count` rows below each other. Blocks of 64 sums stay in registers.
void vertical_row(const std::uint8_t* src, std::size_t stride, const std::int32_t* w, int count, std::size_t row, std::uint8_t* dst) {
  constexpr std::size_t block = 64;
  std::size_t x = 0;
  for (; x + block <= row; x += block) {
    std::int32_t sums[block];
    for (std::size_t i = 0; i < block; ++i) sums[i] = kHalf;
    for (int t = 0; t < count; ++t) {
      const std::uint8_t* s = src + static_cast<std::size_t>(t) * stride + x;
      for (std::size_t i = 0; i < block; ++i) sums[i] += w[t] * s[i];
    }
    for (std::size_t i = 0; i < block; ++i) dst[x + i] = rounded(sums[i]);
  }
  for (; x < row; ++x) {
    std::int32_t sum = kHalf;
    for (int t = 0; t < count; ++t) sum += w[t] * src[static_cast<std::size_t>(t) * stride + x];
    dst[x] = rounded(sum);
  }
}

// Rows of the source go in from above, as they are decoded; the result is made when all are there.
template <class Passes> class Resizer {
 public:
  void start(int src_x, const Axis& horizontal, const Axis& vertical, std::vector<std::uint8_t>& scratch) {
    row_ = horizontal.first.size() * 3;
    stride_ = (row_ + kRowSlack + 63) / 64 * 64;
    scratch.resize(stride_ * static_cast<std::size_t>(vertical.end() - vertical.begin()) + kRowSlack);
    scratch_ = &scratch;
    at_ = scratch.data();
    passes_.start(horizontal, src_x);
  }
  void add(const Rows& rows) {
    passes_.horizontal(rows, at_, stride_);
    at_ += static_cast<std::size_t>(rows.count) * stride_;
  }
  void finish(const Axis& vertical, std::uint8_t* dst) {
    const std::uint8_t* const from = scratch_->data();
    Passes::vertical({from, stride_, vertical.end() - vertical.begin(), from + scratch_->size()}, vertical.begin(), vertical, row_, dst);
  }

 private:
  Passes passes_;
  std::size_t row_ = 0, stride_ = 0;                       // bytes
  std::vector<std::uint8_t>* scratch_ = nullptr;           // the rows after the horizontal pass
  std::uint8_t* at_ = nullptr;
};

template <class Passes>
void run(const Image& src, int src_x, int src_y, const Axis& horizontal, const Axis& vertical, std::vector<std::uint8_t>& scratch,
         std::uint8_t* dst) {
  thread_local Resizer<Passes> resizer;
  const std::size_t stride = static_cast<std::size_t>(src.width) * 3;
  resizer.start(src_x, horizontal, vertical, scratch);
  resizer.add({src.pixels.data() + static_cast<std::size_t>(vertical.begin() - src_y) * stride, stride, vertical.end() - vertical.begin(),
               src.pixels.data() + src.pixels.size()});
  resizer.finish(vertical, dst);
}

}  // namespace

Axis make_axis(int in, int out, int begin, int outputs, bool mirrored) {
  const double scale = static_cast<double>(in) / out, wide = std::max(scale, 1.0), inverse = 1.0 / wide;
  Axis axis;
  axis.taps = static_cast<int>(std::ceil(wide)) * 2 + 1;
  axis.first.resize(static_cast<std::size_t>(outputs));
  axis.count.resize(static_cast<std::size_t>(outputs));
  axis.weights.assign(static_cast<std::size_t>(outputs) * axis.taps, 0);
  std::vector<double> k(static_cast<std::size_t>(axis.taps));
  for (int output = 0; output < outputs; ++output) {
    const double centre = (begin + output + 0.5) * scale;
    const int i = mirrored ? outputs - 1 - output : output;
    const int first = std::max(0, static_cast<int>(centre - wide + 0.5));
    const int count = std::min(in, static_cast<int>(centre + wide + 0.5)) - first;
    double total = 0;
    for (int t = 0; t < count; ++t) {
      const double x = std::abs((t + first - centre + 0.5) * inverse);
      k[t] = x < 1.0 ? 1.0 - x : 0.0;
      total += k[t];
    }
    for (int t = 0; t < count; ++t) {
      const double weight = total != 0 ? k[t] / total : k[t];
      axis.weights[static_cast<std::size_t>(i) * axis.taps + t] = static_cast<std::int32_t>(0.5 + weight * (1 << kBits));
    }
    axis.first[i] = first;
    axis.count[i] = count;
  }
  return axis;
}

void PlainPasses::horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) {
  for (int y = 0; y < src.count; ++y)
    horizontal_row(src.first + static_cast<std::size_t>(y) * src.stride, src_x_, *axis_, dst + static_cast<std::size_t>(y) * dst_stride);
}

void PlainPasses::vertical(const Rows& src, int src_y, const Axis& axis, std::size_t row, std::uint8_t* dst) {
  for (std::size_t i = 0; i < axis.first.size(); ++i)
    vertical_row(src.first + static_cast<std::size_t>(axis.first[i] - src_y) * src.stride, src.stride,
                 axis.weights.data() + i * static_cast<std::size_t>(axis.taps), axis.count[i], row, dst + i * row);
}

void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal, const Axis& vertical, std::vector<std::uint8_t>& scratch,
                   std::uint8_t* dst, ResizePasses passes) {
  const auto with = [&]<class Passes>() { run<Passes>(src, src_x, src_y, horizontal, vertical, scratch, dst); };
  switch (passes) {
    case ResizePasses::fastest: return with.operator()<FastPasses>();
    case ResizePasses::plain: return with.operator()<PlainPasses>();
#ifdef GOSSAMER_RESIZE_AVX512
    case ResizePasses::avx512: return with.operator()<Avx512Passes>();
#endif
#ifdef GOSSAMER_RESIZE_AVX2
    case ResizePasses::avx2: return with.operator()<Avx2Passes>();
#endif
    default: fail<ConfigError>("resize: the compiler was not allowed these vector instructions");
  }
}

std::vector<ResizePasses> compiled_passes() {
  return {
#ifdef GOSSAMER_RESIZE_AVX512
      ResizePasses::avx512,
#endif
#ifdef GOSSAMER_RESIZE_AVX2
      ResizePasses::avx2,
#endif
      ResizePasses::plain};
}

void decode_resized(std::span<const std::byte> bytes, const std::string& name, PickWindow pick, Image& spare, std::vector<std::uint8_t>& scratch,
                    std::uint8_t* dst, JpegDevice* device) {
  thread_local Resizer<FastPasses> resizer;
  Window window;
  bool picked = false;
  const auto begin = [&](ImageSize size) {
    if (!std::exchange(picked, true)) window = pick(size);     // once, even if the device asks and then gives up: a pick may draw random numbers
    const Axis &h = window.horizontal, &v = window.vertical;
    const int x = h.begin(), y = v.begin();
    resizer.start(x, h, v, scratch);
    return Box{window.x + x, window.y + y, h.end() - x, v.end() - y};
  };
  const auto add = [&](const Rows& rows) { resizer.add(rows); };
  if (!device || !device->decode_rows(bytes, begin, add)) decode_rows(bytes, name, begin, add, spare);
  resizer.finish(window.vertical, dst);
}

void resize(const Image& src, Box from, int width, int height, std::uint8_t* dst) {
  check<ShapeError>(from.x >= 0 && from.y >= 0 && from.width > 0 && from.height > 0 && from.width <= src.width - from.x &&
                        from.height <= src.height - from.y,
                    "resize: box ", from.width, " x ", from.height, " at (", from.x, ", ", from.y, ") lies outside the picture of ",
                    src.width, " x ", src.height);
  check<ShapeError>(width > 0 && height > 0, "resize: to ", width, " x ", height, "; both must be at least 1");
  std::vector<std::uint8_t> scratch;
  resize_window(src, -from.x, -from.y, make_axis(from.width, width, 0, width), make_axis(from.height, height, 0, height), scratch, dst);
}

}  // namespace gossamer::data
