// sum_columns: out[c] = the sum of a formula f over the rows of a matrix, with the same bits for
// any number of threads. A formula says
//   GOSSAMER_HD float operator()(i64 r, i64 c) const;
//   bool in_eights() const;   whether every group of eight columns exists and lies on 16 bytes
//   struct Eights;            what it reads for one; and the terms that follow:
//   GOSSAMER_HD Eights read(i64 r, i64 c) const;
//   GOSSAMER_HD Eight terms(i64 r, i64 c, const Eights&) const;
#pragma once

#include <memory>

#include "gossamer/core/ops/row_sums.h"

namespace gossamer {

namespace detail {
// On a CPU: adds the rows of one piece in f32.
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

// On a GPU: each thread of a block takes eight columns and has four loads of eight in flight.
template <class F, bool whole>
struct ColumnSums {
  static constexpr int threads = Tiles::threads, phases = 2;
  using Shared = kernels::SumShared<1>;
  using State = kernels::SumState<1>;
  Tiles tiles;
  F f;
  float* partial;

  GOSSAMER_HD static void add(State& state, const Eight& e) {
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) state.total[0][j] += e.v[j];
  }
  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      const Tiles::Place p = tiles.place(block, thread);
      if constexpr (whole)
        tiles.for_rows<static_cast<int>(4 * sizeof(Eight) / sizeof(typename F::Eights))>(
            p, [&](i64 r) { return f.read(r, p.col); },
            [&](i64 r, const typename F::Eights& e) { add(state, f.terms(r, p.col, e)); });
      else
        tiles.for_rows<1>(
            p, [](i64 r) { return r; },
            [&](i64 r, i64) {
              GOSSAMER_UNROLL
              for (int j = 0; j < 8; ++j)
                if (j < p.count) state.total[0][j] += f(r, p.col + j);
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
  const bool alone = tiles.parts == 1;  // then its sums are the totals
  const std::shared_ptr<Block> block =
      alone ? nullptr
            : allocate(sizeof(float) * static_cast<std::size_t>(tiles.parts * cols), device);
  float* const partial = alone ? out : static_cast<float*>(block->data);
  if (f.in_eights())
    for_each_block(device, tiles.blocks(), ColumnSums<F, true>{tiles, f, partial});
  else
    for_each_block(device, tiles.blocks(), ColumnSums<F, false>{tiles, f, partial});
  if (alone) return;
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
