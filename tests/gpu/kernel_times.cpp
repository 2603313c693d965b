// libkernel_times.so: lists the kernels of the graphs that a program launches, when it ends. The
// driver loads it into any program (CUPTI's documentation, "Activity API", injection):
//     CUDA_INJECTION64_PATH=…/libkernel_times.so gossamer bench step --graph …
// CUPTI comes with the toolkit, with Nsight and with PyTorch; it must be where the loader looks.
#include "gpu/kernel_times.h"

#include <cstddef>
#include <mutex>
#include <type_traits>

#include <cupti.h>
#include <dlfcn.h>

namespace {

using Kernel = CUpti_ActivityKernel10;
// A library of CUDA 12 writes this one.
static_assert(offsetof(Kernel, start) == offsetof(CUpti_ActivityKernel9, start) &&
              offsetof(Kernel, end) == offsetof(CUpti_ActivityKernel9, end) &&
              offsetof(Kernel, name) == offsetof(CUpti_ActivityKernel9, name) &&
              offsetof(Kernel, graphNodeId) == offsetof(CUpti_ActivityKernel9, graphNodeId));

constexpr std::size_t kBuffer = std::size_t{8} << 20;

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) on_buffers = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
} cupti;
std::mutex mutex;
gossamer::testing::KernelTimes& times() {
  static auto* const all = new gossamer::testing::KernelTimes;  // until after the last callback
  return *all;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = *buffer ? kBuffer : 0;
  *records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  const std::scoped_lock lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cupti.next(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* const k = reinterpret_cast<const Kernel*>(record);
    times().add(k->name, k->graphNodeId, static_cast<double>(k->end - k->start) / 1e3);
  }
  std::free(buffer);
}

void finish() {
  cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::scoped_lock lock(mutex);
  times().print(stdout);
}

int fail(const char* why) {
  std::fprintf(stderr, "libkernel_times.so: %s; no kernels are listed\n", why);
  return 0;
}

}  // namespace

// Called by the driver, once.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  void* library = dlopen("libcupti.so.13", RTLD_NOW);
  if (!library) library = dlopen("libcupti.so.12", RTLD_NOW);
  if (!library) return fail(dlerror());
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  if (!take(cupti.on_buffers, "cuptiActivityRegisterCallbacks") ||
      !take(cupti.enable, "cuptiActivityEnable") ||
      !take(cupti.next, "cuptiActivityGetNextRecord") ||
      !take(cupti.flush, "cuptiActivityFlushAll"))
    return fail(dlerror());
  if (cupti.on_buffers(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
    return fail("CUPTI does not start");
  std::atexit(finish);
  return 1;
}
