// for_each_block: kernels whose threads work together in blocks. On a GPU a launch; on a CPU loops
// over the same blocks and threads, so that index arithmetic, tails and the order of phases are
// tested without a GPU. Loops without shared memory are for_each in kernel.h.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "gossamer/core/ops/kernel.h"

namespace gossamer {

// A kernel is a struct, copied to the device, with
//   static constexpr int threads, phases;
//   struct Shared { … };   of a block: its content is undefined at the start
//   struct State { … };    of a thread: starts as State{}, kept from phase to phase (in registers)
//   template <int phase> GOSSAMER_HD void run(i64 block, int thread, Shared&, State&) const;
// and optionally
//   GOSSAMER_HD bool again(i64 block, const Shared&, const State&) const;
//       asked after the last phase: does the block go through all phases once more? All its threads
//       must agree, and what they read here must not be written in the last phase.
//   static constexpr int resident;
//       blocks that must fit on a multiprocessor at a time: the compiler limits the registers; it
//       may depend on kArchitecture
// Between two phases all threads of a block wait for each other. Within a phase no thread may read
// what another writes there.
struct Nothing {};

// What device code is being compiled for: 90 for sm_90. On a host it means nothing.
#ifdef __CUDA_ARCH__
inline constexpr int kArchitecture = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArchitecture = 0;
#endif

// `resident` of a kernel that CUDA 13.0's compiler, left alone, gives too few registers on
// Blackwell: it spills one to six, so that another block fits.
inline constexpr int kWithoutSpilling = kArchitecture >= 100 ? 2 : 0;

namespace detail {

template <class K>
GOSSAMER_HD inline bool goes_again(const K& k, i64 block, const typename K::Shared& shared,
                                   const typename K::State& state) {
  if constexpr (requires { k.again(block, shared, state); })
    return k.again(block, shared, state);
  else
    return false;
}

// 0: as many as fit
template <class K>
constexpr int resident_of() {
  if constexpr (requires { K::resident; })
    return K::resident;
  else
    return 0;
}

template <class K, int phase = 0>
void run_block_on_cpu(const K& k, i64 block, typename K::Shared& shared,
                      std::vector<typename K::State>& states) {
  // Odd blocks run their threads backwards: a result that depends on the order within a phase
  // differs between the two kinds.
  for (int i = 0; i < K::threads; ++i) {
    const int thread = block % 2 ? K::threads - 1 - i : i;
    k.template run<phase>(block, thread, shared, states[static_cast<std::size_t>(thread)]);
  }
  if constexpr (phase + 1 < K::phases) run_block_on_cpu<K, phase + 1>(k, block, shared, states);
}

#ifdef __CUDACC__
template <class K, int phase = 0>
__device__ inline void run_phases(const K& k, i64 block, int thread, typename K::Shared& shared,
                                  typename K::State& state) {
  k.template run<phase>(block, thread, shared, state);
  if constexpr (phase + 1 < K::phases) {
    __syncthreads();
    run_phases<K, phase + 1>(k, block, thread, shared, state);
  }
}
template <class K>
__global__ void __launch_bounds__(K::threads, resident_of<K>())
    block_kernel(const __grid_constant__ K k) {
  __shared__ typename K::Shared shared;
  typename K::State state{};
  const i64 block = blockIdx.x;
  run_phases(k, block, static_cast<int>(threadIdx.x), shared, state);
  while (goes_again(k, block, shared, state)) {
    __syncthreads();
    run_phases(k, block, static_cast<int>(threadIdx.x), shared, state);
  }
}
#endif

}  // namespace detail

// calls of for_each_block in this process that had work: lets tests count passes
inline std::atomic<i64> block_launches{0};

// Runs blocks 0 … blocks - 1 of k, in any order. On a GPU: enqueued on the current stream, nothing
// is waited for.
template <class K>
void for_each_block(Device device, i64 blocks, const K& k) {
  static_assert(std::is_trivially_copyable_v<K> && std::is_trivial_v<typename K::Shared> &&
                sizeof(typename K::Shared) <= 48 * 1024);
  if (blocks <= 0) return;
  block_launches.fetch_add(1, std::memory_order_relaxed);
  check<ShapeError>(
      blocks <= 0x7fffffff, "kernel: ", blocks,
      " blocks; a launch has at most 2147483647, so the tensor is too large for one call");
  if (device.is_cpu()) {
    parallel_for(blocks, 1, [&](i64 begin, i64 end) {
      const auto shared = std::make_unique<typename K::Shared>();
      std::vector<typename K::State> states(K::threads);
      for (i64 block = begin; block < end; ++block) {
        // as NaN: a read before the first write shows
        std::memset(static_cast<void*>(shared.get()), 0xff, sizeof *shared);
        states.assign(K::threads, typename K::State{});
        do {
          detail::run_block_on_cpu(k, block, *shared, states);
        } while (detail::goes_again(k, block, *shared, states[0]));
      }
    });
    return;
  }
#ifdef __CUDACC__
  detail::block_kernel<K><<<static_cast<unsigned>(blocks), K::threads, 0,
                            static_cast<cudaStream_t>(cuda::launch_stream(device))>>>(k);
  detail::check_launch(device);
#else
  fail<DeviceError>("no kernels for ", device, ": ", cuda::why_none());
#endif
}

}  // namespace gossamer
