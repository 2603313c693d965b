// The passes of the resize in NEON with dot products. A weight of 22 bits is three bytes,
// w = a + 256 b + 65536 c, so that UDOT does four taps of four sums with one of them, exactly.
// Horizontally three of the four sums are red, green and blue of one output.
#include "gossamer/data/codec/resize_passes.h"

#ifdef GOSSAMER_RESIZE_NEON

#include <algorithm>
#include <array>
#include <cstring>

#include <arm_neon.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

namespace gossamer::data {
namespace {

constexpr int kBits = 22;
constexpr std::size_t kTaps = 4;    // of one dot product
constexpr std::size_t kReach = 16;  // bytes of one load

void set_weight(NeonPasses::Line& line, std::size_t tap, std::int32_t w) {
  for (std::size_t digit = 0; digit < 3; ++digit)
    line.bytes[kTaps * digit + tap] = static_cast<std::uint8_t>(w >> (8 * digit));
}

// The instruction, not the intrinsic, which only functions compiled for it may use.
#ifdef __ARM_FEATURE_DOTPROD
#define GOSSAMER_WITH_UDOT ""
#else
#define GOSSAMER_WITH_UDOT ".arch armv8.2-a+dotprod\n\t"
#endif
template <int digit>
uint32x4_t add_dots(uint32x4_t sums, uint8x16_t taps, uint8x16_t weights) {
  asm(GOSSAMER_WITH_UDOT "udot %0.4s, %1.16b, %2.4b[%3]"
      : "+w"(sums)
      : "w"(taps), "w"(weights), "i"(digit));
  return sums;
}

// Four sums, by digits of their weights.
struct Sums {
  uint32x4_t a = vdupq_n_u32(1u << (kBits - 1)), b = vdupq_n_u32(0), c = vdupq_n_u32(0);
  void add(uint8x16_t taps, uint8x16_t weights) {
    a = add_dots<0>(a, taps, weights);
    b = add_dots<1>(b, taps, weights);
    c = add_dots<2>(c, taps, weights);
  }
  uint32x4_t upper() const { return vshlq_n_u32(vaddq_u32(b, vshlq_n_u32(c, 8)), 8); }
};

// The upper 16 bits of four sums, of four more.
uint16x4_t words_of(const Sums& s) { return vaddhn_u32(s.a, s.upper()); }
uint16x8_t and_words_of(uint16x4_t first, const Sums& s) {
  return vaddhn_high_u32(first, s.a, s.upper());
}
// 255 where there is more, as it is by the rounding of weights.
uint8x16_t bytes_of(uint16x8_t first, uint16x8_t second) {
  return vqshrn_high_n_u16(vqshrn_n_u16(first, kBits - 16), second, kBits - 16);
}

}  // namespace

bool NeonPasses::can_run() {
#ifdef __linux__
  constexpr unsigned long with_dot_products = 1ul << 20;  // HWCAP_ASIMDDP
  static const bool can = (getauxval(AT_HWCAP) & with_dot_products) != 0;
  return can;
#else
  return false;
#endif
}

void NeonPasses::start(const Axis& axis, int src_x) {
  const std::size_t outputs = axis.first.size();
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(axis.count));
  chunks_ = (most + kTaps - 1) / kTaps;
  // four outputs are stored at once; those behind the last are thrown away
  offset_.resize((outputs + 3) / 4 * 4);
  lines_.assign(offset_.size() * chunks_, Line{});
  for (std::size_t i = 0; i < offset_.size(); ++i) {
    offset_[i] = 3 * static_cast<std::size_t>(axis.first[std::min(i, outputs - 1)] - src_x);
    for (std::size_t t = 0; i < outputs && t < static_cast<std::size_t>(axis.count[i]); ++t)
      set_weight(lines_[i * chunks_ + t / kTaps], t % kTaps,
                 axis.weights[i * static_cast<std::size_t>(axis.taps) + t]);
  }
  reach_ = *std::ranges::max_element(offset_) + kReach + 3 * kTaps * (chunks_ - 1);
}

