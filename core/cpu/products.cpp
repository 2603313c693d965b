// Matrix products after Goto and van de Geijn 2008: a thread packs as much of b as its cache holds
// into panels of two vectors' width and multiplies each panel by blocks of rows of a. It takes one
// k-block, a part of the sum, at a time, so that both operands stay in the first-level cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/products.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>

#include "gossamer/core/cpu/few_rows_inl.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/microkernel_inl.h"
#include "gossamer/core/cpu/products.h"
#include "gossamer/core/cpu/rows_inl.h"
#include "gossamer/core/cpu/scratch.h"
#include "gossamer/core/cpu/tiles_inl.h"
#include "gossamer/core/ops/activation.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

constexpr i64 kKBlocksPacked = 8;  // k-blocks of b that are packed at a time
constexpr i64 kRows = 96;          // rows of a at a time: a multiple of kRowsAtOnce
// Numbers of b that a thread packs at a time: more where a is packed again for each such part.
constexpr i64 kMostB = 1 << 18, kMostBIfAIsPacked = 1 << 20;
// c stays in the second-level cache if it has at most kSmall elements and kSmallRows rows.
constexpr i64 kSmall = 1 << 17, kSmallRows = 1024;
constexpr i64 kNarrow = 256;         // with at most this many columns of c, it waits for a
constexpr i64 kLeastWork = 1 << 18;  // multiplications worth a thread of its own

constexpr i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }
template <class N>
constexpr i64 numbers_of(i64 terms) {
  return (terms + kTerms<N> - 1) / kTerms<N>;
}
// What is multiplied at a time: rows of a, and numbers of a sum, which zeros fill up.
template <class N>
constexpr i64 kRowsAtOnce = kTiled<N> ? kTileRows : kBlockRows;
template <class N>
constexpr i64 kNumbersAtOnce = kTiled<N> ? kTileSide : 1;
// Numbers of a k-block. A Zen 4 with AVX-512 was 1 to 2 % faster with 384 than with 256, although a
// panel then exceeds its first-level cache; with AVX2 it was 5 % slower. Tiles were not measured.
template <class N>
constexpr i64 kKBlock = kLanes == 16 && !kTiled<N> ? 384 : 256;

// Transposes 4 x 4 numbers: to[j to_row + i] = number j of the row from[i from_row].
template <class N, class T>
HWY_INLINE void transpose_4x4(const T* from, i64 from_row, N* to, i64 to_row) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = along<N>(d, from), b = along<N>(d, from + from_row),
             c = along<N>(d, from + 2 * from_row), e = along<N>(d, from + 3 * from_row);
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             ab2 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             ce2 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  store_numbers(d, hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), to);
  store_numbers(d, hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)), to + to_row);
  store_numbers(d, hn::BitCast(d, hn::InterleaveLower(pairs, ab2, ce2)), to + 2 * to_row);
  store_numbers(d, hn::BitCast(d, hn::InterleaveUpper(pairs, ab2, ce2)), to + 3 * to_row);
}

// Rows of a matrix from some column on, `row` elements apart, or those that StridedRows name.
template <class T>
struct RowView {
  const T* first;
  i64 row;
  const StridedRows* strided = nullptr;
  i64 begin = 0;  // the row that is number 0 here
  const T* operator[](i64 i) const {
    return first + (strided ? strided->pixel(begin + i) : begin + i) * row;
  }
  RowView from(i64 column) const { return {first + column, row, strided, begin}; }
};

// Packing: numbers are made of `terms` terms of the sum; to[l width + j] is number l of column j,
// for j < real, and zero up to width.

