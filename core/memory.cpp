// The caching allocator of the CPU: sizes rounded, freed blocks kept by size and reused last in,
// first out, because the newest is still in cache and its pages are already there.
#include "gossamer/core/memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/least_cpu.h"
#include "gossamer/core/poison.h"
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cuda_memory.h"
#endif

namespace gossamer {
namespace {

#ifdef GOSSAMER_POISON
std::atomic<bool> poisoned{true};
#else
std::atomic<bool> poisoned{false};
#endif

constexpr std::size_t kHuge = std::size_t{2} << 20;
// For blocks from this size on, free_main_memory() is asked first. It reads files, which would
// delay smaller ones.
constexpr std::size_t kLarge = std::size_t{256} << 20;

// Small sizes are rounded to 512 bytes, larger ones to an eighth of their power of two: few
// distinct sizes, little waste.
std::size_t rounded(std::size_t bytes) {
  if (bytes <= 4096) return (bytes + 511) / 512 * 512;
  std::size_t unit = 512;
  while (unit * 16 < bytes) unit *= 2;
  if (bytes >= kHuge && unit < kHuge / 8) unit = kHuge / 8;
  return (bytes + unit - 1) / unit * unit;
}

class CpuCache {
 public:
  static CpuCache& instance() {
    // never destroyed: blocks of static tensors may outlive main()
    static CpuCache* cache = new CpuCache;
    return *cache;
  }

  void* take(std::size_t bytes) {
    void* const data = find(bytes);
    if (memory_is_poisoned()) std::memset(data, kPoison, bytes);
    return data;
  }

  void give(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto it = sizes_.find(data);
    const std::size_t bytes = it->second;
    if (memory_is_poisoned()) std::memset(data, kPoison, bytes);
    sizes_.erase(it);
    stats_.in_use -= bytes;
    stats_.cached += bytes;
    free_[bytes].push_back(data);
  }

  MemoryStats stats() {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    const std::scoped_lock lock(mutex_);
    stats_.peak = stats_.in_use;
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    release_locked();
  }

 private:
  void* find(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    // Reuse a block up to a quarter too large; what is bigger stays for those who need it.
    for (auto it = free_.lower_bound(bytes); it != free_.end() && it->first <= bytes + bytes / 4;
         ++it) {
      if (it->second.empty()) continue;
      void* data = it->second.back();
      it->second.pop_back();
      stats_.cached -= it->first;
      sizes_[data] = it->first;
      count(it->first);
      return data;
    }
    void* data = system(bytes);
    sizes_[data] = bytes;
    count(bytes);
    return data;
  }

  void count(std::size_t bytes) {
    stats_.in_use += bytes;
    if (stats_.in_use > stats_.peak) stats_.peak = stats_.in_use;
  }

  void* system(std::size_t bytes) {
    ++stats_.allocations;
    const std::size_t align = bytes >= kHuge ? kHuge : 64;
    const auto from_system = [&]() -> void* {
      // Linux gives more than it has, and ends the process when the memory is used.
      if (bytes >= kLarge && bytes > free_main_memory()) return nullptr;
      return std::aligned_alloc(align, (bytes + align - 1) / align * align);
    };
    void* data = from_system();
    if (!data) {
      release_locked();
      data = from_system();
    }
    check<OutOfMemory>(data != nullptr, "out of memory on cpu: wanted ", bytes >> 20, " MiB, ",
                       free_main_memory() >> 20, " MiB are free and ", stats_.in_use >> 20,
                       " MiB in use by tensors. Use a smaller batch, smaller pictures or fewer "
                       "workers.");
    // fewer page faults and TLB misses; a hint, may be refused
    if (bytes >= kHuge) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }

  void release_locked() {
    for (auto& [bytes, blocks] : free_)
      for (void* data : blocks) std::free(data);
    free_.clear();
    stats_.cached = 0;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::map<void*, std::size_t> sizes_;
  MemoryStats stats_;
};

}  // namespace

void poison_memory(bool wanted) { poisoned.store(wanted, std::memory_order_relaxed); }
bool memory_is_poisoned() { return poisoned.load(std::memory_order_relaxed); }

Block::~Block() {
  if (release)
    release();
  else if (data)
    CpuCache::instance().give(data);
}

std::shared_ptr<Block> allocate(std::size_t bytes, Device device) {
  [[maybe_unused]] static const bool checked = (cpu::check_cpu(), true);
  if (!device.is_cpu()) {
#ifdef GOSSAMER_HAS_CUDA
    return cuda::allocate_device(bytes, device);
#else
    fail<DeviceError>("allocate: no memory on ", device, ": ", cuda::why_none());
#endif
  }
  auto block = std::make_shared<Block>();
  block->bytes = rounded(bytes ? bytes : 1);
  block->device = device;
  block->data = CpuCache::instance().take(block->bytes);
  return block;
}

#ifdef GOSSAMER_HAS_CUDA
MemoryStats memory_stats(Device device) {
  return device.is_cpu() ? CpuCache::instance().stats() : cuda::device_stats(device);
}
void reset_peak(Device device) {
  device.is_cpu() ? CpuCache::instance().reset_peak() : cuda::reset_device_peak(device);
}
void release_cached(Device device) {
  device.is_cpu() ? CpuCache::instance().release() : cuda::release_device_cache(device);
}
#else
MemoryStats memory_stats(Device) { return CpuCache::instance().stats(); }
void reset_peak(Device) { CpuCache::instance().reset_peak(); }
void release_cached(Device) { CpuCache::instance().release(); }
#endif

}  // namespace gossamer
