// Memory blocks and the caching allocator behind every Tensor.
// Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "gossamer/core/device.h"

namespace gossamer {

// A block of bytes. When its last handle goes, it returns to the allocator's cache, which gives out
// the newest first: it is still warm.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
  Device device;
  std::function<void()> release;  // lent memory: called instead of the allocator
  ~Block();
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

// Uninitialised memory. On a CPU it is aligned to 64 bytes, from 2 MiB on to 2 MiB (huge pages).
// DeviceError: there is not enough, with sizes; or no such device.
std::shared_ptr<Block> allocate(std::size_t bytes, Device = {});

struct MemoryStats {
  std::size_t in_use = 0;       // bytes of live blocks (rounded as allocated)
  std::size_t cached = 0;       // freed, kept for reuse
  std::size_t peak = 0;         // highest in_use since the last reset
  std::size_t allocations = 0;  // calls served by the system, not by the cache
};
MemoryStats memory_stats(Device = {});
void reset_peak(Device = {});
void release_cached(Device = {});  // gives the cache back to the system

}  // namespace gossamer
