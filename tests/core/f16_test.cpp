// IEEE half precision: every bit pattern, every boundary between two, and the CPU's own
// instructions.
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gossamer/core/tensor.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions only

namespace gossamer {
namespace {

f16 pattern(int bits) {
  f16 h;
  h.bits = static_cast<std::uint16_t>(bits);
  return h;
}

TEST(F16, EveryPatternIsTheNumberItsFieldsSay) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const int sign = bits >> 15, exponent = bits >> 10 & 31, digits = bits & 1023;
    const auto got = static_cast<float>(pattern(bits));
    ASSERT_EQ(std::signbit(got), sign == 1) << bits;
    if (exponent == 31 && digits) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_EQ(f16(got).bits, bits | 0x200) << "a quiet NaN with the same digits";
      continue;
    }
    const double size = exponent == 31 ? std::numeric_limits<double>::infinity()
                        : exponent     ? std::ldexp(1024 + digits, exponent - 25)
                                       : std::ldexp(digits, -24);
    ASSERT_EQ(static_cast<double>(got), sign ? -size : size) << bits;
    ASSERT_EQ(f16(got).bits, bits);
  }
}

TEST(F16, RoundsToNearestEvenBetweenAllNeighbours) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    // exact in f32
    const auto a = static_cast<float>(pattern(bits)), b = static_cast<float>(pattern(bits + 1)),
               middle = a + (b - a) / 2;
    ASSERT_EQ(f16(middle).bits, bits % 2 ? bits + 1 : bits) << bits;
    ASSERT_EQ(f16(std::nextafterf(middle, 1e9f)).bits, bits + 1);
    ASSERT_EQ(f16(std::nextafterf(middle, -1.0f)).bits, bits);
    ASSERT_EQ(f16(-middle).bits, 0x8000 | (bits % 2 ? bits + 1 : bits)) << bits;
  }
  EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(f16(std::nextafterf(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(1e30f).bits, 0x7c00);
  EXPECT_EQ(f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(f16(0x1p-25f).bits, 0) << "a tie with zero";
  EXPECT_EQ(f16(std::nextafterf(0x1p-25f, 1.0f)).bits, 1);
  EXPECT_EQ(f16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(std::bit_cast<float>(0x7f800001u)))))
      << "a NaN must not be rounded to infinity";
}

TEST(F16, TensorsOfItConvertFillAndTellTheirItem) {
  const Tensor x = Tensor::from(std::vector<float>{1.0f / 3, 70000, -0x1p-24f, 0x1p-26f, 2049}, {5})
                       .to(DType::f16);
  EXPECT_EQ(x.bytes(), 10u);
  const Tensor back = x.to(DType::f32);
  EXPECT_EQ(back.as<float>()[0], 0.333251953125f);
  EXPECT_TRUE(std::isinf(back.as<float>()[1]));
  EXPECT_EQ(back.as<float>()[2], -0x1p-24f);
  EXPECT_EQ(back.as<float>()[3], 0);
  EXPECT_EQ(back.as<float>()[4], 2048) << "a tie goes to the even neighbour";
  EXPECT_EQ(Tensor::full({1}, 0.1f, DType::f16).item(), 0.0999755859375f);
  EXPECT_EQ(x.to(DType::bf16).to(DType::f32).as<float>()[4], 2048);
  EXPECT_EQ(x.as<f16>()[0].bits, 0x3555);
}

}  // namespace
}  // namespace gossamer
