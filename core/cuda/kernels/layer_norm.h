// Layer norm for GPUs, and RMS norm, whose means are null. A row of up to 4,096 numbers that can be
// read in groups of eight stays in the registers of its threads; several short rows share a block.
// Other rows take a block each and are read again from the first-level cache. In backward each
// block takes every parts-th group of rows, so that it leaves two partial sums for each column.
#pragma once

#include <cmath>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda/kernels/launch.h"

namespace gossamer::kernels {

// How `lanes` threads read a row, 256/lanes rows a block: a lane holds two groups of eight columns.
// Loads come before all that uses them, and behind no branch, so that they are under way together:
// what does not exist is read from the start of the tensor.
template <int lanes>
struct RowLanes {
  static constexpr int threads = 256, down = threads / lanes, groups = 2,
                       most_cols = lanes * groups * 8;
  GOSSAMER_HD static int line(int t) { return t / lanes; }
  GOSSAMER_HD static i64 col(int t, int group) {
    return (static_cast<i64>(group) * lanes + t % lanes) * 8;
  }
};

// `sums` sums over the lanes of each row: in one phase each thread sets its parts, in the next the
// first `few` lanes add theirs up, from the one after on every thread may ask for the totals.
template <int lanes, int sums>
struct LaneSums {
  static constexpr int threads = 256, few = 8;
  float part[sums][threads], joined[sums][threads / lanes][few];
  GOSSAMER_HD void join(int t) {
    const int line = t / lanes, lane = t % lanes;
    if (lane >= few) return;
    for (int s = 0; s < sums; ++s) {
      float sum = 0;
      for (int k = lane; k < lanes; k += few) sum += part[s][line * lanes + k];
      joined[s][line][lane] = sum;
    }
  }
  GOSSAMER_HD float total(int s, int t) const {
    float sum = 0;
    for (int k = 0; k < few; ++k) sum += joined[s][t / lanes][k];
    return sum;
  }
};

// The rows of a whole matrix, as RowsOfEach (backend.h) says some of them, without its divisions.
struct EveryRow {
  GOSSAMER_HD static i64 at(i64 row) { return row; }
};

template <class T, int lanes, class Rows>
struct LayerNormForward {
  using Lanes = RowLanes<lanes>;
  static constexpr int threads = Lanes::threads, phases = 5;
  struct Shared {
    LaneSums<lanes, 1> sums;
  };
  struct State {
    Eight x[Lanes::groups];
  };
  const T *x, *add;            // add: null for none
  const float *scale, *shift;  // shift: null for none
  i64 rows, cols;
  float eps;
  T *sum, *y;
  float *means, *inverses;  // means: null: nothing is subtracted
  Rows which;

  i64 blocks() const { return (rows + Lanes::down - 1) / Lanes::down; }
  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const i64 row = block * Lanes::down + Lanes::line(t), base = which.at(row) * cols;
    const float n = static_cast<float>(cols);
    const bool here = row < rows;
    if constexpr (phase == 0) {
      Eight more[Lanes::groups];
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k), at = here && c < cols ? base + c : 0;
        state.x[k] = load_eight<true>(x + at, 8);
        if (add) more[k] = load_eight<true>(add + at, 8);
      }
      float total = 0;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k);
        if (!here || c >= cols) continue;
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          float& v = state.x[k].v[j];
          if (add) v = static_cast<float>(T(v + more[k].v[j]));
          total += v;
        }
        if (add) store_eight<true>(sum + base + c, 8, state.x[k]);
      }
      shared.sums.part[0][t] = total;
    } else if constexpr (phase == 1 || phase == 3) {
      shared.sums.join(t);
    } else if constexpr (phase == 2) {
      const float mean = means ? shared.sums.total(0, t) / n : 0.0f;
      if (means && here && t % lanes == 0) means[row] = mean;
      float squares = 0;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        if (Lanes::col(t, k) >= cols) continue;
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          state.x[k].v[j] -= mean;
          squares += state.x[k].v[j] * state.x[k].v[j];
        }
      }
      shared.sums.part[0][t] = squares;
    } else {
      if (!here) return;
      const float inv = 1 / sqrtf(shared.sums.total(0, t) / n + eps);
      if (t % lanes == 0) inverses[row] = inv;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k);
        if (c >= cols) continue;
        const Eight times = load_eight<true>(scale + c, 8);
        Eight out{};
        if (shift) out = load_eight<true>(shift + c, 8);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) out.v[j] += state.x[k].v[j] * inv * times.v[j];
        store_eight<true>(y + base + c, 8, out);
      }
    }
  }
};

