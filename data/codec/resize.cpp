// Antialiased bilinear resize, bit for bit Pillow's: the triangle filter widened by the scale, each
// pass rounded to 8 bits, weights in 22-bit fixed point, the order of the passes by the size
// (Pillow 13, src/libImaging/Resample.c). The mean over the area uses the same passes.
#include "gossamer/data/codec/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gossamer/core/compute.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/resize_passes.h"

namespace gossamer::data {
namespace {

// 32 minus 8 of the pixel minus 2 of headroom
constexpr int kBits = 22;
constexpr int kHalf = 1 << (kBits - 1);

// The pixels of `in` that output i of `out` is made of, first(i) … end(i) - 1, and their weights,
// not yet divided by their sum.
class Taps {
 public:
  Taps(int in, int out, Shrink filter)
      : in_(in),
        scale_(static_cast<double>(in) / out),
        wide_(std::max(scale_, 1.0)),
        inverse_(1.0 / wide_),
        covers_(filter == Shrink::area && in > out) {}
  int most() const { return static_cast<int>(std::ceil(wide_)) * 2 + 1; }
  int first(int i) const {
    return covers_ ? static_cast<int>(i * scale_ + kNothing)
                   : std::max(0, static_cast<int>(centre(i) - wide_ + 0.5));
  }
  int end(int i) const {
    return std::min(in_, covers_ ? static_cast<int>(std::ceil((i + 1) * scale_ - kNothing))
                                 : static_cast<int>(centre(i) + wide_ + 0.5));
  }
  double weight(int i, int pixel) const {
    if (covers_)
      return std::min(pixel + 1.0, (i + 1) * scale_) - std::max<double>(pixel, i * scale_);
    const double x = std::abs((pixel - centre(i) + 0.5) * inverse_);
    return x < 1.0 ? 1.0 - x : 0.0;
  }

