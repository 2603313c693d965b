// The three small matrices of Winograd F(4, 3) as straight-line code on vectors of channels, and
// their transposes:
//   y = A^T [ (G w G^T) * (B^T d B) ] A        d: 6 x 6 inputs, w: 3 x 3 weights, y: 4 x 4 results
//   dw = G^T [ (A dy A^T) * (B^T d B) ] G      the adjoint with respect to w
// Included once for each kind of CPU (vectors_inl.h).
#if defined(GOSSAMER_CORE_CPU_WINOGRAD_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_CORE_CPU_WINOGRAD_TILES_INL_H
#undef GOSSAMER_CORE_CPU_WINOGRAD_TILES_INL_H
#else
#define GOSSAMER_CORE_CPU_WINOGRAD_TILES_INL_H
#endif

#include "gossamer/core/cpu/vectors_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {

HWY_INLINE Vector number(float v) { return hn::Set(Floats(), v); }
HWY_INLINE Vector plus(Vector a, Vector b) { return hn::Add(a, b); }
HWY_INLINE Vector minus(Vector a, Vector b) { return hn::Sub(a, b); }
HWY_INLINE Vector times(float f, Vector a) { return hn::Mul(number(f), a); }
// b + f a, rounded once
HWY_INLINE Vector plus_times(Vector b, float f, Vector a) { return hn::MulAdd(number(f), a, b); }

// Each takes and gives one row.
struct InputRow {  // B^T: 6 -> 6
  static constexpr int in = 6, out = 6;
  static HWY_INLINE void apply(const Vector* d, Vector* o) {
    const Vector a = plus_times(d[4], -4, d[2]), b = plus_times(d[3], -4, d[1]),
                 c = minus(d[4], d[2]), e = times(2, minus(d[3], d[1]));
    o[0] = plus_times(plus_times(d[4], -5, d[2]), 4, d[0]);
    o[1] = plus(a, b);
    o[2] = minus(a, b);
    o[3] = plus(c, e);
    o[4] = minus(c, e);
    o[5] = plus_times(plus_times(d[5], -5, d[3]), 4, d[1]);
  }
};
struct OutputRow {  // A^T: 6 -> 4
  static constexpr int in = 6, out = 4;
  static HWY_INLINE void apply(const Vector* m, Vector* o) {
    const Vector s1 = plus(m[1], m[2]), d1 = minus(m[1], m[2]), s2 = plus(m[3], m[4]),
                 d2 = minus(m[3], m[4]);
    o[0] = plus(m[0], plus(s1, s2));
    o[1] = plus_times(d1, 2, d2);
    o[2] = plus_times(s1, 4, s2);
    o[3] = plus(plus_times(d1, 8, d2), m[5]);
  }
};
struct WeightRow {  // G: 3 -> 6
  static constexpr int in = 3, out = 6;
  static HWY_INLINE void apply(const Vector* w, Vector* o) {
    const Vector a = times(-1.0f / 6, plus(w[0], w[2])), b = times(1.0f / 6, w[1]),
                 c = plus_times(times(1.0f / 24, w[0]), 1.0f / 6, w[2]), e = times(1.0f / 12, w[1]);
    o[0] = times(0.25f, w[0]);
    o[1] = minus(a, b);
    o[2] = plus(a, b);
    o[3] = plus(c, e);
    o[4] = minus(c, e);
    o[5] = w[2];
  }
};
struct OutputGradRow {  // A: 4 -> 6
  static constexpr int in = 4, out = 6;
  static HWY_INLINE void apply(const Vector* y, Vector* o) {
    const Vector a = plus(y[0], y[2]), b = plus(y[1], y[3]), c = plus_times(y[0], 4, y[2]),
                 e = plus_times(times(2, y[1]), 8, y[3]);
    o[0] = y[0];
    o[1] = plus(a, b);
    o[2] = minus(a, b);
    o[3] = plus(c, e);
    o[4] = minus(c, e);
    o[5] = y[3];
  }
};
struct WeightGradRow {  // G^T: 6 -> 3
  static constexpr int in = 6, out = 3;
  static HWY_INLINE void apply(const Vector* m, Vector* o) {
    const Vector s1 = plus(m[1], m[2]), d1 = minus(m[2], m[1]), s2 = plus(m[3], m[4]),
                 d2 = minus(m[3], m[4]);
    o[0] = plus_times(plus_times(times(0.25f, m[0]), -1.0f / 6, s1), 1.0f / 24, s2);
    o[1] = plus_times(times(1.0f / 6, d1), 1.0f / 12, d2);
    o[2] = plus_times(m[5], 1.0f / 6, minus(s2, s1));
  }
};

// Applies Row to the rows and then to the columns of a square: get(i, j) reads element (i, j),
// put(i, j, v) takes a result.
template <class Row, class Get, class Put>
HWY_INLINE void transform(Get&& get, Put&& put) {
  // columns of the half-way result, so that the second pass reads them in a row
  Vector half[Row::out][Row::in];
#pragma GCC unroll 6
  for (int i = 0; i < Row::in; ++i) {
    Vector row[Row::in], done[Row::out];
#pragma GCC unroll 6
    for (int j = 0; j < Row::in; ++j) row[j] = get(i, j);
    Row::apply(row, done);
#pragma GCC unroll 6
    for (int j = 0; j < Row::out; ++j) half[j][i] = done[j];
  }
#pragma GCC unroll 6
  for (int j = 0; j < Row::out; ++j) {
    Vector done[Row::out];
    Row::apply(half[j], done);
#pragma GCC unroll 6
    for (int i = 0; i < Row::out; ++i) put(i, j, done[i]);
  }
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
