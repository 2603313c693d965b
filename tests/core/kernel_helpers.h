// Shared by the tests of fused passes: where they run, inputs that are the same on every machine,
// and comparisons.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/random.h"
#include "support/stream_of.h"

namespace gossamer::testing {

// The passes there: a GPU's, or the same emulated on the CPU.
inline Backend& passes(Device device = {}) {
  return device.is_cpu() ? backend("cuda_emulated") : backend(device);
}

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

// |got - want| <= relative |want| + absolute (+ slack, f32 of the same shape), everywhere; a NaN
// must meet a NaN.
inline void expect_close(const Tensor& got_any, const Tensor& want_any, double relative,
                         double absolute, const std::string& what, const Tensor& slack = {}) {
  ASSERT_EQ(got_any.shape(), want_any.shape()) << what;
  const Tensor got = as_f32(got_any), want = as_f32(want_any);
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i) {
    const auto a = static_cast<double>(got.span<float>()[i]),
               b = static_cast<double>(want.span<float>()[i]);
    if (std::isnan(a) && std::isnan(b)) continue;
    const double more = slack.defined() ? static_cast<double>(slack.span<float>()[i]) : 0;
    ASSERT_NEAR(a, b, relative * std::fabs(b) + absolute + more)
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

inline Tensor on(Device device, const Tensor& t) { return device.is_cpu() ? t : t.to(device); }

// A batch norm of random numbers, with its statistics.
struct NormOn : Norm {
  static constexpr float kEps = 1e-5f;
  i64 cols;
  NormOn(const Shape& shape, DType type, Device d = {}, std::uint64_t seed = 1, float offset = 0.5f,
         float deviation = 2)
      : cols(shape[-1]) {
    const auto vector = [&] { return Tensor::empty({cols}, DType::f32, d); };
    x = on(d, normal(shape, seed, type, offset, deviation));
    scale = on(d, normal({cols}, seed + 1, DType::f32, 1, 0.5f));
    shift = on(d, normal({cols}, seed + 2));
    for (Tensor* t : {&mean, &inv_std, &a, &b}) *t = vector();
    passes(d).norm_statistics(*this, kEps, {});
  }
};
inline NormGrads grads_like(const Norm& n) {
  const auto like = [](const Tensor& t) { return Tensor::empty(t.shape(), t.dtype(), t.device()); };
  return {like(n.x), like(n.scale), like(n.shift)};
}

}  // namespace gossamer::testing
