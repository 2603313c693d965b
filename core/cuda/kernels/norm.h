// Batch norm for GPUs as three passes without atomics: partial sums, their sum and the factors that
// follow, the elementwise rest.
//   forward:   y = relu?(a x + b (+ add | + a2 x2 + b2)),  a = scale inv_std,  b = shift - mean a
//   backward:  dx = gain g + slope x + constant, where g = dy if y > 0 and else 0. That is
//              dx = scale inv_std (g - sum g/rows - xhat sum(g xhat)/rows)  with
//     gain = scale inv_std
//     slope = -gain inv_std sum(g xhat)/rows
//     constant = -gain sum g/rows - slope mean
#pragma once

#include <cmath>

#include "gossamer/core/cuda/kernels/launch.h"
#include "gossamer/core/ops/row_sums.h"

namespace gossamer::kernels {

// --- pass 1: partial sums (row_sums.h)
// Sums of x - k and of (x - k)^2 with k the channel's first value: near the mean as such things go,
// so that nothing cancels when the mean is far from zero, and the same for all blocks, so that
// their sums simply add.
template <class T, bool whole>
struct NormSums {
  static constexpr int threads = Tiles::threads, phases = 2, sums = 2;
  using Shared = SumShared<sums>;
  using State = SumState<sums>;
  Tiles tiles;
  const T* x;
  float* partial;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const Tiles::Place p = tiles.place(block, thread);
      const Eight shift = load_eight<whole>(x + p.col, p.count);
      tiles.for_rows<whole ? 4 : 1>(
          p, [&](i64 r) { return load_eight<whole>(x + r * tiles.cols + p.col, p.count); },
          [&](i64, const Eight& e) {
            GOSSAMER_UNROLL
            for (int j = 0; j < 8; ++j) {
              const float d = e.v[j] - shift.v[j];
              state.total[0][j] += d;
              state.total[1][j] += d * d;
            }
          });
      put_sums(thread, state, shared);
    } else {
      join_sums(tiles, block, thread, shared, partial);
    }
  }
};

// --- pass 2: JoinParts with one of these
template <class T>
struct FinishStatistics {
  const T* x;  // row 0: what was subtracted
  const float *scale, *shift;
  double rows;
  float eps, momentum;
  // the running ones may be null
  float *mean, *inv_std, *a, *b, *running_mean, *running_var;

  GOSSAMER_HD void operator()(i64 c, const double* total) const {
    using std::sqrt;
    const double offset = total[0] / rows, biased = total[1] / rows - offset * offset,
                 var = biased > 0 || biased != biased ? biased : 0;
    const double m = static_cast<double>(static_cast<float>(x[c])) + offset,
                 inv = 1 / sqrt(var + static_cast<double>(eps));
    const float gain = static_cast<float>(static_cast<double>(scale[c]) * inv);
    mean[c] = static_cast<float>(m);
    inv_std[c] = static_cast<float>(inv);
    a[c] = gain;
    b[c] = static_cast<float>(static_cast<double>(shift[c]) - m * static_cast<double>(gain));
    if (running_mean) running_mean[c] += momentum * (mean[c] - running_mean[c]);
    if (running_var)
      running_var[c] += momentum * (static_cast<float>(var * rows / (rows - 1)) - running_var[c]);
  }
};

// total: sum g, sum g (x - mean), and with a second input sum g (x2 - mean2).
struct NormBackFactors {
  const float *scale, *mean, *inv_std;
  bool given;  // statistics that are constants: dx = gain g
  float *gain, *slope, *constant, *d_scale, *d_shift;
  GOSSAMER_HD void set(i64 c, double rows, double sum_g, double sum_gx) const {
    const double inv = static_cast<double>(inv_std[c]),
                 gain_c = static_cast<double>(scale[c]) * inv, sum_gxhat = sum_gx * inv;
    const double slope_c = given ? 0 : -gain_c * inv * sum_gxhat / rows,
                 constant_c =
                     given ? 0 : -gain_c * sum_g / rows - slope_c * static_cast<double>(mean[c]);
    gain[c] = static_cast<float>(gain_c);
    slope[c] = static_cast<float>(slope_c);
    constant[c] = static_cast<float>(constant_c);
    d_scale[c] = static_cast<float>(sum_gxhat);
    d_shift[c] = static_cast<float>(sum_g);
  }
};
template <bool joint>
struct FinishBack {
  NormBackFactors first, second;
  double rows;
  GOSSAMER_HD void operator()(i64 c, const double* total) const {
    first.set(c, rows, total[0], total[1]);
    if constexpr (joint) second.set(c, rows, total[0], total[2]);
  }
};

