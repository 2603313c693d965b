// The three small matrices of Winograd F(4, 3) as straight-line code on vectors of sixteen
// channels, and their transposes:
//   y = A^T [ (G w G^T) * (B^T d B) ] A        d: 6 x 6 inputs, w: 3 x 3 weights, y: 4 x 4 results
//   dw = G^T [ (A dy A^T) * (B^T d B) ] G      the adjoint with respect to w
#pragma once

#include "gossamer/core/cpu/simd.h"

namespace gossamer::cpu::winograd {

using simd::f32x16;

// Each takes and gives one row: in[i * stride], out[i * stride].
struct InputRow {  // B^T: 6 -> 6
  static constexpr int in = 6, out = 6;
  [[gnu::always_inline]] static void apply(const f32x16* d, f32x16* o) {
    const f32x16 a = d[4] - 4.0f * d[2], b = d[3] - 4.0f * d[1], c = d[4] - d[2],
                 e = 2.0f * (d[3] - d[1]);
    o[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + e;
    o[4] = c - e;
    o[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
  }
};
struct OutputRow {  // A^T: 6 -> 4
  static constexpr int in = 6, out = 4;
  [[gnu::always_inline]] static void apply(const f32x16* m, f32x16* o) {
    const f32x16 s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    o[0] = m[0] + s1 + s2;
    o[1] = d1 + 2.0f * d2;
    o[2] = s1 + 4.0f * s2;
    o[3] = d1 + 8.0f * d2 + m[5];
  }
};
struct WeightRow {  // G: 3 -> 6
  static constexpr int in = 3, out = 6;
  [[gnu::always_inline]] static void apply(const f32x16* w, f32x16* o) {
    const f32x16 a = (w[0] + w[2]) * (-1.0f / 6), b = w[1] * (1.0f / 6),
                 c = w[0] * (1.0f / 24) + w[2] * (1.0f / 6), e = w[1] * (1.0f / 12);
    o[0] = w[0] * 0.25f;
    o[1] = a - b;
    o[2] = a + b;
    o[3] = c + e;
    o[4] = c - e;
    o[5] = w[2];
  }
};
struct OutputGradRow {  // A: 4 -> 6
  static constexpr int in = 4, out = 6;
  [[gnu::always_inline]] static void apply(const f32x16* y, f32x16* o) {
    const f32x16 a = y[0] + y[2], b = y[1] + y[3], c = y[0] + 4.0f * y[2],
                 e = 2.0f * y[1] + 8.0f * y[3];
    o[0] = y[0];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + e;
    o[4] = c - e;
    o[5] = y[3];
  }
};
struct WeightGradRow {  // G^T: 6 -> 3
  static constexpr int in = 6, out = 3;
  [[gnu::always_inline]] static void apply(const f32x16* m, f32x16* o) {
    const f32x16 s1 = m[1] + m[2], d1 = m[2] - m[1], s2 = m[3] + m[4], d2 = m[3] - m[4];
    o[0] = m[0] * 0.25f - s1 * (1.0f / 6) + s2 * (1.0f / 24);
    o[1] = d1 * (1.0f / 6) + d2 * (1.0f / 12);
    o[2] = (s2 - s1) * (1.0f / 6) + m[5];
  }
};

// Applies Row to the rows and then to the columns of a square: get(i, j) reads element (i, j),
// put(i, j, v) takes a result.
template <class Row, class Get, class Put>
[[gnu::always_inline]] inline void transform(Get&& get, Put&& put) {
  // columns of the half-way result, so that the second pass reads them in a row
  f32x16 half[Row::out][Row::in];
#pragma GCC unroll 6
  for (int i = 0; i < Row::in; ++i) {
    f32x16 row[Row::in], done[Row::out];
#pragma GCC unroll 6
    for (int j = 0; j < Row::in; ++j) row[j] = get(i, j);
    Row::apply(row, done);
#pragma GCC unroll 6
    for (int j = 0; j < Row::out; ++j) half[j][i] = done[j];
  }
#pragma GCC unroll 6
  for (int j = 0; j < Row::out; ++j) {
    f32x16 done[Row::out];
    Row::apply(half[j], done);
#pragma GCC unroll 6
    for (int i = 0; i < Row::out; ++i) put(i, j, done[i]);
  }
}

}  // namespace gossamer::cpu::winograd
