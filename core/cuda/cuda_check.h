// Vendor calls that throw. Internal to the CUDA files: it shows the vendor's types.
#pragma once

#include <cuda_runtime.h>

#include "gossamer/core/cuda.h"

namespace gossamer::cuda {

[[noreturn]] void fail_call(cudaError_t status, const char* call, Device device);
inline void check_call(cudaError_t status, const char* call, Device device) {
  if (status != cudaSuccess) [[unlikely]]
    fail_call(status, call, device);
}

// makes it the calling thread's; DeviceError if there is no such device
void select(Device);
// A thread that has none yet takes the one that this process selected first. Before calls that any
// device would do for: they make a context on the thread's device, which would be device 0, and
// with eight workers a machine eight contexts there.
void select_any();
// The device of a stream of ours, by its handle: cudaStreamGetDevice exists since CUDA 12.8 only.
Device device_of(void* stream);
void count_wait();

}  // namespace gossamer::cuda
