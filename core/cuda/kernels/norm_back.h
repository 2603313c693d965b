// Batch norm for GPUs, backward: which part of the gradient the ReLU lets through, its sums, and
// what is passed on. Below pooling it is norm_pool_back.h.
#pragma once

#include "gossamer/core/cuda/kernels/norm.h"

namespace gossamer::kernels {

// Where the ReLU lets the gradient through.
enum class Mask {
  none,     // everywhere: there is no ReLU
  factors,  // where a x + b > 0, computed again
  bits      // where NormApply wrote ones
};

template <class T, Mask mask, bool whole, bool joint>
struct NormBackInput {
  const T *dy, *x, *x2;
  const std::uint8_t* bits;
  const float *a, *b;

  struct Loaded {
    Eight g, x, x2;
    unsigned bits;
  };
  GOSSAMER_HD Loaded load(i64 row, const Tiles::Place& p, i64 cols) const {
    Loaded l{};
    const i64 at = row * cols + p.col;
    l.g = load_eight<whole>(dy + at, p.count);
    l.x = load_eight<whole>(x + at, p.count);
    if constexpr (joint) l.x2 = load_eight<whole>(x2 + at, p.count);
    if constexpr (mask == Mask::bits) l.bits = bits[row * ((cols + 7) / 8) + p.col / 8];
    return l;
  }
  // Column j of g, masked. va, vb: a and b of the columns, read with Mask::factors only.
  GOSSAMER_HD static float masked(const Loaded& l, int j, const Eight& va, const Eight& vb) {
    bool open = true;
    if constexpr (mask == Mask::factors) open = l.x.v[j] * va.v[j] + vb.v[j] > 0;
    if constexpr (mask == Mask::bits) open = (l.bits >> j & 1u) != 0;
    return open ? l.g.v[j] : 0.0f;
  }
  GOSSAMER_HD Eight factor(const float* from, const Tiles::Place& p) const {
    return mask == Mask::factors ? load_eight<whole>(from + p.col, p.count) : Eight{};
  }
};

// Pass 1: sum g, sum g (x - mean), and with a second input sum g (x2 - mean2), which then costs no
// second reading of g.
template <class T, Mask mask, bool whole, bool joint>
struct NormBackSums {
  static constexpr int threads = Tiles::threads, phases = 2, sums = joint ? 3 : 2;
  // Without a limit the joint form takes 93 registers on sm_90, so that two blocks fit; 80 suffice
  // in bf16. In f32 the same limit would spill; and with bits and one input it spills without a
  // limit on sm_89, as if four blocks had to fit.
  static constexpr int resident =
      joint ? (whole && std::is_same_v<T, bf16> ? 3 : 0)
            : (kArchitecture == 89 && mask == Mask::bits && std::is_same_v<T, float> ? 2 : 0);
  using Shared = SumShared<sums>;
  using State = SumState<sums>;
  using Input = NormBackInput<T, mask, whole, joint>;
  Tiles tiles;
  Input in;
  const float *mean, *mean2;
  float* partial;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const Tiles::Place p = tiles.place(block, thread);
      const Eight m = load_eight<whole>(mean + p.col, p.count),
                  m2 = joint ? load_eight<whole>(mean2 + p.col, p.count) : Eight{};
      const Eight va = in.factor(in.a, p), vb = in.factor(in.b, p);
      tiles.for_rows<whole ? 2 : 1>(
          p, [&](i64 r) { return in.load(r, p, tiles.cols); },
          [&](i64, const typename Input::Loaded& l) {
            GOSSAMER_UNROLL
            for (int j = 0; j < 8; ++j) {
              const float g = Input::masked(l, j, va, vb);
              state.total[0][j] += g;
              state.total[1][j] += g * (l.x.v[j] - m.v[j]);
              if constexpr (joint) state.total[2][j] += g * (l.x2.v[j] - m2.v[j]);
            }
          });
      put_sums(thread, state, shared);
    } else {
      join_sums(tiles, block, thread, shared, partial);
    }
  }
};

// Pass 3: dx = gain g + slope x + constant, the same for a second input, and g itself for the
// shortcut. dx may be x's memory; dx or d_add (not both) may be dy's: each element is read before
// the same thread writes it.
template <class T, Mask mask, bool whole, bool joint>
struct NormBackApply {
  static constexpr int threads = Tiles::threads, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  using Input = NormBackInput<T, mask, whole, joint>;
  Tiles tiles;
  Input in;
  const float *gain, *slope, *constant, *gain2, *slope2, *constant2;
  T *dx, *dx2, *d_add;  // d_add may be null

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const {
    const Tiles::Place p = tiles.place(block, thread);
    if (p.count == 0) return;
    const Eight gains = load_eight<whole>(gain + p.col, p.count),
                slopes = load_eight<whole>(slope + p.col, p.count),
                constants = load_eight<whole>(constant + p.col, p.count);
    Eight up2{}, down2{}, rest2{};
    if constexpr (joint) {
      up2 = load_eight<whole>(gain2 + p.col, p.count);
      down2 = load_eight<whole>(slope2 + p.col, p.count);
      rest2 = load_eight<whole>(constant2 + p.col, p.count);
    }
    const Eight va = in.factor(in.a, p), vb = in.factor(in.b, p);
    tiles.for_rows<joint || !whole ? 1 : 2>(
        p, [&](i64 r) { return in.load(r, p, tiles.cols); },
        [&](i64 r, const typename Input::Loaded& l) {
          Eight out{}, out2{}, g{};
          GOSSAMER_UNROLL
          for (int j = 0; j < 8; ++j) {
            g.v[j] = Input::masked(l, j, va, vb);
            out.v[j] = gains.v[j] * g.v[j] + (slopes.v[j] * l.x.v[j] + constants.v[j]);
            if constexpr (joint)
              out2.v[j] = up2.v[j] * g.v[j] + (down2.v[j] * l.x2.v[j] + rest2.v[j]);
          }
          const i64 at = r * tiles.cols + p.col;
          store_eight<whole>(dx + at, p.count, out);
          if constexpr (joint) store_eight<whole>(dx2 + at, p.count, out2);
          if (d_add) store_eight<whole>(d_add + at, p.count, g);
        });
  }
};

}  // namespace gossamer::kernels
