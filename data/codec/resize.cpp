// Antialiased bilinear resize, bit for bit Pillow's: the triangle filter widened by the scale,
// horizontal pass first, each pass rounded to 8 bits, weights in 22-bit fixed point (Pillow,
// src/libImaging/Resample.c). And by area, with the same passes.
#include "gossamer/data/codec/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/resize_passes.h"

namespace gossamer::data {
namespace {

// 32 minus 8 of the pixel minus 2 of headroom
constexpr int kBits = 22;
constexpr int kHalf = 1 << (kBits - 1);

// Which of `in` pixels output i of `out` is made of, first(i) … end(i) - 1, and how much of each;
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
  // a share of a pixel that only rounding has made
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

// Rows of the source go in from above, as they are decoded; the result is made when all are there.
template <class Passes>
class Resizer {
 public:
  void start(int src_x, const Axis& horizontal, const Axis& vertical,
             std::vector<std::uint8_t>& scratch) {
    row_ = horizontal.first.size() * 3;
    stride_ = (row_ + kRowSlack + 63) / 64 * 64;
    scratch.resize(stride_ * static_cast<std::size_t>(vertical.end() - vertical.begin()) +
                   kRowSlack);
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
    Passes::vertical({from, stride_, vertical.end() - vertical.begin(), from + scratch_->size()},
                     vertical.begin(), vertical, row_, dst);
  }

