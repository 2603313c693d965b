// Registers, stack and shared memory of the kernels that a training step spends its time in, as
// ptxas reported them when this program was built, and the blocks that fit on a multiprocessor with
// them. No GPU is needed. A change of a kernel that costs a block must change this table. Read are
// the GPUs that the build is for; `ninja cuda_resources` compiles the kernels for all others of the
// table, which takes half an hour on two cores.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include <cxxabi.h>
#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/dtype.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

// What a kernel takes: registers of a thread, bytes of stack and of spilled registers of a thread,
// bytes of shared memory of a block.
struct Resources {
  int registers = 0, stack = 0, spilled = 0, shared = 0;
};

// "void gossamer::detail::block_kernel<gossamer::kernels::NormSums<gossamer::bf16, true> >(…)"
// becomes "NormSums<bf16, true>".
std::string short_name(const std::string& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  name = std::regex_replace(name, std::regex(R"(\(anonymous namespace\)::|\b\w+::)"), "");
  name = std::regex_replace(name, std::regex(R"( +>)"), ">");
  static const std::regex launched(R"(^void \w+_kernel<(.*)>\((?!.*>\().*$)");
  std::smatch m;
  return std::regex_match(name, m, launched) ? m[1].str() : name;
}

// By GPU ("sm_90") and kernel.
using Report = std::map<std::string, std::map<std::string, Resources>>;

Report read_reports(const fs::path& folder) {
  Report all;
  const std::regex entry(R"(entry function '(\S+)' for '(\w+)')"),
      frame(R"((\d+) bytes stack frame, (\d+) bytes spill stores)"),
      used(R"(Used (\d+) registers)"), shared(R"((\d+) bytes smem)");
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    // norm.resources, norm.sm_120.resources
    const std::string name = file.path().filename().string();
    const fs::path source = name.substr(0, name.find('.')) + ".cpp";
    // A build folder may hold reports of sources that are gone.
    if (file.path().extension() != ".resources" ||
        !(fs::exists(fs::path(GOSSAMER_SOURCE_DIR "/core/ops") / source) ||
          fs::exists(fs::path(GOSSAMER_SOURCE_DIR "/core/cuda/kernels") / source)))
      continue;
    std::ifstream in(file.path());
    Resources* now = nullptr;
    std::smatch m;
    for (std::string line; std::getline(in, line);) {
      if (std::regex_search(line, m, entry)) now = &all[m[2]][short_name(m[1])];
      if (!now) continue;
      if (std::regex_search(line, m, frame))
        now->stack = std::stoi(m[1]), now->spilled = std::stoi(m[2]);
      if (std::regex_search(line, m, used)) now->registers = std::stoi(m[1]);
      if (std::regex_search(line, m, shared)) now->shared = std::stoi(m[1]);
    }
  }
  return all;
}

// CUDA Programming Guide, "Compute Capabilities".
struct Gpu {
  const char *arch, *name;
  int multiprocessors, threads, shared;  // of a multiprocessor: threads, bytes
  // that a kernel of sums may take. Its 384 blocks are the same on all GPUs, so that results are.
  double waves;
};
// Three blocks of 80 registers fit on a multiprocessor of an A100: 324 at a time.
constexpr Gpu kGpus[]{{"sm_80", "A100", 108, 2048, 164 * 1024, 1.19},
                      {"sm_89", "L40S", 142, 1536, 100 * 1024, 1},
                      {"sm_90", "H100", 132, 2048, 228 * 1024, 1},
                      {"sm_100", "B200", 148, 2048, 228 * 1024, 1},
                      {"sm_120", "RTX 5090", 170, 1536, 100 * 1024, 1}};
constexpr const Gpu &kA100 = kGpus[0], &kH100 = kGpus[2];

// Blocks of 256 threads that fit on a multiprocessor. Registers are given out to a warp in units of
// 256, shared memory in units of 128 bytes beside 1 KB that the system takes.
int blocks_that_fit(const Resources& r, const Gpu& gpu) {
  constexpr int kThreads = 256, kWarps = kThreads / 32;
  const int of_a_warp = (r.registers * 32 + 255) / 256 * 256;
  const int by_registers = 65536 / of_a_warp / kWarps, by_threads = gpu.threads / kThreads,
            by_shared = gpu.shared / ((r.shared + 127) / 128 * 128 + 1024);
  return std::min({by_registers, by_threads, by_shared});
}

