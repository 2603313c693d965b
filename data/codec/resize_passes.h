// The two passes of the resize in plain C++, and the same sums in AVX2, which every x86-64 CPU that
// this is compiled for has, and, chosen when they run, in AVX-512 (VBMI and VNNI: Ice Lake, Zen 4
// and later) and in NEON with dot products (Cortex-A76, Neoverse N1 and later). All give the same
// bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gossamer/data/codec/image_reader.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {

// bytes behind each row that a pass may overwrite or read
constexpr std::size_t kRowSlack = 64;

// of an axis
struct Outputs {
  std::size_t begin, end;
};

class ResizeKernel {
 public:
  virtual ~ResizeKernel() = default;
  // the axis of the horizontal pass, which lives on; the rows that follow begin with column src_x
  virtual void start(const Axis&, int src_x) = 0;
  // row y of dst lies at dst + y * dst_stride, where dst_stride >= 3 * outputs + kRowSlack
  virtual void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) = 0;
  // the output rows begin … end - 1 of the axis, `row` bytes each; src row 0 is row src_y. `end` of
  // src is not looked at: kRowSlack bytes behind each of its rows may be read.
  virtual void vertical(const Rows& src, int src_y, const Axis&, Outputs, std::size_t row,
                        std::uint8_t* dst) = 0;
};

class PlainPasses final : public ResizeKernel {
 public:
  void start(const Axis& axis, int src_x) override {
    axis_ = &axis;
    src_x_ = src_x;
  }
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) override;
  void vertical(const Rows& src, int src_y, const Axis&, Outputs, std::size_t row,
                std::uint8_t* dst) override;

 private:
  const Axis* axis_ = nullptr;
  int src_x_ = 0;
};

// Calls run<4>(rows, y) with the pointers of four rows, run<1> with one. `reach` bytes of a row may
// be read: a row behind which there is less (the last ones) goes through `copy`.
template <class Run>
void for_row_blocks(const Rows& src, std::size_t reach, std::vector<std::uint8_t>& copy, Run run) {
  constexpr int block = 4;
  // rows behind which there is room for the last load
  int safe = src.count;
  while (safe > 0 && static_cast<std::size_t>(src.end - src.first) <
                         static_cast<std::size_t>(safe - 1) * src.stride + reach)
    --safe;
  int y = 0;
  for (; y + block <= safe; y += block) {
    const std::uint8_t* rows[block];
    for (int r = 0; r < block; ++r)
      rows[r] = src.first + static_cast<std::size_t>(y + r) * src.stride;
    run.template operator()<block>(rows, y);
  }
  for (; y < src.count; ++y) {
    const std::uint8_t* row = src.first + static_cast<std::size_t>(y) * src.stride;
    if (y >= safe) {
      copy.resize(reach);
      std::ranges::fill(copy, std::uint8_t{0});
      std::memcpy(copy.data(), row, std::min(reach, static_cast<std::size_t>(src.end - row)));
      row = copy.data();
    }
    run.template operator()<1>(&row, y);
  }
}

#if defined(__AVX2__)
#define GOSSAMER_RESIZE_AVX2 1
class Avx2Passes final : public ResizeKernel {
 public:
  void start(const Axis& axis, int src_x) override;
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) override;
  void vertical(const Rows& src, int src_y, const Axis&, Outputs, std::size_t row,
                std::uint8_t* dst) override;

 private:
  template <int rows>
  void rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                    std::size_t dst_stride) const;
  struct alignas(32) Line {
    std::int16_t weight[16];
  };

  // steps of two taps; bytes of a row that are read
  std::size_t chunks_ = 0, reach_ = 0;
  // of each output: where its pixels begin, bytes
  std::vector<std::size_t> offset_;
  // of two outputs: low and high weights, chunk after chunk
  std::vector<Line> lines_;
  std::vector<std::uint8_t> copy_;
};
#endif

#if defined(__AVX2__)
#define GOSSAMER_RESIZE_AVX512 1
class Avx512Passes final : public ResizeKernel {
 public:
  static bool can_run();  // on this CPU
  void start(const Axis& axis, int src_x) override;
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) override;
  void vertical(const Rows& src, int src_y, const Axis&, Outputs, std::size_t row,
                std::uint8_t* dst) override;

 private:
  template <int rows>
  void rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                    std::size_t dst_stride) const;
  struct alignas(64) Line {
    std::int8_t bytes[64];
  };

  int pixels_ = 5, groups_ = 0, chunks_ = 0;  // outputs of a group; steps of four taps
  std::size_t reach_ = 0;                     // bytes of a row that are read
  // of each group: where its pixels begin, bytes
  std::vector<std::size_t> offset_;
  // of each group: which of 64 bytes belong to which sum; three lines of weights a chunk
  std::vector<Line> lines_;
  std::vector<std::uint8_t> copy_;
};
#endif

#if defined(__aarch64__)
#define GOSSAMER_RESIZE_NEON 1
class NeonPasses final : public ResizeKernel {
 public:
  static bool can_run();  // on this CPU
  void start(const Axis& axis, int src_x) override;
  void horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) override;
  void vertical(const Rows& src, int src_y, const Axis&, Outputs, std::size_t row,
                std::uint8_t* dst) override;

  // The lowest byte of the weights of four taps, then their second and third ones.
  struct alignas(16) Line {
    std::uint8_t bytes[16];
  };

 private:
  template <int rows>
  void rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                    std::size_t dst_stride) const;

  // steps of four taps; bytes of a row that are read
  std::size_t chunks_ = 0, reach_ = 0;
  // of each output: where its pixels begin, bytes
  std::vector<std::size_t> offset_;
  // of each output: its weights, chunk after chunk
  std::vector<Line> lines_;
  std::vector<std::uint8_t> copy_;
};
#endif

}  // namespace gossamer::data
