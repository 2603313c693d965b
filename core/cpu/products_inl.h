// Matrix products whose left rows lie anywhere: c = a b (+ c), then a tail (bias, addition, ReLU).
// A convolution is such a product: a row of `a` is the pixels under the window, one run of channels
// for each tap. Included once for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_PRODUCTS_INL_H
#undef GOSSAMER_CORE_CPU_PRODUCTS_INL_H
#else
#define GOSSAMER_CORE_CPU_PRODUCTS_INL_H
#endif

#include <algorithm>
#include <vector>

#include "gossamer/core/cpu/microkernel_inl.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

// Depth of a k-block: that part of a panel of `b` stays in the first-level cache.
constexpr i64 kDepth = kLanes == 16 ? 192 : 256;
// Rows of `a` that a thread takes at a time: a multiple of kBlockRows.
constexpr i64 kChunk = 96;

// A right matrix [taps depth, columns], stored as contiguous panels of kPanel columns; the last
// panel is filled up with zeros, to kLanes columns if those suffice.
class Panels {
 public:
  // block: of such a matrix that was packed before; null: allocated here
  Panels(i64 taps, i64 depth, i64 columns, std::shared_ptr<Block> block = nullptr)
      : taps_(taps),
        depth_(depth),
        columns_(columns),
        rounded_((columns + kLanes - 1) / kLanes * kLanes),
        block_(block
                   ? std::move(block)
                   : allocate(static_cast<std::size_t>(taps * depth * rounded_) * sizeof(float))) {}
  i64 taps() const { return taps_; }
  i64 depth() const { return depth_; }
  i64 columns() const { return columns_; }
  i64 width(i64 column) const { return std::min(kPanel, rounded_ - column); }  // of its panel
  // the panel that begins at `column`, from row `row` of tap `tap` on
  float* at(i64 column, i64 tap, i64 row) const {
    return static_cast<float*>(block_->data) + column * taps_ * depth_ +
           (tap * depth_ + row) * width(column);
  }
  const std::shared_ptr<Block>& block() const { return block_; }

 private:
  i64 taps_, depth_, columns_, rounded_;
  std::shared_ptr<Block> block_;
};

// b[j][column] = from[column * taps depth + j]: the transpose of `from`.
inline void pack_transposed(const Panels& b, const float* from) {
  const i64 rows = b.taps() * b.depth(), panels = (b.columns() + kPanel - 1) / kPanel;
  parallel_for(panels, 1, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 p = begin; p < end; ++p) {
      const i64 column = p * kPanel, width = b.width(column),
                real = std::min(width, b.columns() - column);
      float* to = b.at(column, 0, 0);
      // a few rows at a time, so that what is read of each line is used at once
      constexpr i64 kStrip = 16;
      for (i64 j0 = 0; j0 < rows; j0 += kStrip) {
        const i64 stop = std::min(j0 + kStrip, rows);
        for (i64 c = 0; c < width; ++c) {
          const float* source = from + (column + c) * rows;
          for (i64 j = j0; j < stop; ++j) to[j * width + c] = c < real ? source[j] : 0.0f;
        }
      }
    }
  });
}

// b[tap][row][column] = from[row * row_step + tap * tap_step + column]
inline void pack_rows(const Panels& b, const float* from, i64 tap_step, i64 row_step) {
  const i64 panels = (b.columns() + kPanel - 1) / kPanel;
  parallel_for(panels, 1, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 p = begin; p < end; ++p) {
      const i64 column = p * kPanel, width = b.width(column),
                real = std::min(width, b.columns() - column);
      for (i64 tap = 0; tap < b.taps(); ++tap) {
        float* to = b.at(column, tap, 0);
        for (i64 row = 0; row < b.depth(); ++row, to += width) {
          const float* source = from + row * row_step + tap * tap_step + column;
          for (i64 c = 0; c < real; ++c) to[c] = source[c];
          std::fill(to + real, to + width, 0.0f);
        }
      }
    }
  });
}

// A part of a sum: sum_l a[rows[i] + l] b[l], l < depth.
struct Term {
  const float* const* rows;
  const float* b;
  i64 from, depth;  // it begins at rows[i] + from
};

// What is done to the sums of a row.
struct Tail {
  bool add = false;             // to what c holds
  const float* bias = nullptr;  // [columns]
  bool relu = false;
};

template <int Vectors>
HWY_NOINLINE void multiply_terms(const Term* terms, i64 count, i64 row, float* const* c, i64 column,
                                 bool accumulate, const Tail* tail) {
  constexpr int Rows = kBlockRows;
  const Floats d;
  Vector sum[Rows][Vectors];
  if (accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[i][v] = hn::LoadU(d, c[i] + column + kLanes * v);
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[i][v] = hn::Zero(d);
    }
  }
  for (const Term* t = terms; t < terms + count; ++t) {
    const float* a[Rows];
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) a[i] = t->rows[row + i] + t->from;
    const float* HWY_RESTRICT b = t->b;
    const i64 depth = t->depth;
    i64 l = 0;
