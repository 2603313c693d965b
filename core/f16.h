// IEEE half precision as a wire format: 11 significant bits, so finer than bf16 for weights, but nothing above 65504.
#pragma once

#include "gossamer/core/dtype.h"

namespace gossamer {

struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  GOSSAMER_HD explicit f16(float value) {               // to nearest even; too large becomes infinity
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = u >> 16 & 0x8000u, size = u & 0x7fffffffu;
    std::uint32_t half = 0;
    if (size > 0x7f800000u) half = 0x7fffu;             // NaN
    else if (size >= 0x477ff000u) half = 0x7c00u;       // from 65520 on
    else if (size >= 0x38800000u) half = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    else if (size > 0x33000000u) {                      // below 2^-14: steps of 2^-24; up to 2^-25 becomes zero
      const std::uint32_t digits = (size & 0x7fffffu) | 0x800000u, shift = 126 - (size >> 23), rest = digits & ((1u << shift) - 1), tie = 1u << (shift - 1);
      half = digits >> shift;
      half += rest > tie || (rest == tie && (half & 1u)) ? 1 : 0;
    }
    bits = static_cast<std::uint16_t>(sign | half);
#endif
  }
  GOSSAMER_HD explicit operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const std::uint32_t sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu;
    if (size >= 0x7c00u) return __builtin_bit_cast(float, sign | 0x7f800000u | (size & 0x3ffu) << 13);
    if (size >= 0x400u) return __builtin_bit_cast(float, sign | ((size << 13) + 0x38000000u));
    const float small = static_cast<float>(size) * 0x1p-24f;
    return sign ? -small : small;
#endif
  }
};

template <> struct DTypeOf<f16> { static constexpr DType value = DType::f16; };

}  // namespace gossamer