// A column's terms lie in one row: from[j row + term].
template <class N, class T>
void pack_transposed(const T* from, i64 row, i64 terms, i64 real, i64 width, N* to) {
  constexpr i64 kStrip = 64;  // some lines of the cache are read at once
  const i64 depth = numbers_of<N>(terms), whole = terms / kTerms<N>;
  for (i64 l0 = 0; l0 < depth; l0 += kStrip) {
    const i64 stop = std::min(l0 + kStrip, depth);
    const auto column = [&](i64 j, i64 l) {
      to[l * width + j] = j < real ? number<N>(from + j * row + l * kTerms<N>, 1, l < whole) : N();
    };
    i64 j = 0;
    for (; j + 4 <= real; j += 4) {
      i64 l = l0;
      for (; l + 4 <= std::min(stop, whole); l += 4)
        transpose_4x4(from + j * row + l * kTerms<N>, row, to + l * width + j, width);
      for (; l < stop; ++l) {
        for (i64 i = 0; i < 4; ++i) column(j + i, l);
      }
    }
    for (; j < width; ++j) {
      for (i64 l = l0; l < stop; ++l) column(j, l);
    }
  }
}

#if HWY_TARGET == HWY_AVX3
template <class T>
void pack_transposed(const T* from, i64 row, i64 terms, i64 real, i64 width, TiledPair* to) {
  const i64 depth = numbers_of<Pair>(terms), whole = terms / kTerms<Pair>;
  for (i64 l0 = 0; l0 < depth; l0 += kTileSide) {
    for (i64 j0 = 0; j0 < width; j0 += kTileSide) {
      if (l0 + kTileSide <= whole && j0 + kTileSide <= real) {
        const T* corner = from + j0 * row + l0 * kTerms<Pair>;
        transpose_tile([&](i64 j) HWY_ATTR { return along<Pair>(Floats(), corner + j * row); },
                       to + l0 * width + j0, width);
        continue;
      }
      for (i64 j = j0; j < j0 + kTileSide; ++j) {
        for (i64 l = l0; l < std::min(l0 + kTileSide, depth); ++l)
          to[l * width + j] =
              j < real ? number<TiledPair>(from + j * row + l * kTerms<Pair>, 1, l < whole)
                       : TiledPair();
      }
    }
  }
}
#endif

// A column's terms lie in different rows: source[term][j].
template <class N, class T>
void pack_rows(const RowView<T>& source, i64 terms, i64 real, i64 width, N* to) {
  const Floats d;
  const i64 depth = numbers_of<N>(terms), whole = terms / kTerms<N>;
  for (i64 l = 0; l < depth; ++l, to += width) {
    const T* from = source[kTerms<N> * l];
    i64 j = 0;
    for (; j + kLanes <= real; j += kLanes)
      store_numbers(d, across<N>(d, from + j, source.row, l < whole), to + j);
    for (; j < width; ++j) to[j] = j < real ? number<N>(from + j, source.row, l < whole) : N();
  }
}

// The same in blocks of Width columns each: to[i / Width block + l Width + i % Width], for
// i < columns. Reads whole rows, since short parts of many rows arrive slowly. Up to `readable`
// columns may be read, and the last step of a block writes up to a vector more.
template <i64 Width, class N, class T>
void pack_blocks(const RowView<T>& source, i64 terms, i64 columns, i64 readable, i64 block, N* to) {
  const hn::CappedTag<float, Width % kLanes ? 8 : 16> d;
  constexpr i64 lanes = static_cast<i64>(hn::MaxLanes(d)), reach = round_up(Width, lanes);
  const i64 depth = numbers_of<N>(terms), whole = terms / kTerms<N>;
  for (i64 l = 0; l < depth; ++l, to += Width) {
    const T* from = source[kTerms<N> * l];
    N* next = to;
    i64 i = 0;
    for (; i < columns && i + reach <= readable; i += Width, next += block) {
      for (i64 r = 0; r < Width; r += lanes)
        store_numbers(d, across<N>(d, from + i + r, source.row, l < whole), next + r);
    }
    for (; i < columns; i += Width, next += block) {
      for (i64 r = 0; r < std::min(Width, columns - i); ++r)
        next[r] = number<N>(from + i + r, source.row, l < whole);
    }
  }
}