 private:
  Passes passes_;
  std::size_t row_ = 0, stride_ = 0;              // bytes
  std::vector<std::uint8_t>* scratch_ = nullptr;  // the rows after the horizontal pass
  std::uint8_t* at_ = nullptr;
};

template <class Passes>
void run(const Image& src, int src_x, int src_y, const Axis& horizontal, const Axis& vertical,
         std::vector<std::uint8_t>& scratch, std::uint8_t* dst) {
  thread_local Resizer<Passes> resizer;
  const std::size_t stride = static_cast<std::size_t>(src.width) * 3;
  resizer.start(src_x, horizontal, vertical, scratch);
  resizer.add({src.pixels.data() + static_cast<std::size_t>(vertical.begin() - src_y) * stride,
               stride, vertical.end() - vertical.begin(), src.pixels.data() + src.pixels.size()});
  resizer.finish(vertical, dst);
}

}  // namespace

Axis make_axis(int in, int out, int begin, int outputs, bool mirrored, Shrink filter) {
  const Taps taps(in, out, filter);
  Axis axis;
  axis.taps = taps.most();
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

void PlainPasses::vertical(const Rows& src, int src_y, const Axis& axis, std::size_t row,
                           std::uint8_t* dst) {
  for (std::size_t i = 0; i < axis.first.size(); ++i)
    vertical_row(src.first + static_cast<std::size_t>(axis.first[i] - src_y) * src.stride,
                 src.stride, axis.weights.data() + i * static_cast<std::size_t>(axis.taps),
                 axis.count[i], row, dst + i * row);
}

void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal,
                   const Axis& vertical, std::vector<std::uint8_t>& scratch, std::uint8_t* dst,
                   ResizePasses passes) {
  const auto with = [&]<class Passes>() {
    run<Passes>(src, src_x, src_y, horizontal, vertical, scratch, dst);
  };
  switch (passes) {
    case ResizePasses::fastest:
      return with.operator()<FastPasses>();
    case ResizePasses::plain:
      return with.operator()<PlainPasses>();
#ifdef GOSSAMER_RESIZE_AVX512
    case ResizePasses::avx512:
      return with.operator()<Avx512Passes>();
#endif
#ifdef GOSSAMER_RESIZE_AVX2
    case ResizePasses::avx2:
      return with.operator()<Avx2Passes>();
#endif
    default:
      fail<ConfigError>("resize: the compiler was not allowed these vector instructions");
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

Box Crop::needed() const {
  const Taps across(from.width, width, filter), down(from.height, height, filter);
  const int left = across.first(x), top = down.first(y);
  return {from.x + left, from.y + top, across.end(x + side - 1) - left,
          down.end(y + side - 1) - top};
}

namespace {

// `start` is told the crop and the box that it needs, then the box's rows go to `add`.
void decode_box_of(const Source& source, PickCrop pick, FunctionRef<void(const Crop&, Box)> start,
                   RowSink add, Image& spare) {
  const auto begin = [&](ImageSize size) {
    const Crop crop = pick(size);
    const Box box = crop.needed();
    start(crop, box);
    return box;
  };
  if (source.raw.width > 0) {
    const std::size_t row = static_cast<std::size_t>(source.raw.width) * 3;
    check<DataError>(source.bytes.size() == row * static_cast<std::size_t>(source.raw.height),
                     source.name, ": ", source.bytes.size(), " bytes for ", source.raw.width, " x ",
                     source.raw.height, " raw pixels");
    const Box box = begin(source.raw);
    const auto* const pixels = reinterpret_cast<const std::uint8_t*>(source.bytes.data());
    add({pixels + static_cast<std::size_t>(box.y) * row + static_cast<std::size_t>(box.x) * 3, row,
         box.height, pixels + source.bytes.size()});
  } else {
    decode_rows(source.bytes, source.name, begin, add, spare);
  }
}

// A crop being resized from the rows it needs.
class CropResizer {
 public:
  void start(const Crop& crop, Box box, std::vector<std::uint8_t>& scratch) {
    horizontal_ = crop.horizontal();
    vertical_ = crop.vertical();
    resizer_.start(box.x - crop.from.x, horizontal_, vertical_, scratch);
  }
  void add(const Rows& rows) { resizer_.add(rows); }
  void finish(std::uint8_t* dst) { resizer_.finish(vertical_, dst); }

 private:
  Axis horizontal_, vertical_;
  Resizer<FastPasses> resizer_;
};

}  // namespace

void decode_resized(const Source& source, PickCrop pick, Image& spare,
                    std::vector<std::uint8_t>& scratch, Place place) {
  thread_local CropResizer resizer;
  decode_box_of(
      source, pick, [&](const Crop& crop, Box box) { resizer.start(crop, box, scratch); },
      [&](const Rows& rows) { resizer.add(rows); }, spare);
  if (std::uint8_t* const dst = place()) resizer.finish(dst);
}

bool decode_needed(const Source& source, PickCrop pick, std::size_t most, Image& spare,
                   std::vector<std::uint8_t>& scratch, std::vector<std::uint8_t>& out) {
  thread_local CropResizer resizer;
  bool fits = false;
  std::size_t row = 0;
  std::uint8_t* to = nullptr;
  const auto start = [&](const Crop& crop, Box box) {
    row = static_cast<std::size_t>(box.width) * 3;
    const std::size_t bytes = row * static_cast<std::size_t>(box.height);
    fits = bytes <= most;
    out.resize(fits
                   ? bytes
                   : static_cast<std::size_t>(crop.side) * static_cast<std::size_t>(crop.side) * 3);
    to = out.data();
    if (!fits) resizer.start(crop, box, scratch);
  };
  const auto add = [&](const Rows& rows) {
    if (!fits) return resizer.add(rows);
    for (int i = 0; i < rows.count; ++i, to += row)
      std::memcpy(to, rows.first + static_cast<std::size_t>(i) * rows.stride, row);
  };
  decode_box_of(source, pick, start, add, spare);
  if (!fits) resizer.finish(out.data());
  return fits;
}

Image decode_shrunk(const Source& source, FunctionRef<ImageSize(ImageSize)> shrunk, Image& spare) {
  Image image;
  Axis horizontal, vertical;
  Resizer<FastPasses> resizer;
  std::vector<std::uint8_t> scratch;
  std::uint8_t* to = nullptr;
  bool as_it_is = false;
  const auto start = [&](ImageSize size) {
    const auto [width, height] = shrunk(size);
    as_it_is = width == size.width && height == size.height;
    image = {height, width,
             std::vector<std::uint8_t>(static_cast<std::size_t>(width) * height * 3)};
    to = image.pixels.data();
    if (!as_it_is) {
      horizontal = make_axis(size.width, width, 0, width);
      vertical = make_axis(size.height, height, 0, height);
      resizer.start(0, horizontal, vertical, scratch);
    }
    return Box{0, 0, size.width, size.height};
  };
  const auto add = [&](const Rows& rows) {
    if (!as_it_is) return resizer.add(rows);
    const std::size_t row = static_cast<std::size_t>(image.width) * 3;
    for (int i = 0; i < rows.count; ++i, to += row)
      std::memcpy(to, rows.first + static_cast<std::size_t>(i) * rows.stride, row);
  };
  decode_rows(source.bytes, source.name, start, add, spare);
  if (!as_it_is) resizer.finish(vertical, image.pixels.data());
  return image;
}

void resize(const Image& src, Box from, int width, int height, std::uint8_t* dst, Shrink filter) {
  check<ShapeError>(from.x >= 0 && from.y >= 0 && from.width > 0 && from.height > 0 &&
                        from.width <= src.width - from.x && from.height <= src.height - from.y,
                    "resize: box ", from.width, " x ", from.height, " at (", from.x, ", ", from.y,
                    ") lies outside the picture of ", src.width, " x ", src.height);
  check<ShapeError>(width > 0 && height > 0, "resize: to ", width, " x ", height,
                    "; both must be at least 1");
  std::vector<std::uint8_t> scratch;
  resize_window(src, -from.x, -from.y, make_axis(from.width, width, 0, width, false, filter),
                make_axis(from.height, height, 0, height, false, filter), scratch, dst);
}

}  // namespace gossamer::data
