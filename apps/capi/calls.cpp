// See calls.h.
#include "gossamer/apps/capi/calls.h"

#include <cstdint>
#include <exception>

#include "gossamer/apps/cuda_module.h"
#include "gossamer/core/least_cpu.h"

namespace gossamer::capi {
namespace {

std::string& why() {
  static auto& it = *new std::string;  // never destroyed, as threads may still call
  return it;
}

const gsm_api& choose() noexcept {
  const gsm_api& own = *gsm_get_api(GSM_API_VERSION);
  // Each of its functions says so; the rest of this one may need instructions that are missing.
  if (cpu::cpu_is_too_old()) return own;
  try {
    const auto get = reinterpret_cast<const gsm_api* (*)(std::uint32_t)>(
        apps::cuda_module_function(apps::kCudaApi, why()));
    const gsm_api* const with_cuda = get ? get(GSM_API_VERSION) : nullptr;
    if (with_cuda && with_cuda->struct_size == sizeof(gsm_api)) return *with_cuda;
    if (get) why() = "libgossamer-cuda.so.0 has other functions; install both from one release";
  } catch (const std::exception& e) {
    why() = e.what();
  }
  return own;
}

}  // namespace

const gsm_api& calls() noexcept {
  static const gsm_api& chosen = choose();
  return chosen;
}

const std::string& why_no_module() { return why(); }

}  // namespace gossamer::capi
