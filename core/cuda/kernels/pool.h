// Pooling for GPUs: a thread has eight channels of a pixel, and no division by anything but 32-bit
// numbers. Same formulas, taps and ties as cpu/pool.cpp.
#pragma once

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda/kernels/launch.h"

namespace gossamer::kernels {

// A PoolGeometry in 32 bits; the number of pixels must be below 2^32.
struct Pool {
  unsigned h, w, ho, wo, kernel, stride, padding;
  static Pool of(const PoolGeometry& p) {
    const auto narrow = [](i64 v) { return static_cast<unsigned>(v); };
    return {narrow(p.h),      narrow(p.w),      narrow(p.ho),     narrow(p.wo),
            narrow(p.kernel), narrow(p.stride), narrow(p.padding)};
  }
};

template <class T, bool whole, bool maximum>
struct PoolForward {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  Tiles tiles;  // rows: output pixels
  Pool pool;
  const T* x;
  T* y;
  std::uint8_t* taken;  // tap of the maximum, r kernel + s; may be null
  float factor;         // of averages

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    tiles.for_rows<1>(
        p, [](i64 r) { return r; }, [&](i64 r, i64) { one_pixel(r, p); });
  }
  GOSSAMER_HD void one_pixel(i64 row, const Tiles::Place& p) const {
    const unsigned pixel = static_cast<unsigned>(row), line = pixel / pool.wo,
                   q = pixel - line * pool.wo, n = line / pool.ho, o = line - n * pool.ho;
    Eight best{};
    std::uint8_t tap[8] = {};
    bool first = true;
    for (unsigned r = 0; r < pool.kernel; ++r)
      for (unsigned s = 0; s < pool.kernel; ++s) {
        // beyond the edge: a large number
        const unsigned u = o * pool.stride + r - pool.padding,
                       v = q * pool.stride + s - pool.padding;
        if (u >= pool.h || v >= pool.w) continue;
        const Eight e = load_eight<whole>(
            x + ((static_cast<i64>(n) * pool.h + u) * pool.w + v) * tiles.cols + p.col, p.count);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          if constexpr (maximum) {
            const float value = e.v[j];
            if (first || value > best.v[j] || value != value) {  // a NaN wins and stays
              best.v[j] = value;
              tap[j] = static_cast<std::uint8_t>(r * pool.kernel + s);
            }
          } else {
            best.v[j] += e.v[j];
          }
        }
        first = false;
      }
    const i64 at = row * tiles.cols + p.col;
    if constexpr (!maximum) {
      GOSSAMER_UNROLL
      for (int j = 0; j < 8; ++j) best.v[j] *= factor;
    }
    store_eight<whole>(y + at, p.count, best);
    if (maximum && taken) store_bytes<whole>(taken + at, p.count, tap);
  }
};

// Each input pixel asks the windows that cover it, so no two threads add to one number.
template <class T, bool whole, bool maximum>
struct PoolBackward {
  static constexpr int threads = Tiles::threads, phases = 1,
                       resident = maximum ? 0 : kWithoutSpilling;
  using Shared = Nothing;
  using State = Nothing;
  Tiles tiles;  // rows: input pixels
  Pool pool;
  const T* dy;
  const std::uint8_t* taken;
  T* dx;
  float factor;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    tiles.for_rows<1>(
        p, [](i64 r) { return r; }, [&](i64 r, i64) { one_pixel(r, p); });
  }
  // First window that covers input i.
  GOSSAMER_HD unsigned first_window(unsigned i) const {
    return i + pool.padding < pool.kernel ? 0 : (i + pool.padding - pool.kernel) / pool.stride + 1;
  }
  GOSSAMER_HD void one_pixel(i64 row, const Tiles::Place& p) const {
    const unsigned pixel = static_cast<unsigned>(row), line = pixel / pool.w,
                   v = pixel - line * pool.w, n = line / pool.h, u = line - n * pool.h;
    const unsigned last_o = (u + pool.padding) / pool.stride,
                   last_q = (v + pool.padding) / pool.stride;
    Eight sum{};
    for (unsigned o = first_window(u); o <= last_o && o < pool.ho; ++o)
      for (unsigned q = first_window(v); q <= last_q && q < pool.wo; ++q) {
        const i64 from = ((static_cast<i64>(n) * pool.ho + o) * pool.wo + q) * tiles.cols + p.col;
        const unsigned tap =
            (u + pool.padding - o * pool.stride) * pool.kernel + v + pool.padding - q * pool.stride;
        const Eight up = load_eight<whole>(dy + from, p.count);
        std::uint8_t arg[8] = {};
        if constexpr (maximum) load_bytes<whole>(taken + from, p.count, arg);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) sum.v[j] += !maximum || arg[j] == tap ? up.v[j] : 0.0f;
      }
    if constexpr (!maximum) {
      GOSSAMER_UNROLL
      for (int j = 0; j < 8; ++j) sum.v[j] *= factor;
    }
    store_eight<whole>(dx + row * tiles.cols + p.col, p.count, sum);
  }
};

// --- global average
template <class T, bool whole>
struct GlobalAverage {
  const T* x;
  T* y;
  i64 pixels, cols;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 groups = (cols + 7) / 8, n = i / groups, col = (i - n * groups) * 8;
    const int count = cols - col < 8 ? static_cast<int>(cols - col) : 8;
    const float factor = 1.0f / static_cast<float>(pixels);
    Eight sum{};
    const T* from = x + n * pixels * cols + col;
    i64 p = 0;
    for (; p + 4 <= pixels; p += 4) {  // four loads under way
      Eight e[4];
      GOSSAMER_UNROLL
      for (int k = 0; k < 4; ++k) e[k] = load_eight<whole>(from + (p + k) * cols, count);
      GOSSAMER_UNROLL
      for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 8; ++j) sum.v[j] += e[k].v[j];
    }
    for (; p < pixels; ++p) {
      const Eight e = load_eight<whole>(from + p * cols, count);
      for (int j = 0; j < 8; ++j) sum.v[j] += e.v[j];
    }
    for (int j = 0; j < 8; ++j) sum.v[j] *= factor;
    store_eight<whole>(y + n * cols + col, count, sum);
  }
};
template <class T, bool whole>
struct GlobalAverageBack {
  const T* dy;
  T* dx;
  i64 pixels, cols;
  float factor;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 groups = (cols + 7) / 8, pixel = i / groups, col = (i - pixel * groups) * 8;
    const int count = cols - col < 8 ? static_cast<int>(cols - col) : 8;
    Eight e = load_eight<whole>(dy + pixel / pixels * cols + col, count);
    for (int j = 0; j < 8; ++j) e.v[j] *= factor;
    store_eight<whole>(dx + pixel * cols + col, count, e);
  }
};

}  // namespace gossamer::kernels
