// Shared by the tests of fused passes: inputs that are the same on every machine, and comparisons.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/fused.h"
#include "gossamer/core/random.h"

namespace gossamer::testing {

inline Tensor normal(Shape shape, std::uint64_t seed, DType type = DType::f32, float mean = 0,
                     float deviation = 1) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = mean + deviation * rng.normal();
  return type == DType::f32 ? t : t.to(type);
}
inline Tensor as_f32(const Tensor& t) { return t.dtype() == DType::f32 ? t : t.to(DType::f32); }
// How far a value of this type is rounded, relative to itself.
inline double rounding(DType type) {
  return type == DType::bf16 ? 1.0 / 128 : type == DType::f16 ? 1.0 / 1024 : 1e-5;
}

// |got - want| <= relative |want| + absolute, everywhere; a NaN must meet a NaN.
inline void expect_close(const Tensor& got_any, const Tensor& want_any, double relative,
                         double absolute, const std::string& what) {
  ASSERT_EQ(got_any.shape(), want_any.shape()) << what;
  const Tensor got = as_f32(got_any), want = as_f32(want_any);
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i) {
    const auto a = static_cast<double>(got.span<float>()[i]),
               b = static_cast<double>(want.span<float>()[i]);
    if (std::isnan(a) && std::isnan(b)) continue;
    ASSERT_NEAR(a, b, relative * std::fabs(b) + absolute)
        << what << " at " << i << " of " << want.numel();
  }
}
inline void expect_same_bits(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  const auto *a = static_cast<const std::uint8_t*>(got.data()),
             *b = static_cast<const std::uint8_t*>(want.data());
  for (std::size_t i = 0; i < got.bytes(); ++i)
    ASSERT_EQ(a[i], b[i]) << what << ": byte " << i << " of " << got.bytes();
}

}  // namespace gossamer::testing
