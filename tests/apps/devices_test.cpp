// Names of devices, and the file of measured plans.
#include "gossamer/apps/train/devices.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "gossamer/apps/version.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

TEST(Devices, AreNamedAndTheirPlansHaveAPlace) {
  EXPECT_TRUE(device_of("cpu").is_cpu());
  if (cuda::device_count() == 0) {
    EXPECT_TRUE(device_of("auto").is_cpu());
    for (const char* name : {"cuda", "cuda:1"}) EXPECT_THROW(device_of(name), DeviceError) << name;
  }
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", ""})
    EXPECT_THROW(check_device_name(name), ConfigError) << name;
  EXPECT_EQ(plan_file("none"), "");
  EXPECT_EQ(plan_file("here/plans.json"), "here/plans.json");
  const char* const home = std::getenv("HOME");
  const std::string before = home ? home : "";
  setenv("HOME", "/of/someone", 1);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(plan_file("auto"), "/of/someone/.cache/gossamer/plans.json");
  setenv("XDG_CACHE_HOME", "/there", 1);
  EXPECT_EQ(plan_file("auto"), "/there/gossamer/plans.json");
  unsetenv("XDG_CACHE_HOME");
  if (home) setenv("HOME", before.c_str(), 1);
}

TEST(Devices, TheTypeAutoIsBf16WhereThereAreInstructionsForIt) {
#if defined(__x86_64__)
  const bool has = __builtin_cpu_supports("avx512bf16") && cpu::kernel_set() == "avx512" &&
                   onednn_version() != "none";
  EXPECT_EQ(cpu::has_bf16(), has);
#endif
  EXPECT_EQ(compute_type("auto"), cpu::has_bf16() ? DType::bf16 : DType::f32);
  EXPECT_EQ(compute_type("auto", true), DType::bf16);
  EXPECT_EQ(compute_type("f16"), DType::f16);
  Config c;
  c.train.device = "cpu";
  c.train.dtype = "auto";
  settle_cpu(c);
  EXPECT_EQ(c.train.dtype, cpu::has_bf16() ? "bf16" : "f32");
  EXPECT_TRUE(c.notes.empty()) << c.notes[0];

  cpu::limit_kernels(cpu::kernel_sets().back());  // without bf16
  EXPECT_FALSE(cpu::has_bf16());
  c.train.dtype = "auto";
  settle_cpu(c);
  EXPECT_EQ(c.train.dtype, "f32");
  EXPECT_TRUE(c.notes.empty()) << c.notes[0];
  c.train.dtype = "bf16";
  settle_cpu(c);
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_EQ(c.notes[0], "train.dtype=bf16: this CPU has no instructions for bf16; f32 is faster");
  cpu::limit_kernels("");
}

}  // namespace
}  // namespace gossamer::apps
