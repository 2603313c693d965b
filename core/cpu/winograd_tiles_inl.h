// The small matrices of Winograd's convolutions as straight-line code on vectors of channels, and
// their transposes:
//   y = A^T [ (G w G^T) * (B^T d B) ] A        d: inputs, w: 3 x 3 weights, y: 4 x 4 results
//   dw = G^T [ (A dy A^T) * (B^T d B) ] G      the adjoint with respect to w
// Stride 1 is F(4, 3) with 6 x 6 inputs. With stride 2 a result's outer taps stand on inputs of one
// parity, the middle tap on those of the other: F(4, 2) on 5 of 9 inputs in a row, and 4 products
// that share their weight. 81 multiplications, instead of 144, have 36 matrices of weights.
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

// Each takes and gives one row. Those that read or write images say how many pixels lie between
// two tiles, and how many a tile begins before its place.
struct InputRow {  // B^T: 6 -> 6
  static constexpr int in = 6, out = 6, step = 4, border = 1;
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
  static constexpr int in = 6, out = 4, step = 4;
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
  static constexpr int in = 4, out = 6, step = 4, border = 0;
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

// B^T of F(4, 2): o = (2, -1, -2, 1, 0; 0, -2, -1, 1, 0; 0, 2, -3, 1, 0; 0, -1, 0, 1, 0;
// 0, 2, -1, -2, 1) d, for the points 0, 1, -1, 2, infinity
HWY_INLINE void two_tap_inputs(Vector d0, Vector d1, Vector d2, Vector d3, Vector d4, Vector* o) {
  const Vector a = minus(d3, d1), b = minus(d3, d2);
  o[0] = plus_times(a, 2, minus(d0, d2));
  o[1] = plus_times(b, -2, d1);
  o[2] = plus_times(b, 2, minus(d1, d2));
  o[3] = a;
  o[4] = plus_times(minus(d4, d2), -2, a);
}
// A^T: o = (1, 1, 1, 1, 0; 0, 1, -1, 2, 0; 0, 1, 1, 4, 0; 0, 1, -1, 8, 1) m
HWY_INLINE void two_tap_outputs(const Vector* m, Vector* o) {
  const Vector s = plus(m[1], m[2]), d = minus(m[1], m[2]);
  o[0] = plus(plus(m[0], s), m[3]);
  o[1] = plus_times(d, 2, m[3]);
  o[2] = plus_times(s, 4, m[3]);
  o[3] = plus(plus_times(d, 8, m[3]), m[4]);
}

struct StridedInputRow {
  static constexpr int in = 9, out = 9, step = 8, border = 1;
  static HWY_INLINE void apply(const Vector* d, Vector* o) {
    two_tap_inputs(d[0], d[2], d[4], d[6], d[8], o);
    for (int i = 0; i < 4; ++i) o[5 + i] = d[2 * i + 1];
  }
};
struct StridedOutputRow {
  static constexpr int in = 9, out = 4, step = 4;
  static HWY_INLINE void apply(const Vector* m, Vector* o) {
    two_tap_outputs(m, o);
    for (int i = 0; i < 4; ++i) o[i] = plus(o[i], m[5 + i]);
  }
};
struct StridedWeightRow {
  static constexpr int in = 3, out = 6;
  static HWY_INLINE void apply(const Vector* w, Vector* o) {
    o[0] = times(0.5f, w[0]);
    o[1] = times(-0.5f, plus(w[0], w[2]));
    o[2] = times(1.0f / 6, minus(w[2], w[0]));
    o[3] = plus_times(times(1.0f / 6, w[0]), 1.0f / 3, w[2]);
    o[4] = w[2];
    o[5] = w[1];
  }
};
struct StridedOutputGradRow {
  static constexpr int in = 4, out = 9, step = 4, border = 0;
  static HWY_INLINE void apply(const Vector* y, Vector* o) {
    const Vector a = plus(y[0], y[2]), b = plus(y[1], y[3]);
    o[0] = y[0];
    o[1] = plus(a, b);
    o[2] = minus(a, b);
    o[3] = plus_times(plus_times(y[0], 4, y[2]), 2, plus_times(y[1], 4, y[3]));
    o[4] = y[3];
    for (int i = 0; i < 4; ++i) o[5 + i] = y[i];
  }
};
struct StridedWeightGradRow {
  static constexpr int in = 6, out = 3;
  static HWY_INLINE void apply(const Vector* m, Vector* o) {
    const Vector a = plus_times(m[4], -0.5f, m[1]);
    o[0] = plus_times(times(0.5f, minus(m[0], m[1])), 1.0f / 6, minus(m[3], m[2]));
    o[1] = m[5];
    o[2] = plus_times(plus_times(a, 1.0f / 6, m[2]), 1.0f / 3, m[3]);
  }
};
// The gradient of the inputs: of one parity, two taps; of the other, one.
struct StridedBackInputRow {
  static constexpr int in = 5, out = 9, step = 4, border = 0;
  static HWY_INLINE void apply(const Vector* d, Vector* o) {
    two_tap_inputs(d[0], d[1], d[2], d[3], d[4], o);
    for (int i = 0; i < 4; ++i) o[5 + i] = d[i];
  }
};
struct StridedBackOutputRow {
  static constexpr int in = 9, out = 8, step = 8;
  static HWY_INLINE void apply(const Vector* m, Vector* o) {
    Vector odd[4];
    two_tap_outputs(m, odd);
    for (int i = 0; i < 4; ++i) o[2 * i] = m[5 + i], o[2 * i + 1] = odd[i];
  }
};

// The rows of a convolution and its gradients.
struct Unstrided {
  static constexpr int side = 6;  // of the square of products
  using Input = InputRow;
  using Output = OutputRow;
  using BackInput = InputRow;
  using BackOutput = OutputRow;
  using OutputGrad = OutputGradRow;
  using Weight = WeightRow;
  using WeightGrad = WeightGradRow;
};
struct Strided {
  static constexpr int side = 9;
  using Input = StridedInputRow;
  using Output = StridedOutputRow;
  using BackInput = StridedBackInputRow;
  using BackOutput = StridedBackOutputRow;
  using OutputGrad = StridedOutputGradRow;
  using Weight = StridedWeightRow;
  using WeightGrad = StridedWeightGradRow;
};

// Applies Row to the rows and then to the columns of a square: get_row(i, row) reads a row of it,
// put_column(j, column) takes one of the result.
template <class Row, class GetRow, class PutColumn>
HWY_INLINE void transform(GetRow&& get_row, PutColumn&& put_column) {
  // the intermediate result by columns, so that the second pass reads contiguous memory
  Vector half[Row::out][Row::in];
#pragma GCC unroll 9
  for (int i = 0; i < Row::in; ++i) {
    Vector row[Row::in], done[Row::out];
    get_row(i, row);
    Row::apply(row, done);
#pragma GCC unroll 9
    for (int j = 0; j < Row::out; ++j) half[j][i] = done[j];
  }
#pragma GCC unroll 9
  for (int j = 0; j < Row::out; ++j) {
    Vector done[Row::out];
    Row::apply(half[j], done);
    put_column(j, done);
  }
}

// Keeps the compiler from computing the addresses of all rows beforehand: they do not fit the
// registers.
template <class T>
HWY_INLINE void keep_here(T*& p) {
  asm("" : "+r"(p));
}
// Vectors `step` numbers apart.
template <int n, class T>
HWY_INLINE void load_each(const T* from, i64 step, Vector* to) {
  keep_here(from);
#pragma GCC unroll 9
  for (int k = 0; k < n; ++k) to[k] = load(Floats(), from + k * step);
}
template <int n>
HWY_INLINE void store_each(const Vector* from, float* to, i64 step) {
  keep_here(to);
#pragma GCC unroll 9
  for (int k = 0; k < n; ++k) store(Floats(), from[k], to + k * step);
}

}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
