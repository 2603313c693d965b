// Device memory, pinned memory and memory shared between processes, each as Block; copies.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cuda_memory.h"

#include <cstring>
#include <map>
#include <mutex>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/error.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/poison.h"
#include "gossamer/core/size_text.h"

namespace gossamer::cuda {
namespace {

// Marks are events.
class Marks : public PoolSystem {
 public:
  void* mark(void* stream) override {
    const Device device = device_of(stream);  // an event works on its own device only
    const UseDevice use(device);
    cudaEvent_t event = nullptr;
    check_call(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
               device);
    check_call(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "cudaEventRecord",
               device);
    return event;
  }
  bool passed(void* mark) override {
    select_any();
    const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(mark));
    if (status != cudaSuccess) cudaGetLastError();  // or the next launch would find it
    return status != cudaErrorNotReady;
  }
  void drop(void* mark) override { cudaEventDestroy(static_cast<cudaEvent_t>(mark)); }
};

class DeviceSystem final : public Marks {
 public:
  explicit DeviceSystem(Device device) : device_(device) {}
  void* allocate(std::size_t bytes) override {
    const UseDevice use(device_);
    count_wait();  // the call may stop the device
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check_call(status, "cudaMalloc", device_);
    return data;
  }
  void free(void* segment) override {
    select_any();
    count_wait();
    cudaFree(segment);
  }

 private:
  Device device_;
};

class PinnedSystem final : public Marks {
 public:
  void* allocate(std::size_t bytes) override {
    select_any();
    count_wait();
    void* data = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess ? data : nullptr;
  }
  void free(void* segment) override { cudaFreeHost(segment); }
};

// The pools live as long as the process: blocks of static tensors may outlive main().
struct DeviceMemory {
  explicit DeviceMemory(Device device)
      : system(device),
        pool(std::make_shared<CachingPool>(system, CachingPool::Cache::returned, &usage)) {}
  DeviceSystem system;
  Usage usage;
  std::shared_ptr<CachingPool> pool;
  std::mutex mutex;
  std::vector<std::weak_ptr<CachingPool>> more;  // of graphs
};
DeviceMemory& memory_of(Device device) {
  (void)properties(device);
  static std::mutex mutex;
  static auto* const all = new std::map<int, DeviceMemory*>;
  const std::scoped_lock lock(mutex);
  DeviceMemory*& memory = (*all)[device.index];
  if (!memory) memory = new DeviceMemory(device);
  return *memory;
}
const std::shared_ptr<CachingPool>& pinned_pool() {
  static auto* const system = new PinnedSystem;
  static auto* const pool =
      new std::shared_ptr<CachingPool>(std::make_shared<CachingPool>(*system));
  return *pool;
}

thread_local std::shared_ptr<CachingPool> graph_pool;

[[noreturn]] void out_of_memory(std::size_t bytes, Device device, const CachingPool& pool) {
  const MemoryStats stats = device_stats(device);
  const FreeMemory now = free_memory(device);
  const std::size_t ours = stats.in_use + stats.cached, taken = now.total - now.free,
                    others = taken > ours ? taken - ours : 0;
  fail<OutOfMemory>(
      "out of memory on ", device, " (", properties(device).name, "): wanted ", size_text(bytes),
      "; of ", size_text(now.total), ", ", size_text(stats.in_use),
      " are in use by tensors (at most ", size_text(stats.peak), " so far), ",
      size_text(stats.cached), " cached in pieces up to ", size_text(pool.largest_free()), ", ",
      size_text(others), " used by the driver and other programs, ", size_text(now.free),
      " free. Use a smaller batch or bf16 (dtype), or free the GPU of other programs.");
}

std::shared_ptr<Block> block_of(const std::shared_ptr<CachingPool>& pool, void* data,
                                Device device) {
  auto block = std::make_shared<Block>();
  block->data = data;
  block->bytes = pool->size_of(data);
  block->device = device;
  block->release = [pool, data] { pool->give(data); };
  return block;
}

}  // namespace

std::shared_ptr<CachingPool> make_pool(Device device) {
  DeviceMemory& memory = memory_of(device);
  auto pool = std::make_shared<CachingPool>(memory.system, CachingPool::Cache::kept, &memory.usage);
  const std::scoped_lock lock(memory.mutex);
  std::erase_if(memory.more, [](const auto& p) { return p.expired(); });
  memory.more.push_back(pool);
  return pool;
}

UsePool::UsePool(std::shared_ptr<CachingPool> pool)
    : before_(std::exchange(graph_pool, std::move(pool))) {}
UsePool::~UsePool() { graph_pool = std::move(before_); }

