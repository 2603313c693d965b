// See kernel_sets.h.
#include "gossamer/core/cpu/kernel_sets.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "gossamer/core/error.h"

namespace gossamer::cpu {
namespace {

std::atomic<std::int64_t> disabled{0};

std::string name_of(std::int64_t target) {
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return "avx512";
#endif
  std::string name = hwy::TargetName(target);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// Highway 1.0 forgets what was disabled when it is asked for what the CPU can run, so this is said
// again afterwards.
std::vector<std::int64_t> targets() {
  hwy::DisableTargets(0);
  const auto found = hwy::SupportedAndGeneratedTargets();  // the best first
  hwy::DisableTargets(disabled);
  return found;
}

}  // namespace

std::vector<std::string> kernel_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : targets()) names.push_back(name_of(target));
  return names;
}

std::string kernel_set() {
  for (const std::int64_t target : targets())
    if ((target & disabled) == 0) return name_of(target);
  return "none";
}

void limit_kernels(const std::string& name) {
  std::int64_t better = 0;
  std::string names;
  bool found = name.empty();
  for (const std::int64_t target : targets()) {
    found |= name_of(target) == name;
    if (!found) better |= target;
    names += (names.empty() ? "" : ", ") + name_of(target);
  }
  check<ConfigError>(found, "\"", name, "\" is no set of kernels that this CPU can run; it has ",
                     names);
  disabled = better;
  hwy::DisableTargets(better);
}

}  // namespace gossamer::cpu
