// Element types, and conversions of the two 16-bit floating types, which g++ vectorises and nvcc
// compiles.
// Threads: any.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

#ifdef __CUDACC__
#define GOSSAMER_HD __host__ __device__
#else
#define GOSSAMER_HD
#endif

namespace gossamer {

enum class DType : std::uint8_t { f32, bf16, f16, u8, i32, i64 };

using i64 = std::int64_t;

// Conversions round to nearest even; NaN stays NaN. (The builtin, not std::bit_cast: nvcc accepts
// it in device code.)

// Upper half of an f32: sign, 8 exponent bits, 7 of mantissa.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  GOSSAMER_HD explicit bf16(float value) {
    const auto u = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits =
        static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  }
  GOSSAMER_HD explicit operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE half precision: sign, 5 exponent bits, 10 of mantissa. Finer than bf16, but nothing above
// 65504 (infinity from 65520 on), and steps of 2^-24 below 2^-14. The bits are those of the CPU's
// F16C instructions, without a branch, so that loops vectorise.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  GOSSAMER_HD explicit f16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t size = u & 0x7fffffffu;
    // the exponent counts from 15, not from 127
    const std::uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    // digits end at 2^-24
    const std::uint32_t small =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, size) + 0.5f) - 0x3f000000u;
    std::uint32_t half = size < 0x38800000u ? small : normal;
    half = size >= 0x477ff000u ? 0x7c00u : half;
    half = size > 0x7f800000u ? 0x7e00u | (size >> 13 & 0x3ffu) : half;
    bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | half);
#endif
  }
  GOSSAMER_HD explicit operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t size = bits & 0x7fffu;
    const auto small = __builtin_bit_cast(
        std::uint32_t, static_cast<float>(static_cast<std::int32_t>(size)) * 0x1p-24f);
    std::uint32_t u = size < 0x400u ? small : (size << 13) + 0x38000000u;
    u = size >= 0x7c00u ? (size << 13) | (size > 0x7c00u ? 0x7fc00000u : 0x7f800000u) : u;
    return __builtin_bit_cast(float, (bits & 0x8000u) << 16 | u);
#endif
  }
};

std::size_t size_of(DType);  // bytes of one element
const char* name_of(DType);  // "f32", "bf16", …
bool is_floating(DType);
std::ostream& operator<<(std::ostream&, DType);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};

}  // namespace gossamer
