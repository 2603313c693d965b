// Pools of one device as the rest of the CUDA files need them. Internal; the public face is
// memory.h and cuda.h.
#pragma once

#include <memory>

#include "gossamer/core/cuda/cuda_pool.h"

namespace gossamer::cuda {

// a further pool of the device's memory, for a graph
std::shared_ptr<CachingPool> make_pool(Device);
// From here to the end of the scope allocate() of this thread takes device memory from `pool`.
class UsePool {
 public:
  explicit UsePool(std::shared_ptr<CachingPool> pool);
  ~UsePool();
  UsePool(const UsePool&) = delete;
  UsePool& operator=(const UsePool&) = delete;

 private:
  std::shared_ptr<CachingPool> before_;
};

// What memory.cpp calls for devices that are not the CPU. Stats are of all pools of the device
// together: what a graph's work needs counts when it is recorded.
std::shared_ptr<Block> allocate_device(std::size_t bytes, Device);
MemoryStats device_stats(Device);
void reset_device_peak(Device);
void release_device_cache(Device);

}  // namespace gossamer::cuda