// A product in elements, not tensors. N: what is multiplied at a time; T: of a and b; C: of c.
template <class N, class T, class C>
struct Product {
  bool ta, tb;
  i64 m, n, k;
  const T *a, *b;
  C* c;
  const ProductTail& tail;
  const StridedRows* strided;
  i64 depth() const { return round_up(numbers_of<N>(k), kNumbersAtOnce<N>); }
  // Whether rows of a can be read as numbers where they lie.
  bool a_in_place() const {
    return !ta && !strided && k % (kTerms<N> * kNumbersAtOnce<N>) == 0 &&
           sizeof(N) == sizeof(T) * kTerms<N>;
  }
  // of `count` numbers of a sum, from number l on
  i64 terms(i64 l, i64 count) const { return std::min(count * kTerms<N>, k - l * kTerms<N>); }
  // Sums that are written to c as they are.
  bool plain() const {
    return std::is_same_v<C, float> && !tail.bias.defined() && !tail.z.defined() &&
           tail.activation == Activation::none;
  }
};

// v[j] = Op::f(v[j]) for a row of a panel: a loop of fixed length, which the compiler turns into
// vectors without a remainder.
template <class Op>
HWY_INLINE void activate(float* v) {
  GOSSAMER_IVDEP
  for (i64 j = 0; j < kPanel; ++j) v[j] = Op::f(v[j]);
}

// Rows [row, row + rows) and columns [column, column + columns) of c, of one panel, from their
// sums.
template <class N, class T, class C>
void finish(const Product<N, T, C>& p, const float* sums, i64 sums_row, i64 row, i64 rows,
            i64 column, i64 columns) {
  const Tensor& b = p.tail.bias;
  alignas(64) float bias[kPanel] = {}, v[kPanel] = {};
  if (b.defined()) {
    const auto widen = [&](const auto* from) HWY_ATTR {
      for_columns(columns,
                  [&](auto d, i64 j) HWY_ATTR { store(d, load(d, from + column + j), bias + j); });
    };
    if constexpr (std::is_same_v<T, float>) {
      widen(b.as<float>());
    } else {
      if (b.dtype() == DType::f32)
        widen(b.as<float>());
      else
        widen(b.as<T>());
    }
  }
  with_activation(p.tail.activation, [&]<class Op>() HWY_ATTR {
    C* z = p.tail.z.defined() ? p.tail.z.template as<C>() : nullptr;
    for (i64 i = 0; i < rows; ++i) {
      const float* from = sums + i * sums_row;
      const i64 at = (row + i) * p.n + column;
      C *to = p.c + at, *argument = z ? z + at : nullptr;
      const bool add = p.tail.add && from != static_cast<const void*>(to);
      for_columns(columns, [&](auto d, i64 j) HWY_ATTR {
        auto x = load(d, from + j);
        if (add) x = hn::Add(x, load(d, to + j));
        x = hn::Add(x, load(d, bias + j));
        if (argument) store(d, x, argument + j);
        store(d, x, v + j);
      });
      activate<Op>(v);
      for_columns(columns, [&](auto d, i64 j) HWY_ATTR { store(d, load(d, v + j), to + j); });
    }
  });
}