#if HWY_ARCH_ARM_A64
    for (; l + 4 <= depth; l += 4, b += 4 * kLanes * Vectors) {
      Vector left[Rows];
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) left[i] = hn::LoadU(d, a[i] + l);
      add_four_steps(left, b, kLanes * Vectors, sum);
    }
#endif
    for (; l < depth; ++l, b += kLanes * Vectors) {
      Vector right[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) right[v] = hn::LoadU(d, b + kLanes * v);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
        const Vector left = hn::Set(d, a[i][l]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[i][v] = hn::MulAdd(left, right[v], sum[i][v]);
      }
    }
  }
  if (tail) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const i64 at = column + kLanes * v;
      if (tail->bias) {
        const Vector bias = hn::LoadU(d, tail->bias + at);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) sum[i][v] = hn::Add(sum[i][v], bias);
      }
      if (tail->relu) {
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) sum[i][v] = relu(d, sum[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sum[i][v], d, c[i] + column + kLanes * v);
  }
}

// The same for a panel of which c has only `real` columns.
inline void multiply_edge(const Term* terms, i64 count, i64 row, float* const* c, i64 column,
                          i64 real, i64 width, bool accumulate, const Tail* tail,
                          float* const* edges) {
  if (accumulate) {
    for (int i = 0; i < kBlockRows; ++i) std::copy_n(c[i] + column, real, edges[i]);
  }
  if (width == kPanel)
    multiply_terms<2>(terms, count, row, edges, 0, accumulate, nullptr);
  else
    multiply_terms<1>(terms, count, row, edges, 0, accumulate, nullptr);
  for (int i = 0; i < kBlockRows; ++i) {
    for (i64 j = 0; j < real; ++j) {
      float v = edges[i][j];
      if (tail && tail->bias) v += tail->bias[column + j];
      if (tail && tail->relu) v = v <= 0 ? 0 : v;
      c[i][column + j] = v;
    }
  }
}

// Rows of `a` for the rows of c, `kChunk` of them or fewer: rows[tap * kChunk + i].
// c[i] = relu?((c[i] +) sum over taps of rows[tap][i] b[taps[tap]] (+ bias)) for i < count, where
// `count` is a multiple of kBlockRows: the tables are filled up, c with rows that nobody reads.
inline void multiply_chunk(const float* const* rows, i64 count, const Panels& b, i64 first_column,
                           i64 last_column, float* const* c, const std::vector<i64>& taps,
                           const Tail& tail) {
  alignas(64) float edge[kBlockRows][kPanel];
  float* edges[kBlockRows];
  for (int i = 0; i < kBlockRows; ++i) edges[i] = edge[i];
  std::vector<Term> terms;
  const i64 n_taps = static_cast<i64>(taps.size());
  i64 tap = 0, from = 0;
  bool accumulate = tail.add;
  do {
    // as many terms as fit the cache together
    const i64 tap0 = tap, from0 = from;
    i64 room = kDepth;
    terms.clear();
    while (tap < n_taps && room > 0) {
      const i64 left = b.depth() - from, depth = left <= room + room / 2 ? left : room;
      terms.push_back({rows + tap * kChunk, nullptr, from, depth});
      from += depth;
      room -= depth;
      if (from == b.depth()) from = 0, ++tap;
    }
    const bool last = tap == n_taps;
    for (i64 column = first_column; column < last_column; column += kPanel) {
      i64 t = tap0, at = from0;
      for (Term& term : terms) {
        term.b = b.at(column, taps[static_cast<std::size_t>(t)], at);
        at += term.depth;
        if (at == b.depth()) at = 0, ++t;
      }
      const i64 width = b.width(column), real = std::min(width, b.columns() - column);
      const auto n_terms = static_cast<i64>(terms.size());
      const Tail* end = last && (tail.bias || tail.relu) ? &tail : nullptr;
      for (i64 row = 0; row < count; row += kBlockRows) {
        if (width == kPanel && real == kPanel)
          multiply_terms<2>(terms.data(), n_terms, row, c + row, column, accumulate, end);
        else if (real == kLanes)
          multiply_terms<1>(terms.data(), n_terms, row, c + row, column, accumulate, end);
        else
          multiply_edge(terms.data(), n_terms, row, c + row, column, real, width, accumulate, end,
                        edges);
      }
    }
    accumulate = true;
  } while (tap < n_taps);
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