 private:
  // a part of a pixel that is due to rounding only
  static constexpr double kNothing = 1e-9;
  double centre(int i) const { return (i + 0.5) * scale_; }
  int in_;
  double scale_, wide_, inverse_;
  bool covers_;
};

std::uint8_t rounded(int sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

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
void vertical_row(const std::uint8_t* src, std::size_t stride, const std::int32_t* w, int count,
                  std::size_t row, std::uint8_t* dst) {
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

}  // namespace

Axis make_axis(int in, int out, int begin, int outputs, bool mirrored, Shrink filter) {
  const Taps taps(in, out, filter);
  Axis axis;
  axis.taps = taps.most();
  axis.shrinks = in - out;
  axis.first.resize(static_cast<std::size_t>(outputs));
  axis.count.resize(static_cast<std::size_t>(outputs));
  axis.weights.assign(static_cast<std::size_t>(outputs) * axis.taps, 0);
  std::vector<double> k(static_cast<std::size_t>(axis.taps));
  for (int output = 0; output < outputs; ++output) {
    const int i = mirrored ? outputs - 1 - output : output;
    const int first = taps.first(begin + output), count = taps.end(begin + output) - first;
    double total = 0;
    for (int t = 0; t < count; ++t) {
      k[t] = taps.weight(begin + output, first + t);
      total += k[t];
    }
    for (int t = 0; t < count; ++t) {
      const double weight = total != 0 ? k[t] / total : k[t];
      axis.weights[static_cast<std::size_t>(i) * axis.taps + t] =
          static_cast<std::int32_t>(0.5 + weight * (1 << kBits));
    }
    axis.first[i] = first;
    axis.count[i] = count;
  }
  return axis;
}

void PlainPasses::horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) {
  for (int y = 0; y < src.count; ++y)
    horizontal_row(src.first + static_cast<std::size_t>(y) * src.stride, src_x_, *axis_,
                   dst + static_cast<std::size_t>(y) * dst_stride);
}

void PlainPasses::vertical(const Rows& src, int src_y, const Axis& axis, Outputs outputs,
                           std::size_t row, std::uint8_t* dst) {
  for (std::size_t i = outputs.begin; i < outputs.end; ++i, dst += row)
    vertical_row(src.first + static_cast<std::size_t>(axis.first[i] - src_y) * src.stride,
                 src.stride, axis.weights.data() + i * static_cast<std::size_t>(axis.taps),
                 axis.count[i], row, dst);
}

namespace {

// Rows that are taken together where there is a choice.
constexpr int kBlock = 16;

// The bytes from row to row, of rows of so many bytes.
std::size_t with_slack(std::size_t row) { return (row + kRowSlack + 63) / 64 * 64; }

std::unique_ptr<ResizeKernel> make_kernel(ResizePasses passes) {
  if (passes == ResizePasses::fastest) passes = fastest_passes();
  check<ConfigError>(std::ranges::count(resize_passes(), passes) > 0,
                     "resize: this CPU does not have these vector instructions");
  switch (passes) {
#ifdef GOSSAMER_RESIZE_AVX512
    case ResizePasses::avx512:
      return std::make_unique<Avx512Passes>();
#endif
#ifdef GOSSAMER_RESIZE_AVX2
    case ResizePasses::avx2:
      return std::make_unique<Avx2Passes>();
#endif
#ifdef GOSSAMER_RESIZE_NEON
    case ResizePasses::neon:
      return std::make_unique<NeonPasses>();
#endif
    default:
      return std::make_unique<PlainPasses>();
  }
}

}  // namespace

Resizer::Resizer(ResizePasses passes) : kernel_(make_kernel(passes)) {}
Resizer::~Resizer() = default;

void Resizer::start(const Crop& crop) {
  start(crop.horizontal(), crop.vertical(), crop.needed().x - crop.from.x);
}

void Resizer::start(Axis horizontal, Axis vertical, int src_x) {
  horizontal_ = std::move(horizontal);
  vertical_ = std::move(vertical);
  vertical_first_ = vertical_.shrinks > std::max(0, 2 * horizontal_.shrinks);
  row_ = horizontal_.first.size() * 3;
  stride_ = with_slack(row_);
  const int rows = vertical_first_ ? kBlock : vertical_.end() - vertical_.begin();
  between_.resize(stride_ * static_cast<std::size_t>(rows) + kRowSlack);
  at_ = between_.data();
  if (!vertical_first_) return kernel_->start(horizontal_, src_x);

  kernel_->start(horizontal_, horizontal_.begin());
  left_ = static_cast<std::size_t>(horizontal_.begin() - src_x) * 3;
  width_ = static_cast<std::size_t>(horizontal_.end() - horizontal_.begin()) * 3;
  window_stride_ = with_slack(width_);
  // with room for as many rows as one of the result needs, and as many again, so that moving up
  // what is still needed costs less than reading it
  window_.resize(window_stride_ * static_cast<std::size_t>(2 * vertical_.taps + kBlock));
  squeezed_.resize(width_ * vertical_.first.size() + kRowSlack);
  top_ = next_ = vertical_.begin();
  done_ = 0;
}

void Resizer::add(const Rows& rows) {
  if (vertical_first_) return squeeze(rows);
  kernel_->horizontal(rows, at_, stride_);
  at_ += static_cast<std::size_t>(rows.count) * stride_;
}

// The vertical pass of all rows of the result that have what they need.
void Resizer::squeeze(const Rows& rows) {
  const int room = 2 * vertical_.taps + kBlock;
  for (int y = 0; y < rows.count;) {
    for (; y < rows.count && next_ - top_ < room; ++y, ++next_)
      std::memcpy(window_.data() + static_cast<std::size_t>(next_ - top_) * window_stride_,
                  rows.first + static_cast<std::size_t>(y) * rows.stride + left_, width_);
    std::size_t ready = done_;
    while (ready < vertical_.first.size() &&
           vertical_.first[ready] + vertical_.count[ready] <= next_)
      ++ready;
    const Rows window{window_.data(), window_stride_, next_ - top_,
                      window_.data() + window_.size()};
    kernel_->vertical(window, top_, vertical_, {done_, ready}, width_,
                      squeezed_.data() + done_ * width_);
    done_ = ready;
    if (next_ - top_ < room) continue;
    const int keep = done_ < vertical_.first.size() ? vertical_.first[done_] : next_;
    std::memmove(window_.data(),
                 window_.data() + static_cast<std::size_t>(keep - top_) * window_stride_,
                 static_cast<std::size_t>(next_ - keep) * window_stride_);
    top_ = keep;
  }
}

void Resizer::finish(std::uint8_t* dst) {
  if (!vertical_first_) {
    const Rows rows{between_.data(), stride_, vertical_.end() - vertical_.begin(),
                    between_.data() + between_.size()};
    return kernel_->vertical(rows, vertical_.begin(), vertical_, {0, vertical_.first.size()}, row_,
                             dst);
  }
  for (std::size_t y = 0; y < done_; y += kBlock) {
    const std::size_t count = std::min<std::size_t>(kBlock, done_ - y);
    kernel_->horizontal({squeezed_.data() + y * width_, width_, static_cast<int>(count),
                         squeezed_.data() + squeezed_.size()},
                        between_.data(), stride_);
    for (std::size_t i = 0; i < count; ++i, dst += row_)
      std::memcpy(dst, between_.data() + i * stride_, row_);
  }
}

void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal,
                   const Axis& vertical, std::uint8_t* dst, ResizePasses passes) {
  Resizer resizer(passes);
  const std::size_t stride = static_cast<std::size_t>(src.width) * 3;
  resizer.start(horizontal, vertical, src_x);
  resizer.add({src.pixels.data() + static_cast<std::size_t>(vertical.begin() - src_y) * stride,
               stride, vertical.end() - vertical.begin(), src.pixels.data() + src.pixels.size()});
  resizer.finish(dst);
}

std::vector<ResizePasses> resize_passes() {
  std::vector<ResizePasses> all;
#ifdef GOSSAMER_RESIZE_AVX512
  if (Avx512Passes::can_run()) all.push_back(ResizePasses::avx512);
#endif
#ifdef GOSSAMER_RESIZE_AVX2
  all.push_back(ResizePasses::avx2);
#endif
#ifdef GOSSAMER_RESIZE_NEON
  if (NeonPasses::can_run()) all.push_back(ResizePasses::neon);
#endif
  all.push_back(ResizePasses::plain);
  return all;
}

ResizePasses fastest_passes() {
  const auto all = resize_passes();
  const bool narrower = all[0] == ResizePasses::avx512 && cpu::kernel_set() != "avx512";
  return all[narrower ? 1 : 0];
}

Box Crop::needed() const {
  const Taps across(from.width, width, filter), down(from.height, height, filter);
  const int left = across.first(x), top = down.first(y);
  return {from.x + left, from.y + top, across.end(x + side - 1) - left,
          down.end(y + side - 1) - top};
}

Image read_resized(ImageReader& reader, ImageSize to) {
  const ImageSize size = reader.size();
  reader.start({0, 0, size.width, size.height});
  Image image{to.height, to.width, {}};
  image.pixels.resize(static_cast<std::size_t>(to.width) * static_cast<std::size_t>(to.height) * 3);
  if (to.width == size.width && to.height == size.height) {
    reader.read(image.pixels.data());
    return image;
  }
  Resizer resizer;
  resizer.start(make_axis(size.width, to.width, 0, to.width),
                make_axis(size.height, to.height, 0, to.height), 0);
  for (Rows rows; reader.next(rows);) resizer.add(rows);
  resizer.finish(image.pixels.data());
  return image;
}

void resize(const Image& src, Box from, int width, int height, std::uint8_t* dst, Shrink filter) {
  check<ShapeError>(from.x >= 0 && from.y >= 0 && from.width > 0 && from.height > 0 &&
                        from.width <= src.width - from.x && from.height <= src.height - from.y,
                    "resize: box ", from.width, " x ", from.height, " at (", from.x, ", ", from.y,
                    ") lies outside the picture of ", src.width, " x ", src.height);
  check<ShapeError>(width > 0 && height > 0, "resize: to ", width, " x ", height,
                    "; both must be at least 1");
  resize_window(src, -from.x, -from.y, make_axis(from.width, width, 0, width, false, filter),
                make_axis(from.height, height, 0, height, false, filter), dst);
}

}  // namespace gossamer::data
