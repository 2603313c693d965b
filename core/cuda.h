// The GPU as the library sees it: devices, streams, events, memory, copies, graphs. No vendor type
// appears here. A build without CUDA has all of these too: device_count() is 0, and what needs a
// device throws a DeviceError that says how to get one. Errors: DeviceError names the device, the
// vendor's call and its message, and what to do. Device memory itself: allocate() in memory.h.
// Threads: any; the current stream and the current device are each thread's own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gossamer/core/device.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"

namespace gossamer::cuda {

// --- devices
bool built();  // this build contains the CUDA backend
// 0 without a driver, a device or CUDA in the build; never throws
int device_count();
// why device_count() is 0, and what to do; "" if there is one
std::string why_none();

struct Properties {
  std::string name, pci_bus_id, uuid;  // "NVIDIA H200", "0000:1b:00.0", 32 hex digits
  int major = 0, minor = 0;            // compute capability: 9, 0
  int multiprocessors = 0;
  std::size_t memory = 0, l2 = 0;  // bytes
  double bandwidth = 0;            // bytes/s of the memory as built; 0: unknown
};
const Properties& properties(Device);
// CUDA versions, 13000 for 13.0: the newest that the driver supports (0: no driver) and the one
// that this program was built with (0: without CUDA). Asks no device, so that it tells why there is
// none.
struct Versions {
  int driver = 0, runtime = 0;
  // A driver runs programs of its own major version and of older ones.
  bool driver_is_too_old() const { return driver > 0 && driver / 1000 < runtime / 1000; }
};
Versions versions();
// Memory of the whole device, with that of other processes.
struct FreeMemory {
  std::size_t free = 0, total = 0;
};
FreeMemory free_memory(Device);
bool can_access_peer(Device from, Device to);  // direct copies between two GPUs of this machine

// --- streams and events. Both are handles: a copy means the same stream or event.
class Event;

class Stream {
 public:
  // high: its kernels get the next free multiprocessors first
  enum class Priority { normal, high };
  Stream() = default;  // none
  // never synchronises with the legacy default stream
  explicit Stream(Device, Priority = Priority::normal);
  bool defined() const { return impl_ != nullptr; }
  Device device() const;
  void* handle() const;  // cudaStream_t
  // later work here starts after the event; the host goes on
  void wait(const Event&) const;
  bool idle() const;       // all work done; does not wait
  bool recording() const;  // a graph is being captured here
  // The host waits, at most `limit`; DeviceError when the time is up. Counted in waits().
  void synchronize(std::chrono::milliseconds limit = std::chrono::minutes(10)) const;
  bool operator==(const Stream&) const = default;
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

class Event {
 public:
  enum class Timing { off, on };
  Event() = default;  // none
  explicit Event(Device, Timing = Timing::off);
  bool defined() const { return impl_ != nullptr; }
  void* handle() const;              // cudaEvent_t
  void record(const Stream&) const;  // marks the work enqueued there so far
  // The same. Captured in a graph, it marks the event at each launch, so that streams outside the
  // graph can wait for it after the launch.
  void record_external(const Stream&) const;
  // Whether it was ever recorded. Until then done() is true, and waiting for it ends at once.
  bool recorded() const;
  // Whether the work that was marked last is done. Does not wait. DeviceError if the device failed.
  bool done() const;
  // The host polls until done; false when the time is up. Counted in waits().
  bool wait(std::chrono::milliseconds limit) const;
  // Time between two events recorded with Timing::on; both must be done.
  static double milliseconds(const Event& from, const Event& to);
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// The stream on which ops, copies and kernels of this thread run: the device's own compute stream,
// or that of the innermost UseStream. The reference is good until the next UseStream begins or
// ends.
const Stream& current_stream(Device);
class UseStream {
 public:
  explicit UseStream(Stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  Stream before_;
  Device device_;
};

// For a kernel launch: makes the device that of the calling thread, and returns the handle of its
// current stream.
void* launch_stream(Device);

// Makes `device` the one of the calling thread for vendor calls that take none, and restores the
// one before.
class UseDevice {
 public:
  explicit UseDevice(Device);
  ~UseDevice();
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int before_ = -1;
};

// --- memory. A block from allocate(bytes, Device::cuda(i)) belongs to the stream that was current
// then: when its last handle goes, it may be given out again at once for work on that stream.

// Declares that work on another stream uses the block, which is then not given out again before the
// work enqueued there so far is done. To be called while a handle lives.
void record_use(const Block&, const Stream&);
// Page-locked host memory (its Block is on the CPU): copies to and from it overlap. Cached like
// device memory. Ordinary memory where there is no GPU, so callers need no second path.
std::shared_ptr<Block> allocate_pinned(std::size_t bytes);
// Device memory that is an allocation of its own, not from the cache, so that another process of
// this machine may open it.
std::shared_ptr<Block> allocate_shared(std::size_t bytes, Device);
using SharedHandle = std::array<std::byte, 64>;
SharedHandle share(const Block&);  // of allocate_shared
// The memory is closed with the last handle.
std::shared_ptr<Block> open_shared(const SharedHandle&, std::size_t bytes, Device);

// Copies between any two of device, pinned and other host memory, in stream order; ordinary host
// memory makes the host wait (counted).
void copy(void* to, const void* from, std::size_t bytes, const Stream&);
void fill(void* to, unsigned char value, std::size_t bytes, const Stream&);
// Copies a few bytes of the device to the host, which waits for them (counted).
void read(void* to, const void* from, std::size_t bytes, const Stream&);

// How often the host waited for a device in this process: synchronize(), Event::wait, item() and
// copies with ordinary host memory, and system allocations of the cache (they may stop the device).
// A training step in its steady state adds none but what it asks for.
std::uint64_t waits();

// --- graphs: work recorded once and launched as a whole.

// What graphs allocate. Graphs that share it use the same addresses for what lives within a launch,
// so they must be launched one after another, on one stream.
struct GraphMemory;
std::shared_ptr<GraphMemory> graph_memory(Device);

class Graph {
 public:
  Graph() = default;
  // Runs `work` with a capturing stream as the current one. Nothing is computed then. Memory that
  // `work` allocates comes from `memory`, which lives as long as the graph, so every launch finds
  // the same addresses; undefined: memory of its own. DeviceError if `work` waits for the device.
  static Graph capture(Device, FunctionRef<void()> work, std::shared_ptr<GraphMemory> memory = {});
  bool defined() const { return impl_ != nullptr; }
  void launch(const Stream&) const;
  std::size_t nodes() const;
  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace gossamer::cuda