// Each of `parts` blocks takes every parts-th group of rows. partial [parts][2][cols]: sums of dy
// xhat and of dy.
template <class T, int lanes, class Rows>
struct LayerNormBackward {
  using Lanes = RowLanes<lanes>;
  static constexpr int threads = Lanes::threads, phases = 4, resident = 2,
                       numbers = Lanes::groups * 8;
  struct Shared {
    LaneSums<lanes, 2> sums;
    float of[2 * numbers][threads];  // thread last: neighbours write neighbouring words
  };
  struct State {
    Eight x[Lanes::groups], g[Lanes::groups];  // xhat, dy
    Eight scales[Lanes::groups], shifts[Lanes::groups];
    i64 iteration;
  };
  const T *x, *dy;
  const float *scale, *means, *inverses;
  i64 rows, cols, parts;
  bool accumulate;
  T* dx;
  float* partial;
  Rows which;

  static i64 groups_of(i64 rows) { return (rows + Lanes::down - 1) / Lanes::down; }
  GOSSAMER_HD bool more(i64 block, i64 iteration) const {
    return (block + iteration * parts) * Lanes::down < rows;
  }
  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const i64 row = (block + state.iteration * parts) * Lanes::down + Lanes::line(t),
              base = which.at(row) * cols;
    const bool here = row < rows;
    if constexpr (phase == 0) {
      const float mean = here && means ? means[row] : 0.0f, inv = here ? inverses[row] : 0.0f;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k), at = here && c < cols ? base + c : 0;
        state.x[k] = load_eight<true>(x + at, 8);
        state.g[k] = load_eight<true>(dy + at, 8);
      }
      float sum = 0, along = 0;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k);
        if (!here || c >= cols) continue;
        const Eight times = load_eight<true>(scale + c, 8);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          const float xhat = (state.x[k].v[j] - mean) * inv, g = state.g[k].v[j];
          state.x[k].v[j] = xhat;
          state.scales[k].v[j] += g * xhat;
          state.shifts[k].v[j] += g;
          sum += g * times.v[j];
          along += g * times.v[j] * xhat;
        }
      }
      shared.sums.part[0][t] = sum;
      shared.sums.part[1][t] = along;
    } else if constexpr (phase == 1) {
      shared.sums.join(t);
    } else if constexpr (phase == 2) {
      const float n = static_cast<float>(cols), inv = here ? inverses[row] : 0.0f,
                  offset = means ? shared.sums.total(0, t) / n : 0.0f,
                  slope = shared.sums.total(1, t) / n;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        const i64 c = Lanes::col(t, k);
        if (!here || c >= cols) continue;
        const Eight times = load_eight<true>(scale + c, 8);
        Eight out{};
        if (accumulate) out = load_eight<true>(dx + base + c, 8);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j)
          out.v[j] += inv * (state.g[k].v[j] * times.v[j] - offset - state.x[k].v[j] * slope);
        store_eight<true>(dx + base + c, 8, out);
      }
      if (more(block, state.iteration + 1)) return;
      GOSSAMER_UNROLL
      for (int k = 0; k < Lanes::groups; ++k) {
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) {
          shared.of[k * 8 + j][t] = state.scales[k].v[j];
          shared.of[numbers + k * 8 + j][t] = state.shifts[k].v[j];
        }
      }
    } else {
      ++state.iteration;
      if (more(block, state.iteration)) return;
      // Number i of a lane, of which lines lie below each other.
      for (int e = t; e < 2 * numbers * lanes; e += threads) {
        const int i = e / lanes, lane = e % lanes, kj = i % numbers;
        const i64 c = Lanes::col(lane, kj / 8) + kj % 8;
        if (c >= cols) continue;
        float total = 0;
        for (int l = 0; l < Lanes::down; ++l) total += shared.of[i][l * lanes + lane];
        partial[(block * 2 + i / numbers) * cols + c] = total;
      }
    }
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return more(block, state.iteration);
  }
};