struct Limits {
  int registers, blocks;  // at most; at least
};
struct Row {
  const char* kernel;
  Limits limits[5];  // of kGpus
  // blocks of a launch at batch 256 of ResNet-50; 0: depends on the layer
  int launched;
};
// Blocks of a kernel of sums, one wave on an H100; and of a pass over 25.56 million parameters.
constexpr int kSums = 384, kUpdate = 25'557'056 / 8 / 256;
const Row kTable[] = {
    {"NormSums<bf16, true>", {{64, 4}, {64, 4}, {64, 4}, {64, 4}, {64, 4}}, kSums},
    {"NormBackSums<bf16, (Mask)0, true, false>",
     {{64, 4}, {56, 4}, {64, 4}, {64, 4}, {56, 4}},
     kSums},
    {"NormBackSums<bf16, (Mask)1, true, false>",
     {{80, 3}, {72, 3}, {80, 3}, {80, 3}, {72, 3}},
     kSums},
    {"NormBackSums<bf16, (Mask)2, true, false>",
     {{64, 4}, {64, 4}, {64, 4}, {64, 4}, {64, 4}},
     kSums},
    {"NormBackSums<bf16, (Mask)2, true, true>",
     {{80, 3}, {80, 3}, {80, 3}, {80, 3}, {80, 3}},
     kSums},
    {"NormPoolBackSums<bf16, true>", {{96, 2}, {96, 2}, {104, 2}, {112, 2}, {128, 2}}, 256},
    {"JoinParts<2, FinishStatistics<bf16>>", {{32, 8}, {40, 6}, {32, 8}, {40, 6}, {40, 6}}, 0},
    {"JoinParts<2, FinishBack<false>>", {{32, 8}, {40, 6}, {32, 8}, {40, 6}, {40, 6}}, 0},
    {"JoinParts<3, FinishBack<true>>", {{40, 6}, {40, 6}, {48, 5}, {48, 5}, {80, 3}}, 0},
    {"NormApply<bf16, true, (Join)0>", {{64, 4}, {64, 4}, {64, 4}, {80, 3}, {64, 4}}, 2048},
    {"NormApply<bf16, true, (Join)1>", {{64, 4}, {64, 4}, {64, 4}, {80, 3}, {80, 3}}, 2048},
    {"NormApply<bf16, true, (Join)2>", {{80, 3}, {80, 3}, {80, 3}, {96, 2}, {96, 2}}, 2048},
    {"NormBackApply<bf16, (Mask)0, true, false>",
     {{64, 4}, {64, 4}, {64, 4}, {64, 4}, {64, 4}},
     2048},
    {"NormBackApply<bf16, (Mask)1, true, false>",
     {{80, 3}, {80, 3}, {80, 3}, {96, 2}, {96, 2}},
     2048},
    {"NormBackApply<bf16, (Mask)2, true, false>",
     {{80, 3}, {72, 3}, {80, 3}, {72, 3}, {72, 3}},
     2048},
    {"NormBackApply<bf16, (Mask)2, true, true>",
     {{80, 3}, {80, 3}, {96, 2}, {96, 2}, {96, 2}},
     2048},
    {"NormPoolBackApply<bf16, true>", {{104, 2}, {104, 2}, {120, 2}, {120, 2}, {128, 2}}, 2048},
    {"NormPool<bf16, true>", {{64, 4}, {64, 4}, {72, 3}, {64, 4}, {64, 4}}, 4096},
    {"PoolForward<bf16, true, true>", {{48, 5}, {40, 6}, {48, 5}, {64, 4}, {64, 4}}, 4096},
    {"PoolBackward<bf16, true, true>", {{48, 5}, {40, 6}, {40, 6}, {40, 6}, {48, 5}}, 4096},
    {"InputTile<bf16>", {{48, 5}, {48, 5}, {48, 5}, {48, 5}, {48, 5}}, 256 * 14 * 14},
    {"StemInput<bf16>", {{32, 8}, {32, 6}, {32, 8}, {32, 8}, {40, 6}}, 256 * 112 * 112 / 128},
    {"GlobalAverage<bf16, true>", {{48, 5}, {40, 6}, {40, 6}, {40, 6}, {40, 6}}, 256},
    {"SoftmaxLoss<bf16, bf16, true>", {{32, 8}, {32, 6}, {32, 8}, {32, 8}, {40, 6}}, 256},
    {"SoftmaxLoss<float, bf16, true>", {{32, 8}, {32, 6}, {32, 8}, {32, 8}, {32, 6}}, 256},
    {"SoftmaxBack<bf16, true>", {{32, 8}, {40, 6}, {32, 8}, {32, 8}, {40, 6}}, 8192},
    {"LayerNormForward<bf16, 64, EveryRow>", {{56, 4}, {56, 4}, {56, 4}, {48, 5}, {48, 5}}, 0},
    {"LayerNormBackward<bf16, 32, EveryRow>",
     {{128, 2}, {120, 2}, {128, 2}, {112, 2}, {112, 2}},
     0},
    {"LayerNormBackward<bf16, 64, EveryRow>",
     {{128, 2}, {120, 2}, {128, 2}, {112, 2}, {120, 2}},
     0},
    {"LayerNormBackward<bf16, 128, EveryRow>",
     {{128, 2}, {128, 2}, {128, 2}, {120, 2}, {128, 2}},
     0},
    {"LayerNormBackward<bf16, 256, EveryRow>",
     {{128, 2}, {128, 2}, {128, 2}, {120, 2}, {120, 2}},
     0},
    {"ColumnSums<ActivationBack<GeluTanh, bf16>, true>",
     {{80, 3}, {64, 4}, {80, 3}, {64, 4}, {64, 4}},
     kSums},
    {"UpdateEight<SgdUpdate, false, float>",
     {{56, 4}, {56, 4}, {56, 4}, {64, 4}, {56, 4}},
     kUpdate},
    {"UpdateEight<SgdUpdate, true, float>", {{64, 4}, {64, 4}, {64, 4}, {72, 3}, {72, 3}}, kUpdate},
    {"UpdateEight<SgdUpdate, true, f16>", {{72, 3}, {72, 3}, {72, 3}, {72, 3}, {72, 3}}, kUpdate},
    {"UpdateEight<AdamUpdate<false>, false, float>",
     {{88, 2}, {88, 2}, {88, 2}, {88, 2}, {88, 2}},
     kUpdate},
    {"UpdateEight<AdamUpdate<false>, true, float>",
     {{96, 2}, {96, 2}, {96, 2}, {96, 2}, {96, 2}},
     kUpdate},
    {"TakeSnapshot<8, true, float>", {{32, 8}, {32, 6}, {32, 8}, {32, 8}, {40, 6}}, kUpdate},
    {"TakeSnapshot<8, true, f16>", {{32, 8}, {32, 6}, {32, 8}, {32, 8}, {40, 6}}, kUpdate},
    {"ApplyDifference<8, true, float>", {{40, 6}, {40, 6}, {40, 6}, {48, 5}, {48, 5}}, kUpdate},
};

