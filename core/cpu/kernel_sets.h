// Some kernels are compiled for several kinds of CPU (vectors_inl.h), and the best set that this
// CPU can run is chosen when the first of them runs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "gossamer/core/compute.h"

namespace gossamer::cpu {

// The best of kernel_sets() (compute.h) from now on, in our kernels only; empty: the best of all.
// Call it while no kernel runs. ConfigError lists the names if this is none of them.
void limit_kernels(const std::string& name);

// Which set each kernel ran from last, for tests and benchmarks: a kernel that is not chosen, or
// not from the best set, is as correct as one that is, only slow.
enum class Kernel {
  product,
  bf16_pairs,
  bf16_tiles,
  direct,
  winograd,
  batch_norm,
  layer_norm,
  attention,
  loss,
  count
};
inline std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(Kernel::count)> kernels_ran{};
inline void note_run(Kernel kernel, std::int64_t target) {  // target: HWY_TARGET
  kernels_ran[static_cast<std::size_t>(kernel)].store(target, std::memory_order_relaxed);
}
std::string ran_from(Kernel);  // the name of its set; empty: it has not run
void forget_runs();

// The CPU has the instructions that Kernel::bf16_pairs is made of (avx512_bf16, ARM's bf16), and
// those of Kernel::bf16_tiles (amx_bf16), which the system lets this process use.
bool multiplies_bf16_pairs();
bool multiplies_bf16_tiles();

}  // namespace gossamer::cpu