// --- any row

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

template <class T, class Rows>
struct AnyNormForward {
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
  Rows which;

  GOSSAMER_HD float at(i64 i) const { return load(add ? sum : x, i); }
  template <int phase>
  GOSSAMER_HD void run(i64 row, int t, Shared& shared, State&) const {
    const i64 base = which.at(row) * cols;
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
      const float mean = means ? shared.first.total(0) / n : 0.0f;
      float squares = 0;
      for (i64 c = t; c < cols; c += threads) {
        const float away = at(base + c) - mean;
        squares += away * away;
      }
      shared.second.set(t, squares, 0);
    } else if constexpr (phase == 3) {
      shared.second.join(t);
    } else {
      const float mean = means ? shared.first.total(0) / n : 0.0f,
                  inv = 1 / sqrtf(shared.second.total(0) / n + eps);
      for (i64 c = t; c < cols; c += threads)
        store(y, base + c, (at(base + c) - mean) * inv * scale[c] + (shift ? shift[c] : 0.0f));
      if (t == 0) {
        if (means) means[row] = mean;
        inverses[row] = inv;
      }
    }
  }
};

// Each of `parts` blocks takes every parts-th row. partial [parts][2][cols]: sums of dy xhat and of
// dy.
template <class T, class Rows>
struct AnyNormBackward {
  static constexpr int threads = PairSums::threads, phases = 3;
  struct Shared {
    PairSums sums;
  };
  struct State {
    i64 iteration = 0;
  };
  const T *x, *dy;
  const float *scale, *means, *inverses;
  i64 rows, cols, parts;
  bool accumulate;
  T* dx;
  float* partial;
  Rows which;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const i64 row = block + state.iteration * parts, base = which.at(row) * cols;
    const float mean = means ? means[row] : 0.0f, inv = inverses[row], n = static_cast<float>(cols);
    if constexpr (phase == 0) {
      float *d_scale = partial + block * 2 * cols, *d_shift = d_scale + cols, sum = 0, along = 0;
      for (i64 c = t; c < cols; c += threads) {
        const float g = load(dy, base + c), xhat = (load(x, base + c) - mean) * inv;
        d_scale[c] = (state.iteration > 0 ? d_scale[c] : 0.0f) + g * xhat;
        d_shift[c] = (state.iteration > 0 ? d_shift[c] : 0.0f) + g;
        sum += g * scale[c];
        along += g * scale[c] * xhat;
      }
      shared.sums.set(t, sum, along);
    } else if constexpr (phase == 1) {
      shared.sums.join(t);
    } else {
      const float offset = means ? shared.sums.total(0) / n : 0.0f,
                  slope = shared.sums.total(1) / n;
      for (i64 c = t; c < cols; c += threads) {
        const float g = load(dy, base + c) * scale[c], xhat = (load(x, base + c) - mean) * inv,
                    v = inv * (g - offset - xhat * slope);
        store(dx, base + c, accumulate ? load(dx, base + c) + v : v);
      }
      ++state.iteration;
    }
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return block + state.iteration * parts < rows;
  }
};

// Column c of d_scale and d_shift, each null if not wanted.
struct FinishRowNorms {
  float *d_scale, *d_shift;
  GOSSAMER_HD void operator()(i64 c, const double* total) const {
    if (d_scale) d_scale[c] = static_cast<float>(total[0]);
    if (d_shift) d_shift[c] = static_cast<float>(total[1]);
  }
};

}  // namespace gossamer::kernels
