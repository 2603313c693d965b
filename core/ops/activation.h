// The activations that may follow a product: y = f(x), and d = dy/dx as a function of x, or with
// from_output as a function of y: then the input is not kept.
#pragma once

#include "gossamer/core/ops.h"
#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/exponential.h"

namespace gossamer {

struct Identity {
  static constexpr bool from_output = true;
  GOSSAMER_HD static float f(float x) { return x; }
  GOSSAMER_HD static float d(float) { return 1.0f; }
};
struct Relu {
  static constexpr bool from_output = true;
  // in this order a NaN stays NaN
  GOSSAMER_HD static float f(float x) { return 0.0f > x ? 0.0f : x; }
  GOSSAMER_HD static float d(float y) { return y > 0.0f ? 1.0f : 0.0f; }
};
struct Gelu {  // x Phi(x), Phi the normal distribution
  static constexpr bool from_output = false;
  GOSSAMER_HD static float f(float x) { return 0.5f * x * (1.0f + erf_of(x * 0.70710678f)); }
  GOSSAMER_HD static float d(float x) {
    return 0.5f * (1.0f + erf_of(x * 0.70710678f)) + x * 0.39894228f * exp_of(-0.5f * x * x);
  }
};
// x (1 + tanh(u))/2 = x s(2u), with s(v) = 1/(1 + e^-v) and 2u = x (a + b x^2). Beyond |x| = 10 it
// is 0 or x, whatever x^2 is.
struct GeluTanh {
  static constexpr bool from_output = false;
  static constexpr float a = 1.59576912f, b = 0.07135481627f;  // 2 sqrt(2/pi), 0.044715 a
  GOSSAMER_HD static float square(float x) { return x * x < 100.0f ? x * x : 100.0f; }
  GOSSAMER_HD static float sigmoid(float x) {
    return 1.0f / (1.0f + exp_of(-x * (a + b * square(x))));
  }
  GOSSAMER_HD static float f(float x) { return x * sigmoid(x); }
  GOSSAMER_HD static float d(float x) {
    const float s = sigmoid(x);
    return s + x * (s * (1.0f - s)) * (a + 3.0f * b * square(x));
  }
};

// dz = g f'(at), which is also the term of the bias's gradient: a formula of sum_columns.h.
template <class Op, class T>
struct ActivationBack {
  const T *g, *at;
  T* dz;
  i64 cols;
  GOSSAMER_HD float operator()(i64 i) const {
    const float v = load(g, i) * Op::d(load(at, i));
    store(dz, i, v);
    return v;
  }
  GOSSAMER_HD float operator()(i64 r, i64 c) const { return (*this)(r * cols + c); }
  struct Eights {
    Eight g, at;
  };
  GOSSAMER_HD Eights read(i64 r, i64 c) const {
    const i64 i = r * cols + c;
    return {load_eight<true>(g + i, 8), load_eight<true>(at + i, 8)};
  }
  GOSSAMER_HD Eight terms(i64 r, i64 c, const Eights& e) const {
    Eight v;
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) v.v[j] = e.g.v[j] * Op::d(e.at.v[j]);
    store_eight<true>(dz + r * cols + c, 8, v);
    return v;
  }
  bool in_eights() const { return cols % 8 == 0 && aligned16(g) && aligned16(at) && aligned16(dz); }
};

// The same without sums, in groups of eight: call i is group i of the matrix.
template <class Op, class T>
struct ActivationBackInEights {
  ActivationBack<Op, T> back;
  GOSSAMER_HD void operator()(i64 i) const { back.terms(0, 8 * i, back.read(0, 8 * i)); }
};

// Calls f.template operator()<Op>() with the struct of `activation`.
template <class F>
void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::none:
      return f.template operator()<Identity>();
    case Activation::relu:
      return f.template operator()<Relu>();
    case Activation::gelu:
      return f.template operator()<Gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<GeluTanh>();
  }
}
// Whether its gradient is a function of its result.
inline bool from_output(Activation activation) {
  return activation == Activation::none || activation == Activation::relu;
}

}  // namespace gossamer
