// The GPU in a build without CUDA: there is none, and every call that needs one says how to
// get it.
#ifndef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"

namespace gossamer::cuda {
namespace {

[[noreturn]] void none(const char* what) { fail<DeviceError>(what, ": ", why_none()); }

}  // namespace

struct Stream::Impl {};
struct Event::Impl {};
struct Graph::Impl {};

bool built() { return false; }
int device_count() { return 0; }
std::string why_none() {
  return "this build has no CUDA; the program and the library for C use GPUs if "
         "libgossamer-cuda.so.0 is installed, or configure with -DGOSSAMER_CUDA=ON where the CUDA "
         "toolkit and cuDNN are; or use the device cpu";
}
Versions versions() { return {}; }
const Properties& properties(Device) { none("properties of a GPU"); }
FreeMemory free_memory(Device) { none("memory of a GPU"); }
bool can_access_peer(Device, Device) { return false; }

Stream::Stream(Device, Priority) { none("stream"); }
Device Stream::device() const { none("stream"); }
void* Stream::handle() const { none("stream"); }
void Stream::wait(const Event&) const { none("stream"); }
bool Stream::idle() const { none("stream"); }
bool Stream::recording() const { none("stream"); }
void Stream::synchronize(std::chrono::milliseconds) const { none("stream"); }

Event::Event(Device, Timing) { none("event"); }
void* Event::handle() const { none("event"); }
void Event::record(const Stream&) const { none("event"); }
void Event::record_external(const Stream&) const { none("event"); }
bool Event::recorded() const { none("event"); }
bool Event::done() const { none("event"); }
bool Event::wait(std::chrono::milliseconds) const { none("event"); }
double Event::milliseconds(const Event&, const Event&) { none("event"); }

const Stream& current_stream(Device) { none("stream"); }
void* launch_stream(Device) { none("stream"); }
UseStream::UseStream(Stream) { none("stream"); }
UseStream::~UseStream() = default;
UseDevice::UseDevice(Device) {
  (void)before_;  // nothing to restore
  none("device");
}
UseDevice::~UseDevice() = default;

void record_use(const Block&, const Stream&) { none("memory of a GPU"); }
std::shared_ptr<Block> allocate_pinned(std::size_t bytes) { return allocate(bytes); }
std::shared_ptr<Block> allocate_shared(std::size_t, Device) { none("memory of a GPU"); }
SharedHandle share(const Block&) { none("memory of a GPU"); }
std::shared_ptr<Block> open_shared(const SharedHandle&, std::size_t, Device) {
  none("memory of a GPU");
}
void copy(void*, const void*, std::size_t, const Stream&) { none("copy"); }
void fill(void*, unsigned char, std::size_t, const Stream&) { none("fill"); }
void read(void*, const void*, std::size_t, const Stream&) { none("read"); }
std::uint64_t waits() { return 0; }

std::shared_ptr<GraphMemory> graph_memory(Device) { none("graph"); }
Graph Graph::capture(Device, FunctionRef<void()>, std::shared_ptr<GraphMemory>) { none("graph"); }
void Graph::launch(const Stream&) const { none("graph"); }
std::size_t Graph::nodes() const { none("graph"); }

}  // namespace gossamer::cuda
#endif
