// How a formula becomes a loop on a CPU or a launch on a GPU:
//   for_each       one call per element, in any order
//   for_each_row   the same for the elements of rows
//   sum_all, sum_to   sums, with the same bits for any number of threads
// Kernels whose threads work together in blocks are in grid.h, sums of columns in sum_columns.h.
// Formulas are structs with a call operator, not lambdas: nvcc hides host-device lambdas from the
// host's optimiser (15x slower, measured).
#pragma once

#include <type_traits>

#include "gossamer/core/cuda.h"
#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

// Before a loop whose iterations do not depend on each other: pointers of one formula never overlap
// unless they are equal.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDA_ARCH__)
#define GOSSAMER_IVDEP _Pragma("GCC ivdep")
#else
#define GOSSAMER_IVDEP
#endif

namespace gossamer {

#ifdef __CUDACC__
namespace detail {
template <class F>
__global__ void for_each_kernel(i64 n, F f) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<i64>(gridDim.x) * blockDim.x)
    f(i);
}
inline void check_launch(Device device) {
  const cudaError_t status = cudaGetLastError();
  check<DeviceError>(status == cudaSuccess, "kernel launch on ", device, ": ",
                     cudaGetErrorString(status),
                     "; were the kernels built for this GPU (GOSSAMER_CUDA_ARCH)?");
}
}  // namespace detail
#endif

// Runs f(i) for all i in [0, n), in any order; the iterations must not depend on each other (the
// loop is vectorised). grain: the fewest elements for which a thread of its own pays.
template <class F>
void for_each(Device device, i64 n, F f, i64 grain = 1 << 15) {
  if (n <= 0) return;
  if (device.is_cpu()) {
    parallel_for(n, grain, [&](i64 begin, i64 end) {
      F local = f;  // a copy the optimiser can keep in registers
      GOSSAMER_IVDEP
      for (i64 i = begin; i < end; ++i) local(i);
    });
    return;
  }
#ifdef __CUDACC__
  const int threads = 256;
  const i64 blocks = (n + threads - 1) / threads;
  detail::for_each_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), threads, 0,
                            static_cast<cudaStream_t>(cuda::launch_stream(device))>>>(n, f);
  detail::check_launch(device);
#else
  fail<DeviceError>("no kernels for ", device, ": ", cuda::why_none());
#endif
}

// For each row r < rows calls f(r, begin, end) so that every column is covered once: on a CPU with
// the whole row, where the formula's own loop over columns vectorises and no index is divided; on a
// GPU with one element.
namespace detail {
template <class F>
struct SplitRow {
  F f;
  i64 cols;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 r = i / cols, c = i - r * cols;
    f(r, c, c + 1);
  }
};
}  // namespace detail
template <class F>
void for_each_row(Device device, i64 rows, i64 cols, F f, i64 grain = 1 << 15) {
  if (rows <= 0 || cols <= 0) return;
  if (!device.is_cpu()) return for_each(device, rows * cols, detail::SplitRow<F>{f, cols});
  parallel_for(rows, grain / cols + 1, [&](i64 begin, i64 end) {
    const F local = f;
    for (i64 r = begin; r < end; ++r) local(r, i64{0}, cols);
  });
}

