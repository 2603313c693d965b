// Layer norm for GPUs: a block a row, numbers are read again from the first-level cache; backward
// takes rows in turns, so that each block leaves one partial sum for each column.
#pragma once

#include <cmath>

#include "gossamer/core/cuda/kernels/launch.h"

namespace gossamer::kernels {

// Two sums over the threads of a block: in one phase each thread sets its part, in the next the
// first `few` add theirs up, from the one after on every thread may ask for the total.
struct PairSums {
  static constexpr int threads = 256, few = 16;
  float part[2][threads], joined[2][few];
  GOSSAMER_HD void set(int t, float a, float b) {
    part[0][t] = a;
    part[1][t] = b;
  }
  GOSSAMER_HD void join(int t) {
    if (t >= few) return;
    for (int s = 0; s < 2; ++s) {
      float sum = 0;
      for (int k = t; k < threads; k += few) sum += part[s][k];
      joined[s][t] = sum;
    }
  }
  GOSSAMER_HD float total(int s) const {
    float sum = 0;
    for (int k = 0; k < few; ++k) sum += joined[s][k];
    return sum;
  }
};

template <class T>
struct LayerNormForward {
  static constexpr int threads = PairSums::threads, phases = 5;
  struct Shared {
    PairSums first, second;
  };
  using State = Nothing;
  const T *x, *add;            // add: null for none
  const float *scale, *shift;  // shift: null for none
  i64 cols;
  float eps;
  T *sum, *y;
  float *means, *inverses;

  GOSSAMER_HD float at(i64 i) const { return load(add ? sum : x, i); }
  template <int phase>
  GOSSAMER_HD void run(i64 row, int t, Shared& shared, State&) const {
    const i64 base = row * cols;
    const float n = static_cast<float>(cols);
    if constexpr (phase == 0) {
      float total = 0;
      for (i64 c = t; c < cols; c += threads) {
        if (add) store(sum, base + c, load(x, base + c) + load(add, base + c));
        total += at(base + c);
      }
      shared.first.set(t, total, 0);
    } else if constexpr (phase == 1) {
      shared.first.join(t);
    } else if constexpr (phase == 2) {
      const float mean = shared.first.total(0) / n;
      float squares = 0;
      for (i64 c = t; c < cols; c += threads) {
        const float away = at(base + c) - mean;
        squares += away * away;
      }
      shared.second.set(t, squares, 0);
    } else if constexpr (phase == 3) {
      shared.second.join(t);
    } else {
      const float mean = shared.first.total(0) / n,
                  inv = 1 / sqrtf(shared.second.total(0) / n + eps);
      for (i64 c = t; c < cols; c += threads)
        store(y, base + c, (at(base + c) - mean) * inv * scale[c] + (shift ? shift[c] : 0.0f));
      if (t == 0) {
        means[row] = mean;
        inverses[row] = inv;
      }
    }
  }
};

// parts blocks take the rows in turns. partial [parts][2][cols]: sums of dy xhat and of dy.
template <class T>
struct LayerNormBackward {
  static constexpr int threads = PairSums::threads, phases = 3;
  struct Shared {
    PairSums sums;
  };
  struct State {
    i64 turn = 0;
  };
  const T *x, *dy;
  const float *scale, *means, *inverses;
  i64 rows, cols, parts;
  bool accumulate;
  T* dx;
  float* partial;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const i64 row = block + state.turn * parts, base = row * cols;
    const float mean = means[row], inv = inverses[row], n = static_cast<float>(cols);
    if constexpr (phase == 0) {
      float *d_scale = partial + block * 2 * cols, *d_shift = d_scale + cols, sum = 0, along = 0;
      for (i64 c = t; c < cols; c += threads) {
        const float g = load(dy, base + c), xhat = (load(x, base + c) - mean) * inv;
        d_scale[c] = (state.turn > 0 ? d_scale[c] : 0.0f) + g * xhat;
        d_shift[c] = (state.turn > 0 ? d_shift[c] : 0.0f) + g;
        sum += g * scale[c];
        along += g * scale[c] * xhat;
      }
      shared.sums.set(t, sum, along);
    } else if constexpr (phase == 1) {
      shared.sums.join(t);
    } else {
      const float offset = shared.sums.total(0) / n, slope = shared.sums.total(1) / n;
      for (i64 c = t; c < cols; c += threads) {
        const float g = load(dy, base + c) * scale[c], xhat = (load(x, base + c) - mean) * inv,
                    v = inv * (g - offset - xhat * slope);
        store(dx, base + c, accumulate ? load(dx, base + c) + v : v);
      }
      ++state.turn;
    }
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return block + state.turn * parts < rows;
  }
};

struct JoinRowNorms {  // column c of d_scale and d_shift, each null if not wanted
  const float* partial;
  i64 parts, cols;
  float *d_scale, *d_shift;
  GOSSAMER_HD void operator()(i64 c) const {
    double scale = 0, shift = 0;
    for (i64 p = 0; p < parts; ++p) {
      scale += static_cast<double>(partial[p * 2 * cols + c]);
      shift += static_cast<double>(partial[p * 2 * cols + cols + c]);
    }
    if (d_scale) d_scale[c] = static_cast<float>(scale);
    if (d_shift) d_shift[c] = static_cast<float>(shift);
  }
};

}  // namespace gossamer::kernels
