// The stem of a ResNet for GPUs: batch norm, ReLU and max pooling in one pass, and the 7 x 7
// convolution as a 4 x 4 one on pairs of pixels. Global averages are here too: like pooling, a
// thread has eight channels of one output.
#pragma once

#include "gossamer/core/ops/norm_back_kernels.h"

namespace gossamer::kernels {

// max over 3 x 3 windows (stride 2, padding 1) of relu(x scale + shift); taken: which tap it was,
// kNoTap if the ReLU made it zero.
template <class T, bool whole>
struct NormPool {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  Tiles tiles;  // rows: output pixels
  const T* x;
  const float *scale, *shift;
  T* y;
  std::uint8_t* taken;
  unsigned h, w, ho, wo;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    if (p.count == 0) return;
    const Eight s = load_eight<whole>(scale + p.col, p.count),
                b = load_eight<whole>(shift + p.col, p.count);
    tiles.for_rows<1>(
        p, [](i64 r) { return r; }, [&](i64 r, i64) { one_pixel(r, p, s, b); });
  }

  GOSSAMER_HD void one_pixel(i64 row, const Tiles::Place& p, const Eight& s, const Eight& b) const {
    const unsigned pixel = static_cast<unsigned>(row), line = pixel / wo, q = pixel - line * wo,
                   n = line / ho, o = line - n * ho;
    Eight best;
    std::uint8_t tap[8];
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      best.v[j] = 0;
      tap[j] = kNoTap;
    }
    GOSSAMER_UNROLL
    for (unsigned r = 0; r < 3; ++r) GOSSAMER_UNROLL
    for (unsigned t = 0; t < 3; ++t) {
      // beyond the edge wraps around to a large number
      const unsigned u = 2 * o + r - 1, v = 2 * q + t - 1;
      if (u >= h || v >= w) continue;
      const Eight e = load_eight<whole>(
          x + ((static_cast<i64>(n) * h + u) * w + v) * tiles.cols + p.col, p.count);
      GOSSAMER_UNROLL
      for (int j = 0; j < 8; ++j) {
        const float value = e.v[j] * s.v[j] + b.v[j];
        if (value > best.v[j] || value != value) {  // a NaN wins and stays
          best.v[j] = value;
          tap[j] = static_cast<std::uint8_t>(3 * r + t);
        }
      }
    }
    const i64 at = row * tiles.cols + p.col;
    store_eight<whole>(y + at, p.count, best);
    store_bytes<whole>(taken + at, p.count, tap);
  }
};

// Value (row h, column w, channel c) of an image is channel (2 (h%2) + w%2) 3 + c of pair (h/2,
// w/2). Thread: half the channels of a pair.
template <class T>
struct StemInput {
  const T* images;  // [n, 2 h, 2 w, 3]
  T* pairs;         // [n, h, w, 16]
  i64 w;
  GOSSAMER_HD void operator()(i64 i) const {
    // line: of pairs, over all images
    const i64 pair = i / 2, line = pair / w, v = pair - line * w;
    const int half = static_cast<int>(i % 2);
    Eight e{};
    for (int j = 0; j < 8; ++j) {
      const int channel = 8 * half + j, dy = channel / 6, dx = channel / 3 % 2, c = channel % 3;
      if (channel < 12)
        e.v[j] = static_cast<float>(images[((2 * line + dy) * 2 * w + 2 * v + dx) * 3 + c]);
    }
    store_eight<true>(pairs + 8 * i, 8, e);
  }
};

// Tap (r, s) of the 7 x 7 filter is (r + 1, s + 1) in 8 x 8 with an empty line before: pair ((r +
// 1)/2, (s + 1)/2).
template <class W, class T>
struct StemWeight {
  const W* w;  // [k, 7, 7, 3]
  T* pairs;    // [k, 4, 4, 16]
  GOSSAMER_HD void operator()(i64 i) const {
    const int channel = static_cast<int>(i % 16), across = static_cast<int>(i / 16 % 4),
              down = static_cast<int>(i / 64 % 4);
    const int r = 2 * down + channel / 6 - 1, s = 2 * across + channel / 3 % 2 - 1;
    const bool used = channel < 12 && r >= 0 && s >= 0;
    pairs[i] =
        T(used ? static_cast<float>(w[((i / 256 * 7 + r) * 7 + s) * 3 + channel % 3]) : 0.0f);
  }
};
template <class T>
struct StemWeightGrad {
  const T* d_pairs;
  float* dw;
  GOSSAMER_HD void operator()(i64 i) const {
    const int c = static_cast<int>(i % 3), s = static_cast<int>(i / 3 % 7) + 1,
              r = static_cast<int>(i / 21 % 7) + 1;
    const int channel = (2 * (r % 2) + s % 2) * 3 + c;
    dw[i] = static_cast<float>(d_pairs[((i / 147 * 4 + r / 2) * 4 + s / 2) * 16 + channel]);
  }
};

// --- global average
// -------------------------------------------------------------------------------------------------
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
