// What the program says about the machine, and how its waiting threads behave there.
#include "gossamer/apps/machine.h"

#include <nlohmann/json.hpp>
#include <thread>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/cpu/kernel_sets.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Machine : public ProgramTest {};

TEST(MachineFacts, BusyTimeIsAllButIdleTimeOfTheProcessorsAskedFor) {
  const std::string stat =
      "cpu  1 1 1 1 1 1 1 1 1 1\n"
      "cpu0 100 20 3 5000 70 4 5 6 9 9\n"
      "cpu1 1 0 0 9 9 0 0 0 0 0\n"
      "cpu12 1000 0 0 0 0 0 0 0 0 0\n"
      "intr 77\n";
  EXPECT_DOUBLE_EQ(busy_seconds(stat, {0}, 100), 1.38);
  EXPECT_DOUBLE_EQ(busy_seconds(stat, {0, 1}, 100), 1.39);
  EXPECT_DOUBLE_EQ(busy_seconds("", {0}, 100), 0);
}

TEST(MachineFacts, FewTakenCoresAreNotWorthAWord) {
  EXPECT_EQ(taken_text(0.4, 2), "");
  EXPECT_EQ(taken_text(1.25, 2), "1.2 of 2 cores are taken by other programs");
}

TEST(MachineFacts, OtherProgramsAreCountedAndThisOneIsNot) {
  const int n = cores();
  std::vector<pid_t> loops;
  for (int i = 0; i < n; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      volatile bool on = true;
      while (on) {
      }
    }
    loops.push_back(pid);
  }
  EXPECT_GT(CoreWatch().taken(), 0.25 * n) << "a busy program on each core";
  for (const pid_t pid : loops) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_GT(peak_resident_bytes(), 1 << 20);
  EXPECT_GT(memory_gib(), 0.1);
}

TEST_F(Machine, TheCodeForTheCpuCanBeHeldToALesserSet) {
  const auto kernels = [](const Result& r) {
    return nlohmann::json::parse(r.out).at("kernels").get<std::string>();
  };
  const std::string best = cpu::kernel_sets().front(), least = cpu::kernel_sets().back();
  EXPECT_EQ(kernels(run({"doctor", "--json"})), best);
  EXPECT_EQ(kernels(run({"doctor", "--json"}, {"GOSSAMER_KERNELS=" + least})), least);
  EXPECT_EQ(kernels(run({"doctor", "--json", "--isa", least})), least);
  EXPECT_EQ(kernels(run({"doctor", "--json", "--isa", best}, {"GOSSAMER_KERNELS=" + least})), least)
      << "of two limits the lower holds";
  const Result step = run({"bench", "step", "--model", "resnet8-cifar", "--batch", "2", "--steps",
                           "1", "--warmup", "0", "--dtype", "auto", "--isa", least, "--json"});
  EXPECT_EQ(kernels(step), least);
  EXPECT_EQ(nlohmann::json::parse(step.out).at("dtype"), "f32") << "none of them has bf16";

  const Result wrong = run({"doctor"}, {"GOSSAMER_KERNELS=sse9"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("GOSSAMER_KERNELS: \"sse9\""), std::string::npos) << wrong.err;
  const std::string other = best == "neon" ? "avx2" : "neon";
  for (const Result& r :
       {run({"doctor", "--isa", other}), run({"train", "--dry-run", "train.isa=" + other})}) {
    EXPECT_EQ(r.code, 2) << r.out;
    EXPECT_NE(r.err.find("it has " + best), std::string::npos) << r.err;
  }
}

TEST_F(Machine, AWorkerAloneSpinsBrieflyUnlessTheUserSaysOtherwise) {
  const auto spin_count = [&](const std::vector<std::string>& environment) {
    start(tiny({"train.epochs=500"}), environment);
    const auto pids = workers_at_work(1);
    EXPECT_EQ(pids.size(), 1u);
    const std::string all = read_text("/proc/" + std::to_string(pids.at(0)) + "/environ");
    kill(running, SIGKILL);
    wait();
    fs::remove_all(folder / "runs");
    const std::size_t at = all.find("GOMP_SPINCOUNT=");
    return at == std::string::npos ? "" : std::string(all.c_str() + at + 15);
  };
  const char* before = std::getenv("OMP_WAIT_POLICY");
  const std::string kept = before ? before : "";
  unsetenv("OMP_WAIT_POLICY");
  EXPECT_EQ(spin_count({}), "2000");
  EXPECT_EQ(spin_count({"GOMP_SPINCOUNT=7"}), "7");
  EXPECT_EQ(spin_count({"OMP_WAIT_POLICY=active"}), "");
  if (before) setenv("OMP_WAIT_POLICY", kept.c_str(), 1);
}

}  // namespace
}  // namespace gossamer::apps