// --- sums. They are cut into pieces whose size depends on the problem only, so that the number of
// threads does not change a result.
namespace detail {
inline constexpr i64 kPiece = 4096;  // elements of one piece

// Sum of f over [begin, end), in double, in eight lanes (a single chain of additions would not
// vectorise).
template <class F>
GOSSAMER_HD inline double sum_span(const F& f, i64 begin, i64 end) {
  double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  i64 i = begin;
  for (; i + 8 <= end; i += 8)
    for (int j = 0; j < 8; ++j) lane[j] += static_cast<double>(f(i + j));
  for (; i < end; ++i) lane[0] += static_cast<double>(f(i));
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}
template <class F>
struct SumPiece {
  F f;
  i64 n;
  double* out;
  GOSSAMER_HD void operator()(i64 p) const {
    out[p] = sum_span(f, p * kPiece, (p + 1) * kPiece < n ? (p + 1) * kPiece : n);
  }
};
template <class Out>
struct JoinPieces {  // the sum replaces the first piece
  double* pieces;
  i64 n;
  double factor;
  Out* out;  // factor times the sum goes there too; may be null
  GOSSAMER_HD void operator()(i64) const {
    double sum = 0;
    for (i64 p = 0; p < n; ++p) sum += pieces[p];
    pieces[0] = factor * sum;
    if (out) *out = static_cast<Out>(pieces[0]);
  }
};
#ifdef __CUDACC__
inline constexpr int kSumThreads = 256;
// Adds the values of a block's threads in a fixed order; the first thread gets the sum.
__device__ inline double sum_of_block(double value) {
  __shared__ double shared[kSumThreads];
  shared[threadIdx.x] = value;
  for (int width = kSumThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < width) shared[threadIdx.x] += shared[threadIdx.x + width];
  }
  return threadIdx.x == 0 ? shared[0] : 0;
}
template <class F>
__global__ void sum_piece_kernel(i64 n, i64 pieces, F f, double* out) {
  for (i64 p = blockIdx.x; p < pieces; p += gridDim.x) {
    const i64 end = (p + 1) * kPiece < n ? (p + 1) * kPiece : n;
    double sum = 0;
    for (i64 i = p * kPiece + threadIdx.x; i < end; i += kSumThreads)
      sum += static_cast<double>(f(i));
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) out[p] = sum;
    __syncthreads();
  }
}
template <class Out>
__global__ void join_pieces_kernel(double* pieces, i64 n, double factor, Out* out) {
  double sum = 0;
  for (i64 p = threadIdx.x; p < n; p += kSumThreads) sum += pieces[p];
  sum = sum_of_block(sum);
  if (threadIdx.x != 0) return;
  pieces[0] = factor * sum;
  if (out) *out = static_cast<Out>(pieces[0]);
}
template <class F, class Out>
void sum_pieces_on_gpu(Device device, i64 n, i64 pieces, const F& f, double factor, Out* out,
                       double* partial) {
  const auto stream = static_cast<cudaStream_t>(cuda::launch_stream(device));
  sum_piece_kernel<<<static_cast<unsigned>(pieces < 4096 ? pieces : 4096), kSumThreads, 0,
                     stream>>>(n, pieces, f, partial);
  check_launch(device);
  join_pieces_kernel<<<1, kSumThreads, 0, stream>>>(partial, pieces, factor, out);
  check_launch(device);
}
#endif
template <class F, class Out>
std::shared_ptr<Block> sum_pieces(Device device, i64 n, F f, double factor, Out* out) {
  const i64 pieces = n <= 0 ? 1 : (n + kPiece - 1) / kPiece;
  std::shared_ptr<Block> block =
      allocate(sizeof(double) * static_cast<std::size_t>(pieces), device);
  double* partial = static_cast<double*>(block->data);
#ifdef __CUDACC__
  if (!device.is_cpu()) {
    sum_pieces_on_gpu(device, n, pieces, f, factor, out, partial);
    return block;
  }
#endif
  for_each(device, pieces, SumPiece<F>{f, n, partial}, 8);
  for_each(device, 1, JoinPieces<Out>{partial, pieces, factor, out});
  return block;
}
}  // namespace detail

// Sum of f(i), i in [0, n), accumulated in double. The host waits for a GPU.
template <class F>
double sum_all(Device device, i64 n, F f) {
  const std::shared_ptr<Block> block =
      detail::sum_pieces(device, n, f, 1, static_cast<float*>(nullptr));
  if (device.is_cpu()) return *static_cast<const double*>(block->data);
  double sum = 0;
  cuda::read(&sum, block->data, sizeof sum, cuda::current_stream(device));
  return sum;
}
// The same, left on the device: *out (float or double) = factor * sum.
template <class F, class Out>
void sum_to(Device device, i64 n, F f, double factor, Out* out) {
  detail::sum_pieces(device, n, f, factor, out);
}

// Loads and stores of any floating type as float.
template <class T>
GOSSAMER_HD inline float load(const T* p, i64 i) {
  return static_cast<float>(p[i]);
}
template <class T>
GOSSAMER_HD inline void store(T* p, i64 i, float v) {
  p[i] = T(v);
}

// Calls f.template operator()<T>() with T = float, bf16 or f16.
template <class F>
void with_floating(DType type, const char* op, F&& f) {
  switch (type) {
    case DType::f32:
      f.template operator()<float>();
      return;
    case DType::bf16:
      f.template operator()<bf16>();
      return;
    case DType::f16:
      f.template operator()<f16>();
      return;
    default:
      fail<ShapeError>(op, ": type ", name_of(type),
                       " is not supported here; use f32, bf16 or f16");
  }
}
// The same for two types: f.template operator()<A, B>(). bf16 and f16 never meet in one op: each
// pair of types would be one more kernel, for no use.
template <class A, class B>
inline constexpr bool types_meet = sizeof(A) != 2 || sizeof(B) != 2 || std::is_same_v<A, B>;
template <class F>
void with_floating(DType a, DType b, const char* op, F&& f) {
  with_floating(a, op, [&]<class A>() {
    with_floating(b, op, [&]<class B>() {
      if constexpr (types_meet<A, B>)
        f.template operator()<A, B>();
      else
        fail<ShapeError>(op, ": ", name_of(a), " and ", name_of(b), " in one op; cast one of them");
    });
  });
}

}  // namespace gossamer