std::shared_ptr<Block> allocate_device(std::size_t bytes, Device device) {
  const std::shared_ptr<CachingPool>& pool = graph_pool ? graph_pool : memory_of(device).pool;
  void* data = pool->take(bytes, current_stream(device).handle());
  if (!data && graph_pool) {  // the cache of eager work
    memory_of(device).pool->release();
    data = pool->take(bytes, current_stream(device).handle());
  }
  if (!data) out_of_memory(bytes, device, *pool);
  auto block = block_of(pool, data, device);
  // in a graph, before each launch's first use
  if (memory_is_poisoned()) fill(data, kPoison, block->bytes, current_stream(device));
  return block;
}
MemoryStats device_stats(Device device) {
  DeviceMemory& memory = memory_of(device);
  MemoryStats all = memory.pool->stats();
  const std::scoped_lock lock(memory.mutex);
  for (const auto& weak : memory.more)
    if (const auto pool = weak.lock()) {
      const MemoryStats stats = pool->stats();
      all.cached += stats.cached;
      all.allocations += stats.allocations;
    }
  all.in_use = memory.usage.in_use();
  all.peak = memory.usage.peak();
  return all;
}
void reset_device_peak(Device device) { memory_of(device).usage.reset_peak(); }
void release_device_cache(Device device) { memory_of(device).pool->release(); }

void record_use(const Block& block, const Stream& stream) {
  if (block.device.is_cpu()) {
    pinned_pool()->used_on(block.data, stream.handle());
    return;
  }
  DeviceMemory& memory = memory_of(block.device);
  if (memory.pool->used_on(block.data, stream.handle())) return;
  const std::scoped_lock lock(memory.mutex);
  for (const auto& weak : memory.more)
    if (const auto pool = weak.lock(); pool && pool->used_on(block.data, stream.handle())) return;
}

std::shared_ptr<Block> allocate_pinned(std::size_t bytes) {
  if (device_count() == 0) return allocate(bytes);
  void* const data = pinned_pool()->take(bytes, nullptr);
  check<DeviceError>(data != nullptr, "cudaHostAlloc: no page-locked memory: wanted ",
                     size_text(bytes), ", ", size_text(pinned_pool()->stats().in_use),
                     " in use; fewer batches ahead (ahead), or a higher limit (ulimit -l)");
  auto block = block_of(pinned_pool(), data, Device::cpu());
  if (memory_is_poisoned()) std::memset(data, kPoison, block->bytes);
  return block;
}

std::shared_ptr<Block> allocate_shared(std::size_t bytes, Device device) {
  const UseDevice use(device);
  auto block = std::make_shared<Block>();
  count_wait();
  check_call(cudaMalloc(&block->data, bytes), "cudaMalloc of memory to share", device);
  block->bytes = bytes;
  block->device = device;
  block->release = [data = block->data] { cudaFree(data); };
  if (memory_is_poisoned()) fill(block->data, kPoison, bytes, current_stream(device));
  return block;
}

SharedHandle share(const Block& block) {
  const UseDevice use(block.device);
  cudaIpcMemHandle_t handle;
  static_assert(sizeof handle == sizeof(SharedHandle));
  check_call(cudaIpcGetMemHandle(&handle, block.data), "cudaIpcGetMemHandle", block.device);
  SharedHandle bytes;
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

std::shared_ptr<Block> open_shared(const SharedHandle& bytes, std::size_t size, Device device) {
  const UseDevice use(device);
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, bytes.data(), sizeof handle);
  auto block = std::make_shared<Block>();
  check_call(cudaIpcOpenMemHandle(&block->data, handle, cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle", device);
  block->bytes = size;
  block->device = device;
  block->release = [data = block->data] { cudaIpcCloseMemHandle(data); };
  return block;
}

namespace {

// Ordinary host memory is neither registered nor on a device: a copy with it makes the host wait.
bool is_ordinary(const void* data, Device device) {
  cudaPointerAttributes attributes{};
  check_call(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes", device);
  return attributes.type == cudaMemoryTypeUnregistered;
}

}  // namespace

void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  const Device device = stream.device();
  const UseDevice use(device);
  if (is_ordinary(to, device) || is_ordinary(from, device)) count_wait();
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                             static_cast<cudaStream_t>(stream.handle())),
             "cudaMemcpyAsync", device);
}

void fill(void* to, unsigned char value, std::size_t bytes, const Stream& stream) {
  if (bytes == 0) return;
  const UseDevice use(stream.device());
  check_call(cudaMemsetAsync(to, value, bytes, static_cast<cudaStream_t>(stream.handle())),
             "cudaMemsetAsync", stream.device());
}

void read(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  const std::shared_ptr<Block> landing = allocate_pinned(bytes);
  copy(landing->data, from, bytes, stream);
  stream.synchronize();
  std::memcpy(to, landing->data, bytes);
}

}  // namespace gossamer::cuda
#endif
