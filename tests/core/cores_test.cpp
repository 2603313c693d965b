// How many CPUs a process may use, on made-up machines.
#include "gossamer/core/cores.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace gossamer {
namespace {

namespace fs = std::filesystem;

class CoresTest : public testing::Test {
 protected:
  void SetUp() override {
    if (usable_cores(root.string()).count < 2) GTEST_SKIP() << "one CPU cannot be limited";
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = root.string() + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void v2(const std::string& group, const std::string& seen_from = "/") const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "25 1 0:22 / /proc rw - proc proc rw\n31 23 0:28 " + seen_from +
              " /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n");
  }
  int count() const { return usable_cores(root.string()).count; }

  fs::path root = fs::path(testing::TempDir()) / ("cores" + std::to_string(getpid()));
};

TEST_F(CoresTest, WithoutGroupsTheyAreThoseOfTheAffinity) {
  const Cores all = usable_cores(root.string());
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(all.count, CPU_COUNT(&set));
  EXPECT_GE(all.of, all.count);
  EXPECT_EQ(all.limit.empty(), all.of == all.count);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Cores limited = usable_cores(root.string());
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(limited.count, 1);
  EXPECT_EQ(limited.limit, "its affinity");
}

TEST_F(CoresTest, ALimitOfAGroupHoldsForAllBelowIt) {
  const int all = count();
  v2("/user/job/step");
  write("/sys/fs/cgroup/user/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(count(), all);
  write("/sys/fs/cgroup/user/cpu.max", "80000 100000\n");
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(usable_cores(root.string()).limit, "its control group: 0.8 CPUs' time");
  write("/sys/fs/cgroup/user/cpu.max", std::to_string(50000 * (2 * all - 1)) + " 100000\n");
  EXPECT_EQ(count(), all) << "rounded up";
  write("/sys/fs/cgroup/user/job/step/cpu.max", "5000 100000\n");
  EXPECT_EQ(count(), 1) << "at least one";
}

TEST_F(CoresTest, AContainerSeesItsOwnGroupAsTheTop) {
  v2("/docker/4f2", "/docker/4f2");
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(count(), 1);
  v2("/");
  EXPECT_EQ(count(), 1);
}

TEST_F(CoresTest, Version1HasTwoFiles) {
  const int all = count();
  write("/proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/box\n0::/\n");
  write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(count(), all);
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(count(), 1);
}

TEST_F(CoresTest, WhatIsNotUnderstoodLimitsNothing) {
  const int all = count();
  for (const std::string text : {"", "x", "0 0", "-5 100", "1e999 1", "100000"}) {
    v2("/../..//a");
    write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(count(), all) << text;
  }
  write("/proc/self/mountinfo", "- cgroup2\n1 2 3 4 5 -\n - - -\ncgroup cpu - cgroup\n");
  write("/proc/self/cgroup", ":::\n\n0\n1:cpu\n");
  EXPECT_EQ(count(), all);
}

}  // namespace
}  // namespace gossamer
