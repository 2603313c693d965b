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

// Makes the device the calling thread's. DeviceError if there is no such device.
void select(Device);
// If the thread has no device yet, it gets the one that this process selected first. For calls that
// any device would do for: without this they make a context on device 0, and eight workers of one
// machine make eight contexts there.
void select_any();
// The device of a stream of ours, by its handle: cudaStreamGetDevice exists since CUDA 12.8 only.
Device device_of(void* stream);
void count_wait();

}  // namespace gossamer::cuda
