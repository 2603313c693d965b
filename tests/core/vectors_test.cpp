// Vectors of the CPU's kernels, on every set of kernels that this CPU can run: what they load and
// store in half precision is what f16 and bf16 say.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/vectors_test.cpp"
#include <hwy/foreach_target.h>
//
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/vectors_inl.h"
#include "gossamer/core/error.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void widen_all(const T* from, float* to, i64 n) {
  for (i64 i = 0; i < n; i += kLanes) store(Floats(), load(Floats(), from + i), to + i);
}
template <class T>
void narrow_all(const float* from, T* to, i64 n) {
  for (i64 i = 0; i < n; i += kLanes) store(Floats(), load(Floats(), from + i), to + i);
}

void widen_f16(const f16* from, float* to, i64 n) { widen_all(from, to, n); }
void widen_bf16(const bf16* from, float* to, i64 n) { widen_all(from, to, n); }
void narrow_f16(const float* from, f16* to, i64 n) { narrow_all(from, to, n); }
void narrow_bf16(const float* from, bf16* to, i64 n) { narrow_all(from, to, n); }
void rectify(const float* from, float* to, i64 n) {
  const Floats d;
  for (i64 i = 0; i < n; i += kLanes) store(d, relu(d, load(d, from + i)), to + i);
}
i64 lanes() { return kLanes; }

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {
namespace {

HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(rectify);
HWY_EXPORT(lanes);

class Vectors : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { limit_kernels(GetParam()); }
  void TearDown() override { limit_kernels(""); }
};

template <class T, class Widen>
void expect_widened(const Widen& widen) {
  T half[16];
  float wide[16];
  for (int bits = 0; bits < 0x10000; bits += 16) {
    for (int i = 0; i < 16; ++i) half[i].bits = static_cast<std::uint16_t>(bits + i);
    widen(half, wide, 16);
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                std::bit_cast<std::uint32_t>(static_cast<float>(half[i])))
          << bits + i;
  }
}

template <class T, class Narrow>
void expect_narrowed(const Narrow& narrow) {
  float wide[16];
  T half[16];
  // all exponents, and digits all over
  for (std::uint64_t u = 0; u < std::uint64_t{1} << 32; u += 16 * 61) {
    for (int i = 0; i < 16; ++i)
      wide[i] = std::bit_cast<float>(static_cast<std::uint32_t>(u + 61 * static_cast<unsigned>(i)));
    narrow(wide, half, 16);
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(half[i].bits, T(wide[i]).bits) << std::hexfloat << wide[i];
  }
}

TEST_P(Vectors, LoadAndStoreHalfPrecisionToTheBit) {
  HWY_DYNAMIC_DISPATCH(lanes)();  // the first call of all chooses the set
  expect_widened<f16>(HWY_DYNAMIC_DISPATCH(widen_f16));
  expect_widened<bf16>(HWY_DYNAMIC_DISPATCH(widen_bf16));
  expect_narrowed<f16>(HWY_DYNAMIC_DISPATCH(narrow_f16));
  expect_narrowed<bf16>(HWY_DYNAMIC_DISPATCH(narrow_bf16));
}

TEST_P(Vectors, AReluKeepsNaN) {
  HWY_DYNAMIC_DISPATCH(lanes)();
  float x[16] = {-1, 0, 2, NAN, INFINITY, -INFINITY, -0.0f}, y[16];
  HWY_DYNAMIC_DISPATCH(rectify)(x, y, 16);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_TRUE(std::isinf(y[4]));
  EXPECT_EQ(y[5], 0);
  EXPECT_EQ(y[6], 0);
}

TEST_P(Vectors, AreThoseOfTheSetThatWasChosen) {
  EXPECT_EQ(kernel_set(), GetParam());
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(lanes)(), GetParam() == "avx512" ? 16
                                           : GetParam() == "avx2" ? 8
                                                                  : 4);
  EXPECT_EQ(kernel_set(), GetParam()) << "also when it was asked for before";
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(lanes)(), GetParam() == "avx512" ? 16
                                           : GetParam() == "avx2" ? 8
                                                                  : 4);
}

INSTANTIATE_TEST_SUITE_P(All, Vectors, ::testing::ValuesIn(kernel_sets()),
                         [](const auto& set) { return set.param; });

TEST(KernelSets, AreTheBestThatThisCpuCanRun) {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd");
  EXPECT_EQ(kernel_set(), avx512 ? "avx512" : "avx2");
#endif
  EXPECT_EQ(kernel_set(), kernel_sets().at(0));
  try {
    limit_kernels("sse9");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("it has " + kernel_sets()[0]), std::string::npos)
        << e.what();
  }
  EXPECT_EQ(kernel_set(), kernel_sets().at(0)) << "an error changes nothing";
}

}  // namespace
}  // namespace gossamer::cpu
#endif
