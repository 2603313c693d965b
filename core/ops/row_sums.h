// Sums over the rows of a matrix without atomics, for blocks of threads: a first pass leaves, for
// each part of the rows, `sums` partial sums of each column; a second one joins them. Sum k of
// column c over the rows of a part lies in partial[(part sums + k) cols + c].
#pragma once

#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/grid.h"

namespace gossamer::kernels {

// --- the first pass: what a thread adds up, and how its block leaves it
template <int sums>
struct SumState {
  float total[sums][8];
};
template <int sums>
struct SumShared {
  float of[sums * 8][Tiles::threads];  // thread last: neighbours write neighbouring words
};

template <int sums>
GOSSAMER_HD inline void put_sums(int thread, const SumState<sums>& state, SumShared<sums>& shared) {
  GOSSAMER_UNROLL
  for (int k = 0; k < sums; ++k)
    for (int j = 0; j < 8; ++j) shared.of[k * 8 + j][thread] = state.total[k][j];
}
template <int sums>
GOSSAMER_HD inline void join_sums(const Tiles& tiles, i64 block, int thread,
                                  const SumShared<sums>& shared, float* partial) {
  const i64 part = block / tiles.strips;
  const int strip = static_cast<int>(block - part * tiles.strips);
  for (int i = thread; i < sums * 8 * tiles.across; i += Tiles::threads) {
    const int kj = i / tiles.across, x = i - kj * tiles.across;
    const i64 c = (static_cast<i64>(strip) * tiles.across + x) * 8 + kj % 8;
    if (c >= tiles.cols) continue;
    float total = 0;
    for (int y = 0; y < tiles.down; ++y) total += shared.of[kj][y * tiles.across + x];
    partial[(part * sums + kj / 8) * tiles.cols + c] = total;
  }
}

// --- the second pass: each thread adds some partial sums of a column in f32, then one adds these
// in double; the totals go to finish(column, totals)
template <int sums, class Finish>
struct JoinParts {
  static constexpr int threads = 256, phases = 2, columns = 8, rows = threads / columns;
  struct Shared {
    float of[sums][rows][columns];
  };
  using State = Nothing;
  const float* partial;
  i64 parts, cols;
  Finish finish;

  i64 blocks() const { return (cols + columns - 1) / columns; }
  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State&) const {
    const int row = thread / columns, column = thread - row * columns;
    const i64 c = block * columns + column;
    if constexpr (phase == 0) {
      float total[sums] = {};
      if (c < cols)
        for (i64 p = row; p < parts; p += rows)
          for (int k = 0; k < sums; ++k) total[k] += partial[(p * sums + k) * cols + c];
      for (int k = 0; k < sums; ++k) shared.of[k][row][column] = total[k];
    } else if (row == 0 && c < cols) {
      double total[sums] = {};
      for (int k = 0; k < sums; ++k)
        for (int l = 0; l < rows; ++l) total[k] += static_cast<double>(shared.of[k][l][column]);
      finish(c, total);
    }
  }
};

}  // namespace gossamer::kernels