// Columns [first, last) of op(b) and `depth` numbers of the sum, from number l on, as panels of
// kPanel columns, which lie one after the other; the last one is as wide as the vectors need.
template <class N, class T, class C>
void pack_right(const Product<N, T, C>& p, i64 l, i64 depth, i64 first, i64 last, N* to) {
  const i64 whole = p.tb ? first : last - (last - first) % kPanel;  // full panels up to here
  const i64 terms = p.terms(l, depth);
  const T* columns = p.b + l * kTerms<N>;  // if tb
  const RowView<T> b{p.b, p.n, p.ta ? p.strided : nullptr, l * kTerms<N>};
  pack_blocks<kPanel>(b.from(first), terms, whole - first, whole - first, kPanel * depth, to);
  for (i64 column = whole; column < last; column += kPanel) {
    const i64 real = std::min(kPanel, last - column), width = round_up(real, kLanes);
    N* panel = to + (column - first) * depth;
    if (p.tb)
      pack_transposed(columns + column * p.k, p.k, terms, real, width, panel);
    else
      pack_rows(b.from(column), terms, real, width, panel);
  }
  const i64 filled = numbers_of<N>(terms);
  for (i64 column = first; filled < depth && column < last; column += kPanel) {
    const i64 width = round_up(std::min(kPanel, last - column), kLanes);
    N* panel = to + (column - first) * depth;
    std::fill(panel + filled * width, panel + depth * width, N());
  }
}

// Rows of op(a) for a k-block: number l of row i is rows[i / kRowsAtOnce block +
// i % kRowsAtOnce row + l step].
template <class N>
struct Left {
  const N* rows;
  i64 row, step, block;
};
// Returns them where they lie, or a copy in `to`, which has room for kRows (depth + 1) + kLanes.
template <class N, class T, class C>
Left<N> left_of(const Product<N, T, C>& p, i64 row, i64 rows, i64 l, i64 depth, N* to) {
  const i64 terms = p.terms(l, depth), term = l * kTerms<N>;
  if (p.ta) {
    const i64 block = kBlockRows * (depth + 1);
    pack_blocks<kBlockRows>(RowView<T>{p.a + row, p.m, nullptr, term}, terms, rows, p.m - row,
                            block, to);
    return {to, 1, kBlockRows, block};
  }
  const RowView<T> source{p.a + term, p.k, p.strided, row};
  if (p.a_in_place()) {
    const i64 step = p.k / kTerms<N>;
    return {reinterpret_cast<const N*>(source[0]), step, 1, kBlockRows * step};
  }
  for (i64 i = 0; i < rows; ++i) {
    const T* next = source[i];
    if constexpr (kTerms<N> == 1) {
      pack_rows(RowView<T>{next, 0}, 1, depth, depth, to + i * depth);
    } else {
      for (i64 j = 0; j < depth; ++j)
        to[i * depth + j] = number<N>(next + 2 * j, 1, 2 * j + 1 < terms);
    }
  }
  return {to, depth, 1, kBlockRows * depth};
}

#if HWY_TARGET == HWY_AVX3
// A tile takes rows of pairs, and only as a whole. So rows are filled up with zeros, and rows are
// added that would become rows of c that do not exist.
template <class T, class C>
Left<TiledPair> left_of(const Product<TiledPair, T, C>& p, i64 row, i64 rows, i64 l, i64 depth,
                        TiledPair* to) {
  const i64 terms = p.terms(l, depth), term = l * kTerms<Pair>, whole = terms / kTerms<Pair>;
  if (p.ta) {
    const RowView<T> source{p.a + row, p.m, nullptr, term};
    for (i64 l0 = 0; l0 < depth; l0 += kTileSide) {
      for (i64 i0 = 0; i0 < rows; i0 += kTileSide) {
        if (l0 + kTileSide <= whole && i0 + kTileSide <= rows) {
          const auto get_row = [&](i64 i) HWY_ATTR {
            return across<Pair>(Floats(), source[kTerms<Pair> * (l0 + i)] + i0, p.m, true);
          };
          transpose_tile(get_row, to + i0 * depth + l0, depth);
          continue;
        }
        for (i64 i = i0; i < std::min(i0 + kTileSide, rows); ++i) {
          for (i64 j = l0; j < l0 + kTileSide; ++j)
            to[i * depth + j] =
                j < numbers_of<Pair>(terms)
                    ? number<TiledPair>(source[kTerms<Pair> * j] + i, p.m, j < whole)
                    : TiledPair();
        }
      }
    }
    return {to, depth, 1, kTileRows * depth};
  }
  const RowView<T> source{p.a + term, p.k, p.strided, row};
  if (p.a_in_place() && rows % kTileRows == 0) {
    const i64 step = p.k / kTerms<Pair>;
    return {reinterpret_cast<const TiledPair*>(source[0]), step, 1, kTileRows * step};
  }
  for (i64 i = 0; i < rows; ++i) {
    T* copy = &to[i * depth].first;
    std::copy_n(source[i], terms, copy);
    std::fill(copy + terms, copy + depth * kTerms<Pair>, T());
  }
  return {to, depth, 1, kTileRows * depth};
}
#endif

