// The inner loop of a matrix product, with its block of results held in registers.
#pragma once

#include "gossamer/core/cpu/simd.h"

namespace gossamer::cpu {

// c[i][j] (+)= sum_l a[i a_row + l a_step] b[l b_step + j]     for i < Rows, j < 16 Vectors
// Either step of `a` may be 1: rows of a matrix, or columns of one (a transposed product).
template <int Rows, int Vectors, bool accumulate>
[[gnu::noinline]] void multiply_block(i64 steps, const float* a, i64 a_row, i64 a_step,
                                      const float* b, i64 b_step, float* c, i64 c_row) {
  using simd::f32x16;
  f32x16 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sum[i][v] = accumulate ? simd::load<f32x16>(c + i * c_row + 16 * v) : f32x16{};
  }
  for (i64 l = 0; l < steps; ++l, a += a_step, b += b_step) {
    f32x16 right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) right[v] = simd::load<f32x16>(b + 16 * v);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const float left = a[i * a_row];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) simd::store(c + i * c_row + 16 * v, sum[i][v]);
  }
}

}  // namespace gossamer::cpu
