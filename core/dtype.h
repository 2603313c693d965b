// Element types, and bfloat16 arithmetic that g++ vectorises and nvcc compiles.
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

enum class DType : std::uint8_t { f32, bf16, f16, u8, i32, i64 };   // f16: GPU only

using i64 = std::int64_t;

// Upper half of an f32 (sign, 8 exponent bits, 7 of mantissa); conversion rounds to nearest even.
struct bf16 {   // the builtin, not std::bit_cast: nvcc accepts it in device code
  std::uint16_t bits = 0;
  bf16() = default;
  GOSSAMER_HD explicit bf16(float value) {
    const auto u = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);   // NaN stays NaN
  }
  GOSSAMER_HD explicit operator float() const { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16); }
};

std::size_t size_of(DType);              // bytes of one element
const char* name_of(DType);              // "f32", "bf16", …
bool is_floating(DType);
std::ostream& operator<<(std::ostream&, DType);

template <class T> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::f32; };
template <> struct DTypeOf<bf16> { static constexpr DType value = DType::bf16; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::i64; };

}  // namespace gossamer