// Memory that is packed or multiplied next. The blocks before it prefetch an equal part of it at
// each step, because a product of few columns would otherwise wait for it.
class PrefetchQueue {
 public:
  template <class T>
  void add(const T* p, i64 count) {
    ranges_[ranges_[0].bytes > 0] = {reinterpret_cast<const char*>(p), count * i64{sizeof(T)}};
  }
  void spread(i64 steps) { step_ = (ranges_[0].bytes + ranges_[1].bytes + steps - 1) / steps; }
  Prefetch take(i64 steps) {
    if (ranges_[0].bytes <= 0) std::swap(ranges_[0], ranges_[1]);
    if (ranges_[0].bytes <= 0) return {};
    const Prefetch prefetch{ranges_[0].at, step_};
    ranges_[0] = {prefetch.at + steps * step_, ranges_[0].bytes - steps * step_};
    return prefetch;
  }

 private:
  struct {
    const char* at = nullptr;
    i64 bytes = 0;
  } ranges_[2];
  i64 step_ = 0;
};

template <int Vectors, bool accumulate, class N>
void multiply_panel(const Left<N>& left, i64 rows, i64 depth, const N* panel, float* to, i64 to_row,
                    PrefetchQueue& next) {
  const N* a = left.rows;
  for (i64 i = 0; i < rows; i += kRowsAtOnce<N>, a += left.block) {
    const i64 count = std::min<i64>(kRowsAtOnce<N>, rows - i);
    if constexpr (kTiled<N>)
      multiply_tile_rows<Vectors, accumulate>(count, depth, a, left.row, panel, to + i * to_row,
                                              to_row);
    else
      multiply_rows<Vectors, accumulate>(count, depth, a, left.row, left.step, panel,
                                         Vectors * kLanes, to + i * to_row, to_row,
                                         next.take(depth));
  }
}

