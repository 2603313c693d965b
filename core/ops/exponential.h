// exp, erf and the sigmoid in f32 without a branch or a call, so that loops over them vectorise.
// The same formulas on a CPU and on a GPU.
#pragma once

#include <cstdint>

#include "gossamer/core/dtype.h"

namespace gossamer {

// e^x to 1 unit in the last place; 0 below -87.3, infinity above 88.7; NaN stays NaN.
// x = n log 2 + r, and a polynomial for e^r, |r| <= log(2)/2.
GOSSAMER_HD inline float exp_of(float x) {
  constexpr float shift = 0x1.8p23f;  // adding it rounds to an integer, which its last bits hold
  const float shifted = x * 1.44269504f + shift, n = shifted - shift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  const auto power = __builtin_bit_cast(std::uint32_t, shifted) << 23;
  float y = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, p) + power);
  y = x < -87.3f ? 0.0f : y;
  y = x > 88.7f ? __builtin_inff() : y;
  return x == x ? y : x;
}

// erf(x) to 4e-7 of itself: a quotient of polynomials (Eigen's and XLA's), +-1 beyond |x| = 4.
GOSSAMER_HD inline float erf_of(float x) {
  float t = x < -4 ? -4.0f : x;
  t = x > 4 ? 4.0f : t;
  const float s = t * t;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s - 2.10102402082508e-06f;
  p = p * s - 5.69250639462346e-05f;
  p = p * s - 7.34990630326855e-04f;
  p = p * s - 2.95459980854025e-03f;
  p = p * s - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s - 2.13374055278905e-04f;
  q = q * s - 1.68282697438203e-03f;
  q = q * s - 7.37332916720468e-03f;
  q = q * s - 1.42647390514189e-02f;
  return t * p / q;
}

GOSSAMER_HD inline float sigmoid_of(float a) { return 1.0f / (1.0f + exp_of(-a)); }

}  // namespace gossamer
