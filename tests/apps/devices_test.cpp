// Names of devices, and the file of measured plans.
#include "gossamer/apps/train/devices.h"

#include <cstdlib>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gossamer::apps
