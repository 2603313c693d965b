// for_each and row reductions: the only place that knows how a formula becomes a loop or a CUDA launch.
// Formulas are functor structs, not lambdas: nvcc hides host-device lambdas from the host optimiser (15x slower, measured).
#pragma once

#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

namespace gossamer {

#ifdef __CUDACC__
namespace detail {
template <class F> __global__ void for_each_kernel(i64 n, F f) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < n; i += static_cast<i64>(gridDim.x) * blockDim.x) f(i);
}
}  // namespace detail
void* current_stream(Device);            // cudaStream_t of the calling thread (cuda backend)
#endif

// Runs f(i) for all i in [0, n), in any order; the iterations must not depend on each other (the loop is vectorised).
// grain: least elements worth a thread of its own.
template <class F> void for_each(Device device, i64 n, F f, i64 grain = 1 << 15) {
  if (n <= 0) return;
  if (device.is_cpu()) {
    parallel_for(n, grain, [&](i64 begin, i64 end) {
      F local = f;                        // a copy the optimiser can keep in registers
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
      for (i64 i = begin; i < end; ++i) local(i);
    });
    return;
  }
#ifdef __CUDACC__
  const int threads = 256;
  const i64 blocks = (n + threads - 1) / threads;
  detail::for_each_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), threads, 0, static_cast<cudaStream_t>(current_stream(device))>>>(n, f);
  const cudaError_t status = cudaGetLastError();
  check<DeviceError>(status == cudaSuccess, "kernel launch on ", device.index, ": ", cudaGetErrorString(status));
#else
  fail<DeviceError>("this build has no CUDA kernels: configure with -DGOSSAMER_CUDA=ON");
#endif
}

// Loads and stores of any floating type as float.
template <class T> GOSSAMER_HD inline float load(const T* p, i64 i) { return static_cast<float>(p[i]); }
template <class T> GOSSAMER_HD inline void store(T* p, i64 i, float v) { p[i] = T(v); }

// Calls f.template operator()<T>() with T = float or bf16.
template <class F> void with_floating(DType type, const char* op, F&& f) {
  switch (type) {
    case DType::f32: f.template operator()<float>(); return;
    case DType::bf16: f.template operator()<bf16>(); return;
    default: fail<ShapeError>(op, ": type ", name_of(type), " is not supported here; use f32 or bf16");
  }
}

}  // namespace gossamer