class KernelResources : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
    report_ = read_reports(fs::path(GOSSAMER_PROGRAM).parent_path() / "nvcc");
    if (report_.empty()) GTEST_SKIP() << "no reports of ptxas beside " << GOSSAMER_PROGRAM;
  }
  Report report_;
};

TEST_F(KernelResources, OfTheHotKernelsStayWithinTheTable) {
  if (const int made_with = cuda::versions().runtime; made_with / 10 != 1300)
    GTEST_SKIP() << "the table is that of CUDA 13.0's compiler, this build's is " << made_with;
  for (std::size_t g = 0; g < std::size(kGpus); ++g) {
    const Gpu& gpu = kGpus[g];
    if (!report_.contains(gpu.arch)) continue;
    const auto& kernels = report_.at(gpu.arch);
    std::printf("%s: registers, blocks on a multiprocessor, waves\n", gpu.name);
    for (const Row& row : kTable) {
      const auto it = kernels.find(row.kernel);
      ASSERT_NE(it, kernels.end()) << "there is no kernel " << row.kernel << " for " << gpu.arch;
      const Resources& r = it->second;
      const int blocks = blocks_that_fit(r, gpu);
      const double waves = static_cast<double>(row.launched) / (blocks * gpu.multiprocessors);
      std::printf("  %-64s %4d %2d %8.2f\n", row.kernel, r.registers, blocks, waves);
      EXPECT_LE(r.registers, row.limits[g].registers) << row.kernel << " for " << gpu.arch;
      EXPECT_GE(blocks, row.limits[g].blocks) << row.kernel << " for " << gpu.arch;
      EXPECT_EQ(r.stack, 0) << row.kernel << " for " << gpu.arch
                            << " keeps something in local memory";
      if (row.launched == kSums) {
        EXPECT_LE(waves, gpu.waves) << row.kernel << " for " << gpu.arch
                                    << ": another wave of blocks would be almost empty";
      }
    }
  }
}

TEST_F(KernelResources, NoKernelSpillsRegisters) {
  std::size_t kernels = 0;
  for (const auto& [arch, of] : report_)
    for (const auto& [name, r] : of) {
      ++kernels;
      EXPECT_EQ(r.spilled, 0) << name << " for " << arch;
    }
  std::printf("%zu kernels of %zu GPUs\n", kernels, report_.size());
}

TEST(Occupancy, IsThatOfTheProgrammingGuide) {
  EXPECT_EQ(blocks_that_fit({32, 0, 0, 0}, kH100), 8);
  EXPECT_EQ(blocks_that_fit({64, 0, 0, 16384}, kA100), 4);
  EXPECT_EQ(blocks_that_fit({65, 0, 0, 0}, kH100), 3);
  EXPECT_EQ(blocks_that_fit({80, 0, 0, 24576}, kH100), 3);
  EXPECT_EQ(blocks_that_fit({81, 0, 0, 0}, kH100), 2);
  EXPECT_EQ(blocks_that_fit({16, 0, 0, 48 * 1024}, kA100), 3);
}

}  // namespace
}  // namespace gossamer
