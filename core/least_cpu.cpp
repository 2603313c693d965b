// Compiled for any CPU (CMakeLists.txt): on one that is too old, this must still run.
#include "gossamer/core/least_cpu.h"

#include "gossamer/core/error.h"

namespace gossamer::cpu {

const char* cpu_is_too_old() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool enough = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (!enough)
    return "this CPU lacks AVX2 or FMA, which Gossamer needs: most of Intel's CPUs have them since "
           "Haswell (2013), AMD's since Excavator (2015); use another machine";
#endif
  return nullptr;
}

void check_cpu() {
  if (const char* text = cpu_is_too_old()) throw DeviceError(text);
}

}  // namespace gossamer::cpu
