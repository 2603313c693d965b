// The stem's batch norm for GPUs, backward: as norm_back.h, below a ReLU and max pooling over 3 x 3
// with stride 2 and padding 1. A thread takes cells of 2 x 2 pixels, for window (o, q) those from
// (2 o, 2 q) on: this window, the next to the right and the next two below are all that cover them.
// So there are four loads of a window for four pixels, where single pixels take nine.
#pragma once

#include "gossamer/core/cuda/kernels/norm.h"

namespace gossamer::kernels {

// Eight values, in 16 bits as they lie in memory: so loads under way take half the registers.
template <class T, bool whole>
struct Waiting {
#ifdef __CUDA_ARCH__
  static constexpr bool packed = whole && sizeof(T) == 2;
  std::conditional_t<packed, uint4, Eight> held;
  __device__ void load(const T* p, int count) {
    if constexpr (packed)
      held = detail::load16<Reuse::later>(p);
    else
      held = load_eight<whole>(p, count);
  }
  __device__ Eight get() const {
    if constexpr (packed) {
      Eight e;
      detail::unpack<T>(held.x, e.v[0], e.v[1]);
      detail::unpack<T>(held.y, e.v[2], e.v[3]);
      detail::unpack<T>(held.z, e.v[4], e.v[5]);
      detail::unpack<T>(held.w, e.v[6], e.v[7]);
      return e;
    } else {
      return held;
    }
  }
#else
  Eight held;
  void load(const T* p, int count) { held = load_eight<whole>(p, count); }
  Eight get() const { return held; }
#endif
};

// taken: the tap 3 r + s that was the maximum, kNoTap where the ReLU made it zero (so no further
// mask is needed).
template <class T, bool whole>
struct NormPoolBackInput {
  const T *dy, *x;  // [n, ho, wo, cols], [n, h, w, cols]
  const std::uint8_t* taken;
  unsigned h, w, ho, wo;

  struct Cell {
    i64 first;        // the row of its first pixel
    unsigned across;  // rows from a line to the next
    bool below, right;
    Waiting<T, whole> dy[4], x[4];
    std::uint64_t taps[4];  // byte j: of column j

    GOSSAMER_HD bool has(int k) const { return (k < 2 || below) && (k % 2 == 0 || right); }
    GOSSAMER_HD i64 row(int k) const { return first + (k < 2 ? 0 : across) + k % 2; }
    // g of pixel k
    GOSSAMER_HD Eight gradient(int k) const {
      Eight sum{};
      GOSSAMER_UNROLL
      for (int window = 0; window < 4; ++window) {
        const int r = k / 2 + 1 - 2 * (window / 2), s = k % 2 + 1 - 2 * (window % 2);
        if (r < 0 || s < 0) continue;
        const Eight up = dy[window].get();
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j)
          sum.v[j] += static_cast<int>(taps[window] >> (8 * j) & 255) == 3 * r + s ? up.v[j] : 0.0f;
      }
      return sum;
    }
  };

  GOSSAMER_HD Cell load(i64 window, const Tiles::Place& p, i64 cols) const {
    const unsigned index = static_cast<unsigned>(window), line = index / wo, q = index - line * wo,
                   n = line / ho, o = line - n * ho;
    Cell cell{};
    cell.first = (static_cast<i64>(n) * h + 2 * o) * w + 2 * q;
    cell.across = w;
    cell.below = 2 * o + 1 < h;
    cell.right = 2 * q + 1 < w;
    GOSSAMER_UNROLL
    for (int k = 0; k < 4; ++k) {
      cell.taps[k] = ~std::uint64_t{0};
      if ((k >= 2 && o + 1 == ho) || (k % 2 == 1 && q + 1 == wo)) continue;
      const i64 at = (window + (k < 2 ? 0 : wo) + k % 2) * cols + p.col;
      cell.dy[k].load(dy + at, p.count);
#ifdef __CUDA_ARCH__
      constexpr bool at_once = whole;
#else
      constexpr bool at_once = false;
#endif
      if constexpr (at_once) {
        cell.taps[k] = *reinterpret_cast<const std::uint64_t*>(taken + at);
      } else {
        GOSSAMER_ROLL
        for (int j = 0; j < p.count; ++j)
          cell.taps[k] ^= static_cast<std::uint64_t>(taken[at + j] ^ 255) << (8 * j);
      }
    }
    GOSSAMER_UNROLL
    for (int k = 0; k < 4; ++k)
      if (cell.has(k)) cell.x[k].load(x + cell.row(k) * cols + p.col, p.count);
    return cell;
  }
};

// Pass 1: sum g, sum g (x - mean).
template <class T, bool whole>
struct NormPoolBackSums {
  static constexpr int threads = Tiles::threads, phases = 2, sums = 2;
  // One wave where two fit on each of 132 multiprocessors; each thread has 160 bytes under way.
  static constexpr i64 blocks = 256;
  using Shared = SumShared<sums>;
  using State = SumState<sums>;
  using Input = NormPoolBackInput<T, whole>;
  Tiles tiles;  // of windows
  Input in;
  const float* mean;
  float* partial;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const Tiles::Place p = tiles.place(block, thread);
      const Eight m = load_eight<whole>(mean + p.col, p.count);
      tiles.for_rows<1>(
          p, [&](i64 window) { return in.load(window, p, tiles.cols); },
          [&](i64, const typename Input::Cell& cell) {
            GOSSAMER_UNROLL
            for (int k = 0; k < 4; ++k) {
              if (!cell.has(k)) continue;
              const Eight g = cell.gradient(k), v = cell.x[k].get();
              GOSSAMER_UNROLL
              for (int j = 0; j < 8; ++j) {
                state.total[0][j] += g.v[j];
                state.total[1][j] += g.v[j] * (v.v[j] - m.v[j]);
              }
            }
          });
      put_sums(thread, state, shared);
    } else {
      join_sums(tiles, block, thread, shared, partial);
    }
  }
};

// Pass 3: dx = gain g + slope x + constant. dx may be x's memory.
template <class T, bool whole>
struct NormPoolBackApply {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  using Input = NormPoolBackInput<T, whole>;
  Tiles tiles;
  Input in;
  const float *gain, *slope, *constant;
  T* dx;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    if (p.count == 0) return;
    const Eight gains = load_eight<whole>(gain + p.col, p.count),
                slopes = load_eight<whole>(slope + p.col, p.count),
                constants = load_eight<whole>(constant + p.col, p.count);
    tiles.for_rows<1>(
        p, [&](i64 window) { return in.load(window, p, tiles.cols); },
        [&](i64, const typename Input::Cell& cell) {
          GOSSAMER_UNROLL
          for (int k = 0; k < 4; ++k) {
            if (!cell.has(k)) continue;
            const Eight g = cell.gradient(k), v = cell.x[k].get();
            Eight out;
            GOSSAMER_UNROLL
            for (int j = 0; j < 8; ++j)
              out.v[j] = gains.v[j] * g.v[j] + (slopes.v[j] * v.v[j] + constants.v[j]);
            store_eight<whole>(dx + cell.row(k) * tiles.cols + p.col, p.count, out);
          }
        });
  }
};

}  // namespace gossamer::kernels
