// The activations that may follow a product: y = f(x), and d = dy/dx as a function of x, or with
// from_output as a function of y: then the input is not kept.
#pragma once

#include "gossamer/core/ops.h"
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
// Its gradient is a function of its result.
inline bool from_output(Activation activation) {
  return activation == Activation::none || activation == Activation::relu;
}

}  // namespace gossamer
