// Sixteen floats at a time, with GCC's vector extension: one AVX-512 register where there is one, several smaller ones elsewhere,
// so kernels are written once and stay correct on any CPU. Memory may hold f32 or bf16; arithmetic is f32.
#pragma once

#include <cstring>

#include "gossamer/core/dtype.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace gossamer::simd {

using f32x16 = float __attribute__((vector_size(64)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));

// load<V>(p), store(p, v), positive(v, x), relu(v): V is f32x16, or float for the columns that do not fill a vector.
template <class V> constexpr i64 lanes = sizeof(V) / sizeof(float);

template <class V, class T> [[gnu::always_inline]] inline V load(const T* p) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return static_cast<float>(*p);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  } else {
    u16x16 half;
    std::memcpy(&half, p, sizeof half);
    return reinterpret_cast<f32x16>(__builtin_convertvector(half, u32x16) << 16);
  }
}

[[gnu::always_inline]] inline u16x16 to_bf16(f32x16 v) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<u16x16>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(v)));
#else
  const u32x16 u = reinterpret_cast<u32x16>(v);
  const u32x16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const u32x16 nan = (u >> 16) | 0x40u;
  return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded, u16x16);
#endif
}

template <class V, class T> [[gnu::always_inline]] inline void store(T* p, V v) {
  if constexpr (sizeof(V) == sizeof(float)) {
    *p = T(v);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    std::memcpy(p, &v, sizeof v);
  } else {
    const u16x16 half = to_bf16(v);
    std::memcpy(static_cast<void*>(p), &half, sizeof half);
  }
}

// x where v > 0, else 0.
template <class V> [[gnu::always_inline]] inline V positive(V v, V x) {
  return v > 0.0f ? x : V{};
}
// max(v, 0); NaN stays NaN, so that a diverged model shows it.
template <class V> [[gnu::always_inline]] inline V relu(V v) {
  return v <= 0.0f ? V{} : v;
}

}  // namespace gossamer::simd
