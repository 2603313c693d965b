// See kernel_sets.h.
#include "gossamer/core/cpu/kernel_sets.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#ifdef __linux__
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <hwy/highway.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif
#include <hwy/targets.h>

#include "gossamer/core/cpu/onednn_calls.h"
#include "gossamer/core/error.h"

namespace gossamer::cpu {
namespace {

// Asked once: Highway 1.0 forgets what was disabled when it is asked for what the CPU can run.
const std::vector<std::int64_t>& targets() {
  static const auto& found = *new auto(hwy::SupportedAndGeneratedTargets());  // the best first
  return found;
}

std::atomic<std::size_t> limit{0};  // index of the best target that may be used

std::string name_of(std::int64_t target) {
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return "avx512";
#endif
  std::string name = hwy::TargetName(target);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::size_t index_of(const std::string& name) {
  std::string names;
  for (std::size_t i = 0; i < kernel_sets().size(); ++i) {
    if (kernel_sets()[i] == name) return i;
    names += (i == 0 ? "" : ", ") + kernel_sets()[i];
  }
  fail<ConfigError>("\"", name, "\" is no set of kernels that this CPU can run; it has ", names);
}

void limit_to(std::size_t index) {
  std::int64_t better = 0;
  for (std::size_t i = 0; i < index; ++i) better |= targets()[i];
  limit = index;
  hwy::DisableTargets(better);
}

}  // namespace

const std::vector<std::string>& kernel_sets() {
  static const auto& names = *new auto([] {
    std::vector<std::string> all;
    for (const std::int64_t target : targets()) all.push_back(name_of(target));
    return all;
  }());
  return names;
}

const std::string& kernel_set() { return kernel_sets().at(limit); }

void limit_kernels(const std::string& name) { limit_to(name.empty() ? 0 : index_of(name)); }

void limit_cpu(const std::string& name) {
  const std::size_t index = index_of(name);
  if (index <= limit) return;
  if (name == "avx2") onednn_limit_to_avx2();
  limit_to(index);
}

std::string ran_from(Kernel kernel) {
  const std::int64_t target = kernels_ran.at(static_cast<std::size_t>(kernel));
  return target == 0 ? "" : name_of(target);
}

void forget_runs() {
  for (auto& target : kernels_ran) target = 0;
}

bool multiplies_bf16_pairs() {
#if HWY_ARCH_X86
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
  constexpr unsigned long with_bf16 = 1ul << 14;  // HWCAP2_BF16
  static const bool has = (getauxval(AT_HWCAP2) & with_bf16) != 0;
  return has;
#else
  return false;
#endif
}

#if HWY_ARCH_X86 && defined(__linux__)
namespace {
// The state of tiles is so large that a process has to ask for it.
bool get_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned with_tiles = 1u << 22 | 1u << 24;  // AMX-BF16, AMX-TILE
  constexpr long request = 0x1023, tile_data = 18;      // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & with_tiles) == with_tiles &&
         syscall(SYS_arch_prctl, request, tile_data) == 0;
}
}  // namespace
bool multiplies_bf16_tiles() {
  static const bool has = multiplies_bf16_pairs() && get_tiles();
  return has;
}
#else
bool multiplies_bf16_tiles() { return false; }
#endif

// AVX2 alone has no such instruction; all sets of ARM may use it.
bool products_have_bf16() { return kernel_set() != "avx2" && multiplies_bf16_pairs(); }
bool has_bf16() { return products_have_bf16() && onednn_has_bf16(); }

}  // namespace gossamer::cpu