// One thread's part of c.
template <class N, class T, class C>
void multiply_part(const Product<N, T, C>& p, i64 row0, i64 row1, i64 column0, i64 column1) {
  constexpr bool sums_fit = std::is_same_v<C, float>;  // c can hold them meanwhile
  const bool pack_a = !p.a_in_place(),
             // c stays in the cache, so a and b are packed one k-block at a time
      small = sums_fit && p.ta && !p.strided && p.n % kLanes == 0 &&
              (row1 - row0) * p.n <= kSmall && row1 - row0 <= kSmallRows;
  const i64 whole = p.depth(), k_blocks = (whole + kKBlock<N> - 1) / kKBlock<N>,
            k_block =
                round_up((whole + k_blocks - 1) / k_blocks, std::max<i64>(4, kNumbersAtOnce<N>)),
            rows_at_once = small ? round_up(row1 - row0, kRowsAtOnce<N>) : kRows,
            // numbers of the sum for which b is packed at once
      deepest = sums_fit && p.n % kLanes == 0
                    ? std::min(whole, (small ? 1 : kKBlocksPacked) * k_block)
                    : whole,
            most_columns =
                std::min(round_up(column1 - column0, kPanel),
                         std::max((pack_a ? kMostBIfAIsPacked : kMostB) / deepest / kPanel * kPanel,
                                  4 * kPanel));
  // Sums of several k-blocks that c can't hold are kept until the last one.
  const bool keep = !sums_fit && k_block < whole;
  const auto right = scratch(most_columns * deepest),
             copy = scratch(pack_a || kTiled<N> ? rows_at_once * (k_block + 1) + kLanes : 0),
             sums = scratch(rows_at_once * (keep ? most_columns : kPanel));
  N* const panels = static_cast<N*>(right->data);
  [[maybe_unused]] const InUse<N> in_use;
  const auto multiply_rows_of = [&](i64 row, i64 first, i64 last, i64 begin, i64 end) HWY_ATTR {
    const i64 rows = std::min(rows_at_once, row1 - row);
    PrefetchQueue next;
    if (small) {
      const i64 terms = p.terms(end, k_block);
      if (terms > 0) {
        if (last - first == p.n) next.add(p.b + end * kTerms<N> * p.n, terms * p.n);
        if (rows == p.m) next.add(p.a + end * kTerms<N> * p.m, terms * p.m);
      }
    } else if (!pack_a && end - begin == whole && last - first <= kNarrow) {
      next.add(p.a + (row + rows) * p.k, std::min(rows, row1 - row - rows) * p.k);
    }
    next.spread((rows + kBlockRows - 1) / kBlockRows * ((last - first + kPanel - 1) / kPanel) *
                (end - begin));
    for (i64 l = begin; l < end; l += k_block) {
      const i64 depth = std::min(k_block, end - l);
      const Left left = left_of(p, row, rows, l, depth, static_cast<N*>(copy->data));
      for (i64 column = first; column < last; column += kPanel) {
        const i64 real = std::min(kPanel, last - column), width = round_up(real, kLanes);
        const N* panel = panels + (column - first) * (end - begin) + (l - begin) * width;
        // a panel that is wider than what is left of c has its sums elsewhere, too
        const bool in_c = sums_fit && real == width;
        float* to = data_of(sums) + (keep ? column - first : 0);
        if constexpr (sums_fit) to = in_c ? p.c + row * p.n + column : to;
        const i64 to_row = in_c ? p.n : keep ? most_columns : kPanel;
        const bool accumulate = l > 0 || (in_c && p.tail.add);
        const auto multiply =
            width == kPanel
                ? (accumulate ? multiply_panel<2, true, N> : multiply_panel<2, false, N>)
                : (accumulate ? multiply_panel<1, true, N> : multiply_panel<1, false, N>);
        multiply(left, rows, depth, panel, to, to_row, next);
        if (l + depth == whole && !(in_c && p.plain()))
          finish(p, to, to_row, row, rows, column, real);
      }
    }
  };
  for (i64 first = column0; first < column1; first += most_columns) {
    const i64 last = std::min(first + most_columns, column1);
    for (i64 l = 0; l < whole; l += deepest) {
      const i64 end = std::min(l + deepest, whole);
      pack_right(p, l, end - l, first, last, panels);
      for (i64 row = row0; row < row1; row += rows_at_once)
        multiply_rows_of(row, first, last, l, end);
    }
  }
}

// --- few rows: b is read once, unpacked, so that the product takes as long as reading b. ---

