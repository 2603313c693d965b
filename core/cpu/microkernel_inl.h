// The inner loop of a matrix product, with its block of results held in registers. Included once
// for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_MICROKERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_MICROKERNEL_INL_H
#undef GOSSAMER_CORE_CPU_MICROKERNEL_INL_H
#else
#define GOSSAMER_CORE_CPU_MICROKERNEL_INL_H
#endif

#include "gossamer/core/cpu/terms_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

// Rows of a block that is two vectors wide: on AVX2, 12 sums, two columns and a broadcast fill the
// 16 registers. 12 rows were not faster on AVX-512, and slower for the gradient of weights.
constexpr int kBlockRows = kManyRegisters ? 8 : 6;
constexpr i64 kPanel = 2 * kLanes;  // columns

// Memory that is read next: the inner loop prefetches `step` bytes of it at each step of its sum,
// so that they arrive while it multiplies.
struct Prefetch {
  const char* at = nullptr;  // null: nothing to prefetch
  i64 step = 0;
};

#if HWY_ARCH_ARM_A64
// NEON multiplies by any lane of a register, so that one load brings four numbers of `a`.

// sum[i][v] += the products of lane `lane` of left[i] with right[v]
template <int lane, class N, int Rows, int Vectors>
HWY_INLINE void add_lane(const Vector (&left)[Rows], const N* b, Vector (&sum)[Rows][Vectors]) {
  Vector right[Vectors];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v)
    right[v] = hn::LoadU(Floats(), reinterpret_cast<const float*>(b + kLanes * v));
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sum[i][v] = multiply_add_lane<lane, N>(left[i], right[v], sum[i][v]);
  }
}

// Four steps of the sums of rows: sum[i][v] += sum_l left[i][l] b[l b_step + kLanes v], l < 4
template <class N, int Rows, int Vectors>
HWY_INLINE void add_four_steps(const Vector (&left)[Rows], const N* b, i64 b_step,
                               Vector (&sum)[Rows][Vectors]) {
  add_lane<0>(left, b, sum);
  add_lane<1>(left, b + b_step, sum);
  add_lane<2>(left, b + 2 * b_step, sum);
  add_lane<3>(left, b + 3 * b_step, sum);
}

// One step of rows whose numbers lie side by side: sum[i][v] += a[i] b[kLanes v]
template <class N, int Rows, int Vectors>
HWY_INLINE void add_column(const N* a, const N* b, Vector (&sum)[Rows][Vectors]) {
  Vector right[Vectors];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v)
    right[v] = hn::LoadU(Floats(), reinterpret_cast<const float*>(b + kLanes * v));
  constexpr int whole = Rows / 4 * 4;
#pragma GCC unroll 4
  for (int i = 0; i < whole; i += 4) {
    const Vector left = hn::LoadU(Floats(), reinterpret_cast<const float*>(a + i));
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[i][v] = multiply_add_lane<0, N>(left, right[v], sum[i][v]);
      sum[i + 1][v] = multiply_add_lane<1, N>(left, right[v], sum[i + 1][v]);
      sum[i + 2][v] = multiply_add_lane<2, N>(left, right[v], sum[i + 2][v]);
      sum[i + 3][v] = multiply_add_lane<3, N>(left, right[v], sum[i + 3][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = whole; i < Rows; ++i) {
    const Vector left = broadcast(a + i);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[i][v] = multiply_add<N>(left, right[v], sum[i][v]);
  }
}
#endif

// c[i][j] (+)= sum_l a[i a_row + l a_step] b[l b_step + j]     for i < Rows, j < kLanes Vectors
// Either step of `a` may be 1: rows of a matrix, or columns of one (a transposed product).
// N: float or Pair. prefetches: what comes next is in memory, not in a cache. The last steps
// prefetch the cache lines of c, one in each step, because the panel has evicted them from the
// first-level cache: without that, products 256 wide took up to 5 % longer (Zen 4).
template <int Rows, int Vectors, bool accumulate, bool prefetches, class N>
HWY_NOINLINE void multiply_block(i64 steps, const N* HWY_RESTRICT a, i64 a_row, i64 a_step,
                                 const N* HWY_RESTRICT b, i64 b_step, float* HWY_RESTRICT c,
                                 i64 c_row, Prefetch prefetch = {}) {
  const Floats d;
  Vector sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[i][v] = accumulate ? hn::LoadU(d, c + i * c_row + kLanes * v) : hn::Zero(d);
    }
  }
  const auto step = [&](i64 l) HWY_ATTR {
    if constexpr (prefetches) __builtin_prefetch(prefetch.at + l * prefetch.step, 0, 2);
    Vector right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      right[v] = hn::LoadU(d, reinterpret_cast<const float*>(b + kLanes * v));
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const Vector left = broadcast(a + i * a_row);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[i][v] = multiply_add<N>(left, right[v], sum[i][v]);
    }
    a += a_step;
    b += b_step;
  };
  i64 l = 0;
#if HWY_ARCH_ARM_A64
  const auto prefetch_for = [&](i64 count) HWY_ATTR {
    if constexpr (prefetches) {
      for (i64 i = l; i < l + count; ++i) __builtin_prefetch(prefetch.at + i * prefetch.step, 0, 2);
    }
  };
  if (a_row == 1) {
    for (; l < steps; ++l, a += a_step, b += b_step) {
      prefetch_for(1);
      add_column(a, b, sum);
    }
  } else {
    for (; l + 4 <= steps; l += 4, a += 4, b += 4 * b_step) {
      prefetch_for(4);
      Vector left[Rows];
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i)
        left[i] = hn::LoadU(d, reinterpret_cast<const float*>(a + i * a_row));
      add_four_steps(left, b, b_step, sum);
    }
  }
#endif
  for (; l < steps - Rows * Vectors; ++l) step(l);
  for (int line = 0; l < steps; ++l, ++line) {
    __builtin_prefetch(c + line / Vectors * c_row + line % Vectors * kLanes, 1);
    step(l);
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sum[i][v], d, c + i * c_row + kLanes * v);
  }
}

template <int Rows, int Vectors, bool accumulate, class N>
HWY_INLINE void multiply_last_rows(i64 rows, i64 steps, const N* a, i64 a_row, i64 a_step,
                                   const N* b, i64 b_step, float* c, i64 c_row) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      multiply_block<Rows, Vectors, accumulate, false>(steps, a, a_row, a_step, b, b_step, c,
                                                       c_row);
    else
      multiply_last_rows<Rows - 1, Vectors, accumulate>(rows, steps, a, a_row, a_step, b, b_step, c,
                                                        c_row);
  }
}

// The same for any number of rows.
template <int Vectors, bool accumulate, class N>
HWY_INLINE void multiply_rows(i64 rows, i64 steps, const N* a, i64 a_row, i64 a_step, const N* b,
                              i64 b_step, float* c, i64 c_row, Prefetch prefetch = {}) {
  for (; rows >= kBlockRows; rows -= kBlockRows, a += kBlockRows * a_row, c += kBlockRows * c_row) {
    if (prefetch.at) {
      multiply_block<kBlockRows, Vectors, accumulate, true>(steps, a, a_row, a_step, b, b_step, c,
                                                            c_row, prefetch);
      prefetch.at += steps * prefetch.step;
    } else {
      multiply_block<kBlockRows, Vectors, accumulate, false>(steps, a, a_row, a_step, b, b_step, c,
                                                             c_row);
    }
  }
  multiply_last_rows<kBlockRows - 1, Vectors, accumulate>(rows, steps, a, a_row, a_step, b, b_step,
                                                          c, c_row);
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
