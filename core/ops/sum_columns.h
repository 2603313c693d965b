// sum_columns: out[c] = the sum of a formula f over the rows of a matrix, with the same bits for
// any number of threads. A formula says
//   GOSSAMER_HD float operator()(i64 r, i64 c) const;
//   template <bool whole> GOSSAMER_HD Eight eight(i64 r, i64 c, int count) const;
//       columns c … c + 7 of row r, of which `count` exist; whole: all do, and lie on 16 bytes
//   bool in_eights() const;   whether every group of eight is whole
#pragma once

#include <memory>

#include "gossamer/core/ops/row_sums.h"

namespace gossamer {

namespace detail {
// The way of a CPU. Adds rows of one piece in f32.
template <class F>
struct ColumnPiece {
  F f;
  i64 rows, cols, length;
  float* out;
  GOSSAMER_HD void operator()(i64 p, i64 begin, i64 end) const {
    float* acc = out + p * cols;
    for (i64 c = begin; c < end; ++c) acc[c] = 0;
    const i64 last = (p + 1) * length < rows ? (p + 1) * length : rows;
    for (i64 r = p * length; r < last; ++r) {
      GOSSAMER_IVDEP
      for (i64 c = begin; c < end; ++c) acc[c] += f(r, c);
    }
  }
};
struct JoinColumns {
  const float* pieces;
  i64 n, cols;
  float* out;
  GOSSAMER_HD void operator()(i64 c) const {
    double sum = 0;
    for (i64 p = 0; p < n; ++p) sum += static_cast<double>(pieces[p * cols + c]);
    out[c] = static_cast<float>(sum);
  }
};

// The way of a GPU: threads of a block take eight columns each.
template <class F, bool whole>
struct ColumnSums {
  static constexpr int threads = Tiles::threads, phases = 2;
  using Shared = kernels::SumShared<1>;
  using State = kernels::SumState<1>;
  Tiles tiles;
  F f;
  float* partial;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const Tiles::Place p = tiles.place(block, thread);
      tiles.for_rows<whole ? 4 : 1>(
          p, [&](i64 r) { return f.template eight<whole>(r, p.col, p.count); },
          [&](i64, const Eight& e) {
            GOSSAMER_UNROLL
            for (int j = 0; j < 8; ++j) state.total[0][j] += e.v[j];
          });
      kernels::put_sums(thread, state, shared);
    } else {
      kernels::join_sums(tiles, block, thread, shared, partial);
    }
  }
};
struct FinishColumn {
  float* out;
  GOSSAMER_HD void operator()(i64 c, const double* total) const {
    out[c] = static_cast<float>(total[0]);
  }
};

template <class F>
void sum_columns_in_blocks(Device device, i64 rows, i64 cols, F f, float* out) {
  // one wave where three blocks fit on each of 132 multiprocessors (H100, H200)
  const Tiles tiles = Tiles::over(rows, cols, 384, false);
  const std::shared_ptr<Block> block =
      allocate(sizeof(float) * static_cast<std::size_t>(tiles.parts * cols), device);
  float* const partial = static_cast<float*>(block->data);
  if (f.in_eights())
    for_each_block(device, tiles.blocks(), ColumnSums<F, true>{tiles, f, partial});
  else
    for_each_block(device, tiles.blocks(), ColumnSums<F, false>{tiles, f, partial});
  const kernels::JoinParts<1, FinishColumn> join{partial, tiles.parts, cols, {out}};
  for_each_block(device, join.blocks(), join);
}
}  // namespace detail

template <class F>
void sum_columns(Device device, i64 rows, i64 cols, F f, float* out) {
  if (cols <= 0) return;
  if (!device.is_cpu()) return detail::sum_columns_in_blocks(device, rows, cols, f, out);
  i64 length = detail::kPiece / cols + 1;
  if (length < 64) length = 64;
  if (rows / length > 1024) length = (rows + 1023) / 1024;
  const i64 pieces = rows <= 0 ? 0 : (rows + length - 1) / length;
  const std::shared_ptr<Block> block =
      allocate(sizeof(float) * static_cast<std::size_t>(pieces * cols), device);
  float* partial = static_cast<float*>(block->data);
  for_each_row(device, pieces, cols, detail::ColumnPiece<F>{f, rows, cols, length, partial},
               (1 << 15) / length + 1);
  for_each(device, cols, detail::JoinColumns{partial, pieces, cols, out});
}

}  // namespace gossamer