// --- pass 3, forward
// what is added before the ReLU: nothing, a tensor, a second normalised tensor
enum class Join { none, add, norm };

template <class T, bool whole, Join join>
struct NormApply {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  Tiles tiles;
  const T *x, *other;
  const float *a, *b, *a2, *b2;
  T* y;
  // [rows, ceil(cols/8)], bit j of a byte: y > 0 in its column j; may be null
  std::uint8_t* mask;
  bool relu;

  struct Loaded {
    Eight x, other;
  };
  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    if (p.count == 0) return;
    const Eight va = load_eight<whole>(a + p.col, p.count),
                vb = load_eight<whole>(b + p.col, p.count);
    Eight va2{}, vb2{};
    if constexpr (join == Join::norm) {
      va2 = load_eight<whole>(a2 + p.col, p.count);
      vb2 = load_eight<whole>(b2 + p.col, p.count);
    }
    const i64 groups = (tiles.cols + 7) / 8;
    tiles.for_rows<!whole               ? 1
                   : join == Join::none ? 4
                                        : 2>(
        p,
        [&](i64 r) {
          Loaded l{};
          l.x = load_eight<whole>(x + r * tiles.cols + p.col, p.count);
          if constexpr (join != Join::none)
            l.other = load_eight<whole, Reuse::never>(other + r * tiles.cols + p.col, p.count);
          return l;
        },
        [&](i64 r, const Loaded& l) {
          Eight z{};
          unsigned bits = 0;
          GOSSAMER_UNROLL
          for (int j = 0; j < 8; ++j) {
            float v = l.x.v[j] * va.v[j] + vb.v[j];
            if constexpr (join == Join::add) v += l.other.v[j];
            if constexpr (join == Join::norm) v += l.other.v[j] * va2.v[j] + vb2.v[j];
            if (v > 0) bits |= 1u << j;
            z.v[j] = relu && v <= 0 ? 0.0f : v;  // in this form a NaN stays NaN
          }
          store_eight<whole>(y + r * tiles.cols + p.col, p.count, z);
          if (mask) mask[r * groups + p.col / 8] = static_cast<std::uint8_t>(bits);
        });
  }
};

// max over 3 x 3 windows (stride 2, padding 1) of relu(a x + b); taken: which tap it was, kNoTap if
// the ReLU made it zero.
template <class T, bool whole>
struct NormPool {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  Tiles tiles;  // rows: output pixels
  const T* x;
  const float *a, *b;
  T* y;
  std::uint8_t* taken;
  unsigned h, w, ho, wo;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    if (p.count == 0) return;
    const Eight va = load_eight<whole>(a + p.col, p.count),
                vb = load_eight<whole>(b + p.col, p.count);
    tiles.for_rows<1>(
        p, [](i64 r) { return r; }, [&](i64 r, i64) { one_pixel(r, p, va, vb); });
  }

  GOSSAMER_HD void one_pixel(i64 row, const Tiles::Place& p, const Eight& va,
                             const Eight& vb) const {
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
    for (unsigned r = 0; r < 3; ++r) {
      GOSSAMER_UNROLL
      for (unsigned t = 0; t < 3; ++t) {
        // beyond the edge wraps around to a large number
        const unsigned u = 2 * o + r - 1, v = 2 * q + t - 1;
        if (u >= h || v >= w) continue;
        const Eight e = load_eight<whole>(
            x + ((static_cast<i64>(n) * h + u) * w + v) * tiles.cols + p.col, p.count);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          const float value = e.v[j] * va.v[j] + vb.v[j];
          if (value > best.v[j] || value != value) {  // a NaN wins and stays
            best.v[j] = value;
            tap[j] = static_cast<std::uint8_t>(3 * r + t);
          }
        }
      }
    }
    const i64 at = row * tiles.cols + p.col;
    store_eight<whole>(y + at, p.count, best);
    store_bytes<whole>(taken + at, p.count, tap);
  }
};

}  // namespace gossamer::kernels