// They share the loads of weights.
template <int rows>
void NeonPasses::rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                              std::size_t dst_stride) const {
  // Four pixels become four times red, green and blue; of four results r g b 0 the zeros go.
  constexpr std::uint8_t by_colour[16] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 255, 255, 255, 255},
                         close[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 255, 255, 255, 255};
  const uint8x16_t colours = vld1q_u8(by_colour), closed = vld1q_u8(close);
  const Line* line = lines_.data();
  // calls take(row, sums) for each row of output i
  const auto output = [&](std::size_t i, auto take) {
    Sums sums[rows];
    std::size_t at = offset_[i];
    for (std::size_t chunk = chunks_; chunk-- > 0; at += 3 * kTaps, ++line) {
      const uint8x16_t weights = vld1q_u8(line->bytes);
      for (int r = 0; r < rows; ++r)
        sums[r].add(vqtbl1q_u8(vld1q_u8(src[r] + at), colours), weights);
    }
    for (int r = 0; r < rows; ++r) take(r, sums[r]);
  };
  const auto two_outputs = [&](std::size_t i, uint16x8_t* words) {
    uint16x4_t first[rows];
    output(i, [&](int r, const Sums& s) { first[r] = words_of(s); });
    output(i + 1, [&](int r, const Sums& s) { words[r] = and_words_of(first[r], s); });
  };
  for (std::size_t i = 0; i < offset_.size(); i += 4) {
    uint16x8_t left[rows], right[rows];
    two_outputs(i, left);
    two_outputs(i + 2, right);
    for (int r = 0; r < rows; ++r)
      vst1q_u8(dst + static_cast<std::size_t>(r) * dst_stride + 3 * i,
               vqtbl1q_u8(bytes_of(left[r], right[r]), closed));
  }
}

void NeonPasses::horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) {
  for_row_blocks(src, reach_, copy_, [&]<int rows>(const std::uint8_t* const* from, int y) {
    rows_at_once<rows>(from, dst + static_cast<std::size_t>(y) * dst_stride, dst_stride);
  });
}

void NeonPasses::vertical(const Rows& src, int src_y, const Axis& axis, Outputs outputs,
                          std::size_t row, std::uint8_t* dst) {
  constexpr std::size_t width = 16;
  std::vector<Line> weights;
  std::vector<const std::uint8_t*> rows;  // the last one again, with a weight of 0
  for (std::size_t i = outputs.begin; i < outputs.end; ++i, dst += row) {
    const std::int32_t* w = axis.weights.data() + i * static_cast<std::size_t>(axis.taps);
    const auto count = static_cast<std::size_t>(axis.count[i]);
    weights.assign((count + kTaps - 1) / kTaps, Line{});
    for (std::size_t t = 0; t < count; ++t) set_weight(weights[t / kTaps], t % kTaps, w[t]);
    rows.resize(weights.size() * kTaps);
    for (std::size_t t = 0; t < rows.size(); ++t)
      rows[t] =
          src.first +
          (static_cast<std::size_t>(axis.first[i] - src_y) + std::min(t, count - 1)) * src.stride;
    for (std::size_t x = 0; x < row; x += width) {
      Sums sums[4];
      for (std::size_t chunk = 0; chunk < weights.size(); ++chunk) {
        const auto load = [&](std::size_t k) { return vld1q_u8(rows[chunk * kTaps + k] + x); };
        // the four taps of a column side by side
        const uint8x16x2_t even = vzipq_u8(load(0), load(2)), odd = vzipq_u8(load(1), load(3));
        const uint8x16_t line = vld1q_u8(weights[chunk].bytes);
        for (int half = 0; half < 2; ++half) {
          const uint8x16x2_t taps = vzipq_u8(even.val[half], odd.val[half]);
          sums[2 * half].add(taps.val[0], line);
          sums[2 * half + 1].add(taps.val[1], line);
        }
      }
      const uint8x16_t bytes = bytes_of(and_words_of(words_of(sums[0]), sums[1]),
                                        and_words_of(words_of(sums[2]), sums[3]));
      if (x + width <= row) {
        vst1q_u8(dst + x, bytes);
      } else {
        std::uint8_t rest[width];
        vst1q_u8(rest, bytes);
        std::memcpy(dst + x, rest, row - x);
      }
    }
  }
}

}  // namespace gossamer::data

#endif
