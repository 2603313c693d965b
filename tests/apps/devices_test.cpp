// Names of devices, and the file of measured plans.
#include "gossamer/apps/train/devices.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/device_names.h"
#include "gossamer/core/error.h"
#include "support/error_of.h"

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

TEST(Devices, ARecordOnAGpuNeedsADeterministicRun) {
  for (const char* key : {"run.record=record", "run.replay=record"}) {
    Config c = load_config({key});
    check_device_keys(c, false);
    EXPECT_THAT(error_of<ConfigError>([&] { check_device_keys(c, true); }),
                ::testing::HasSubstr("train.deterministic=true"));
    c.train.deterministic = true;
    check_device_keys(c, true);
  }
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

// A CONFIG.toml speaks of the device of a training.
TEST(Devices, ThatOfACommandIsWhatItsCommandLineSays) {
  Config c;
  c.train.device = "cuda:7";
  c.train.tf32 = true;
  c.origin["train.device"] = c.origin["train.tf32"] = "runs/t/config.toml";
  EXPECT_EQ(command_device(c), device_of("auto"));
  EXPECT_FALSE(c.train.tf32);
  if (cuda::device_count() > 0) return;  // a GPU is configured once
  EXPECT_EQ(c.train.device, "cpu");
  c.train.device = "cuda:7";
  c.origin["train.device"] = "command line";
  EXPECT_THROW(command_device(c), DeviceError);
  c.train.device = "cpu";
  c.train.tf32 = true;
  c.origin["train.tf32"] = "command line";
  EXPECT_THROW(command_device(c), ConfigError);
}

class DeviceOption : public ProgramTest {};

TEST_F(DeviceOption, AGpuThatIsNotThereIsAnErrorThatSaysWhy) {
  using ::testing::HasSubstr;
  if (cuda::device_count() > 7) GTEST_SKIP() << "this machine has eight GPUs";
  const std::vector<std::vector<std::string>> commands{
      {"eval", "m.safetensors"},
      {"classify", "m.safetensors", "a.png"},
      {"generate", "m.safetensors"},
      {"translate", "m.safetensors"},
      {"bench", "inference", "--model", "resnet8-cifar"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--device", "cuda:7"});
    const Result r = run(command);
    EXPECT_EQ(r.code, 4) << command[0] << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr("device cuda:7: "));
    if (cuda::device_count() == 0) {
      EXPECT_THAT(r.err, HasSubstr(cuda::why_none()));
    }
    command.back() = "gpu";
    EXPECT_THAT(run(command).err, HasSubstr("device \"gpu\" is unknown; use auto, cpu, cuda"));
  }
}

TEST_F(DeviceOption, CommandsComputeOnTheDeviceThatIsNamed) {
  using ::testing::HasSubstr;
  ASSERT_EQ(run(tiny({"train.epochs=2 steps", "train.dtype=bf16", "eval.every=0"})).code, 0);
  const std::string model = "runs/t/model.safetensors";
  const Result eval = run({"eval", model, "data.val=s/val", "--device", "cpu"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  const Result classify = run({"classify", model, "s/val", "--top", "1", "--device", "cpu"});
  EXPECT_EQ(classify.code, 0) << classify.err;
  // one of a run without device=cpu in its configuration
  const Result average = run(
      {"average", model, model, "data.train=s/train", "--out", "a.safetensors", "--device", "cpu"});
  EXPECT_EQ(average.code, 0) << average.err;
  const Result missing = run({"average", model, model, "data.train=s/train", "--out",
                              "b.safetensors", "--device", "cuda:7"});
  EXPECT_EQ(missing.code, 4) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("device cuda:7: "));
}

}  // namespace
}  // namespace gossamer::apps
