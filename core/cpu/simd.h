// Sixteen floats at a time, with GCC's vector extension: one AVX-512 register where there is one,
// several smaller ones elsewhere, so kernels are written once and stay correct on any CPU. Memory
// may hold f32, bf16 or f16; arithmetic is f32.
#pragma once

#include <cstring>
#include <type_traits>

#include "gossamer/core/dtype.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace gossamer::simd {

using f32x16 = float __attribute__((vector_size(64)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));

// AVX-512 with a mask of ones: the plain forms warn of an uninitialised variable inside g++ 12.
[[gnu::always_inline]] inline f32x16 from_f16(const f16* p) {
  f32x16 v;
#if defined(__AVX512F__)
  v = reinterpret_cast<f32x16>(
      _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__F16C__)
  for (int i = 0; i < 2; ++i)
    _mm256_storeu_ps(reinterpret_cast<float*>(&v) + 8 * i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8 * i))));
#else
  for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(p[i]);
#endif
  return v;
}
[[gnu::always_inline]] inline u16x16 to_f16(f32x16 v) {
#if defined(__AVX512F__)
  return reinterpret_cast<u16x16>(
      _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  u16x16 half;
  for (int i = 0; i < 2; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&half) + i,
                     _mm256_cvtps_ph(_mm256_loadu_ps(reinterpret_cast<const float*>(&v) + 8 * i),
                                     _MM_FROUND_TO_NEAREST_INT));
  return half;
#else
  u16x16 half;
  for (int i = 0; i < 16; ++i) half[i] = f16(v[i]).bits;
  return half;
#endif
}

// load<V>(p), store(p, v), positive(v, x), relu(v): V is f32x16, or float for the columns that do
// not fill a vector.
template <class V>
constexpr i64 lanes = sizeof(V) / sizeof(float);

template <class V, class T>
[[gnu::always_inline]] inline V load(const T* p) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return static_cast<float>(*p);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  } else if constexpr (std::is_same_v<T, f16>) {
    return from_f16(p);
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

template <class V, class T>
[[gnu::always_inline]] inline void store(T* p, V v) {
  if constexpr (sizeof(V) == sizeof(float)) {
    *p = T(v);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    std::memcpy(p, &v, sizeof v);
  } else {
    u16x16 half;
    if constexpr (std::is_same_v<T, f16>)
      half = to_f16(v);
    else
      half = to_bf16(v);
    std::memcpy(static_cast<void*>(p), &half, sizeof half);
  }
}

// x where v > 0, else 0.
template <class V>
[[gnu::always_inline]] inline V positive(V v, V x) {
  return v > 0.0f ? x : V{};
}
// max(v, 0); NaN stays NaN, so that a diverged model shows it.
template <class V>
[[gnu::always_inline]] inline V relu(V v) {
  return v <= 0.0f ? V{} : v;
}

}  // namespace gossamer::simd
