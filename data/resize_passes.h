// The two passes of the resize: plain C++, and the same sums in AVX-512 where the compiler may use it (VBMI and VNNI: Ice Lake, Zen 4
// and later). Both give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossamer/data/resize.h"

namespace gossamer::data {

// Rows of RGB pixels below each other, `stride` bytes apart; `end`: behind the last byte that may be read.
struct Rows {
  const std::uint8_t* first;
  std::size_t stride;
  int count;
  const std::uint8_t* end;
};

constexpr std::size_t kRowSlack = 64;                      // bytes behind each row that a pass may overwrite or read

// Every row by itself: dst row y at dst + y * dst_stride, dst_stride >= 3 * outputs + kRowSlack. src_x: the column of first[0].
// One output row for each output of the axis from rows `row` bytes long; src row 0 is row src_y.
struct PlainPasses {
  static void horizontal(const Rows& src, int src_x, const Axis&, std::uint8_t* dst, std::size_t dst_stride);
  static void vertical(const Rows& src, int src_y, const Axis&, std::size_t row, std::uint8_t* dst);
};

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define GOSSAMER_RESIZE_AVX512 1
struct Avx512Passes {
  static void horizontal(const Rows& src, int src_x, const Axis&, std::uint8_t* dst, std::size_t dst_stride);
  static void vertical(const Rows& src, int src_y, const Axis&, std::size_t row, std::uint8_t* dst);
};
using FastPasses = Avx512Passes;
#else
using FastPasses = PlainPasses;
#endif

}  // namespace gossamer::data