template <class N, class T, class C>
void multiply_few_rows(const Product<N, T, C>& p) {
  using A = std::conditional_t<sizeof(N) == sizeof(T) * kTerms<N>, T, float>;
  std::shared_ptr<Block> wide;
  const A* a;
  if constexpr (std::is_same_v<A, T>) {
    a = p.a;
  } else {
    wide = scratch(p.m * p.k);
    pack_rows(RowView<T>{p.a, 0}, 1, p.m * p.k, p.m * p.k, data_of(wide));
    a = data_of(wide);
  }
  // Four columns that are far apart are four streams, which a CPU fetches ahead; of four that lie
  // side by side, it does not.
  const i64 panels = (p.n + kPanel - 1) / kPanel, whole = p.n / kPanel;
  parallel_for(panels, kLeastWork / (p.m * p.k * kPanel) + 1, [&](i64 begin, i64 end) HWY_ATTR {
    alignas(64) float sums[4 * kFewRows * kPanel];
    const i64 apart = std::max<i64>(0, std::min(end, whole) - begin) / 4, size = p.m * kPanel;
    for (i64 panel = begin; panel < begin + apart; ++panel) {
      for (i64 j = 0; j < kPanel; ++j)
        multiply_few<N, 4>(p.m, p.k, a, p.b + (panel * kPanel + j) * p.k, apart * kPanel * p.k,
                           sums + j, kPanel, size);
      for (i64 i = 0; i < 4; ++i)
        finish(p, sums + i * size, kPanel, 0, p.m, (panel + i * apart) * kPanel, kPanel);
    }
    for (i64 panel = begin + 4 * apart; panel < end; ++panel) {
      const i64 first = panel * kPanel, columns = std::min(kPanel, p.n - first);
      const T* b = p.b + first * p.k;
      i64 j = 0;
      for (; j + 4 <= columns; j += 4)
        multiply_few<N, 4>(p.m, p.k, a, b + j * p.k, p.k, sums + j, kPanel, 1);
      for (; j < columns; ++j)
        multiply_few<N, 1>(p.m, p.k, a, b + j * p.k, p.k, sums + j, kPanel, 1);
      finish(p, sums, kPanel, 0, p.m, first, columns);
    }
  });
}

template <class N, class T, class C>
void multiply(const Product<N, T, C>& p) {
  if (p.m <= kFewRows && p.tb && !p.strided && (!p.ta || p.m == 1)) return multiply_few_rows(p);
  // Threads that share out the rows of c each copy all of b; those that share out its columns each
  // read all of a. The smaller of the two.
  const i64 threads = std::clamp<i64>(p.m * p.n * p.k / kLeastWork, 1, compute_threads()),
            panels = (p.n + kPanel - 1) / kPanel,
            blocks = (p.m + kRowsAtOnce<N> - 1) / kRowsAtOnce<N>,
            rows = p.m > p.n ? std::min(threads, blocks) : 1,
            across = std::min(threads / rows, panels), down = std::min(threads / across, blocks);
  parallel_for(across * down, 1, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 piece = begin; piece < end; ++piece) {
      const i64 i = piece / across, j = piece % across;
      multiply_part(p, blocks * i / down * kRowsAtOnce<N>,
                    std::min(p.m, blocks * (i + 1) / down * kRowsAtOnce<N>),
                    panels * j / across * kPanel,
                    std::min(p.n, panels * (j + 1) / across * kPanel));
    }
  });
}

void product_of(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c,
                const ProductTail& tail, const StridedRows* strided) {
  note_run(Kernel::product, HWY_TARGET);
  const i64 m = c.shape(0), n = c.shape(1), k = ta ? a.shape(0) : a.shape(-1);
  with_floating(a.dtype(), c.dtype(), "product", [&]<class T, class C>() HWY_ATTR {
    if constexpr (std::is_same_v<C, float> || std::is_same_v<C, T>) {
      const auto by = [&]<class N>(N) HWY_ATTR {
        multiply(Product<N, T, C>{ta, tb, m, n, k, a.as<T>(), b.as<T>(), c.as<C>(), tail, strided});
      };
      if constexpr (kPairsExist && std::is_same_v<T, bf16>) {
        if constexpr (kTilesExist) {
          if (multiplies_bf16_tiles()) {
            note_run(Kernel::bf16_tiles, HWY_TARGET);
            return by(TiledPair());
          }
        }
        if (multiplies_bf16_pairs()) {
          note_run(Kernel::bf16_pairs, HWY_TARGET);
          return by(Pair());
        }
      }
      by(float());
    }
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(product_of);
void product(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const ProductTail& tail,
             const StridedRows* strided) {
  HWY_DYNAMIC_DISPATCH(product_of)(ta, tb, a, b, c, tail, strided);
}

}  // namespace gossamer::cpu
#endif
