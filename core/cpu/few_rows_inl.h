// The inner loop of a product with few rows, where b is read once, as it lies: sums along its
// columns' terms. Included once for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_FEW_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_FEW_ROWS_INL_H
#undef GOSSAMER_CORE_CPU_FEW_ROWS_INL_H
#else
#define GOSSAMER_CORE_CPU_FEW_ROWS_INL_H
#endif

#include "gossamer/core/cpu/terms_inl.h"
#include "gossamer/core/ops/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

constexpr i64 kFewRows = 15;

// c[i][j c_step] = sum_l a[i k + l] b[j b_step + l] for i < Rows, j < Columns. A vector holds sums
// of every kLanes-th term, which are added at the end.
template <class N, int Rows, int Columns, class A, class T>
HWY_NOINLINE void multiply_dots(i64 k, const A* HWY_RESTRICT a, const T* HWY_RESTRICT b, i64 b_step,
                                float* HWY_RESTRICT c, i64 c_row, i64 c_step) {
  const Floats d;
  Vector sum[Rows][Columns];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sum[i][j] = hn::Zero(d);
  }
  constexpr i64 step = kLanes * kTerms<N>;
  i64 l = 0;
  for (; l + step <= k; l += step) {
    Vector right[Columns];
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) right[j] = along<N>(d, b + j * b_step + l);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Vector left = along<N>(d, a + i * k + l);
#pragma GCC unroll 4
      for (int j = 0; j < Columns; ++j) sum[i][j] = multiply_add<N>(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Columns; ++j) {
      float s = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (i64 r = l; r < k; ++r)
        s += gossamer::load(a, i * k + r) * gossamer::load(b, j * b_step + r);
      c[i * c_row + j * c_step] = s;
    }
  }
}

// The same for any number of rows.
template <class N, int Columns, class A, class T>
void multiply_few(i64 rows, i64 k, const A* a, const T* b, i64 b_step, float* c, i64 c_row,
                  i64 c_step) {
  constexpr int most = kManyRegisters ? 6 : 2;  // with four columns: as many sums as registers hold
  for (; rows >= most; rows -= most, a += most * k, c += most * c_row)
    multiply_dots<N, most, Columns>(k, a, b, b_step, c, c_row, c_step);
  for (; rows >= 2; rows -= 2, a += 2 * k, c += 2 * c_row)
    multiply_dots<N, 2, Columns>(k, a, b, b_step, c, c_row, c_step);
  if (rows > 0) multiply_dots<N, 1, Columns>(k, a, b, b_step, c, c_row, c_step);
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
