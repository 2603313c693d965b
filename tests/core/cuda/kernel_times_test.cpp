// What the list of a step's kernels (tests/gpu/kernel_times.h) says of those that ran.
#include "gpu/kernel_times.h"

#include <gtest/gtest.h>

namespace gossamer::testing {
namespace {

TEST(KernelTimes, AreThoseOfAStepAndTheLongestComeFirst) {
  KernelTimes times;
  times.add("plan", 0, 1000);  // measured before the step
  for (int step = 0; step < 4; ++step) {
    times.add("norm", 1, 2);
    times.add("product", 2, 9 + 2 * (step % 2));
    times.add("norm", 3, 4);
  }
  EXPECT_EQ(times.steps(), 4);
  const auto rows = times.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "product");
  EXPECT_DOUBLE_EQ(rows[0].calls, 1);
  EXPECT_DOUBLE_EQ(rows[0].microseconds, 10);
  EXPECT_EQ(rows[1].name, "norm");
  EXPECT_DOUBLE_EQ(rows[1].calls, 2);
  EXPECT_DOUBLE_EQ(rows[1].microseconds, 6);
}

TEST(KernelTimes, NameKernelsWithoutTheirParametersAndNamespaces) {
  EXPECT_EQ(name_of_kernel("_ZN8gossamer6detail12block_kernelINS_7kernels8NormSumsIfLb1EEEEEvT_"),
            "block_kernel<gossamer::kernels::NormSums<float, true> >");
  EXPECT_EQ(name_of_kernel("sm90_xmma_fprop_implicit_gemm"), "sm90_xmma_fprop_implicit_gemm");
}

}  // namespace
}  // namespace gossamer::testing
