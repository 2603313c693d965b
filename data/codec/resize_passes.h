// The two passes of the resize: plain C++, and the same sums in AVX-512 where the compiler may use it (VBMI and VNNI: Ice Lake, Zen 4
// and later). Both give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossamer/data/codec/codec.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {

constexpr std::size_t kRowSlack = 64;                      // bytes behind each row that a pass may overwrite or read

// Horizontal: start() with an axis that lives on, then any rows, column src_x first; dst row y at dst + y * dst_stride, where
// dst_stride >= 3 * outputs + kRowSlack. Vertical: one output row for each output of the axis, `row` bytes; src row 0 is row src_y.
class PlainPasses {
 public:
  void start(const Axis& axis, int src_x) { axis_ = &axis, src_x_ = src_x; }
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride);
  static void vertical(const Rows& src, int src_y, const Axis&, std::size_t row, std::uint8_t* dst);

 private:
  const Axis* axis_ = nullptr;
  int src_x_ = 0;
};

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define GOSSAMER_RESIZE_AVX512 1
class Avx512Passes {
 public:
  void start(const Axis& axis, int src_x);
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride);
  static void vertical(const Rows& src, int src_y, const Axis&, std::size_t row, std::uint8_t* dst);

 private:
  template <int rows> void rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst, std::size_t dst_stride) const;
  struct alignas(64) Line { std::int8_t bytes[64]; };

  int pixels_ = 5, groups_ = 0, chunks_ = 0;               // outputs of a group; steps of four taps
  std::size_t reach_ = 0;                                  // bytes of a row that are read
  std::vector<std::size_t> offset_;                        // of each group: where its pixels begin, bytes
  std::vector<Line> lines_;                                // of each group: which of 64 bytes belong to which sum; three lines of weights a chunk
  std::vector<std::uint8_t> copy_;                         // of a row whose last loads would end behind the picture
};
using FastPasses = Avx512Passes;
#else
using FastPasses = PlainPasses;
#endif

}  // namespace gossamer::data
