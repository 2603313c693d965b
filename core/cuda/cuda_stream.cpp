// Streams and events. Both are recycled, never destroyed: what is still queued on a stream keeps
// its order for the next user, and memory that was freed in its order stays right.
#ifdef GOSSAMER_HAS_CUDA
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/error.h"

namespace gossamer::cuda {
namespace {

// Handles that are not in use, by device and kind.
template <class Handle>
class Spares {
 public:
  Handle take(int device, int kind) {
    const std::scoped_lock lock(mutex_);
    std::vector<Handle>& list = spare_[{device, kind}];
    if (list.empty()) return nullptr;
    const Handle handle = list.back();
    list.pop_back();
    return handle;
  }
  void give(int device, int kind, Handle handle) {
    const std::scoped_lock lock(mutex_);
    spare_[{device, kind}].push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::vector<Handle>> spare_;
};
Spares<cudaStream_t>& spare_streams() {
  static auto* const it = new Spares<cudaStream_t>;
  return *it;
}
Spares<cudaEvent_t>& spare_events() {
  static auto* const it = new Spares<cudaEvent_t>;
  return *it;
}

// The device of every stream that was ever made.
class Devices {
 public:
  void add(void* stream, Device device) {
    const std::scoped_lock lock(mutex_);
    of_[stream] = device;
  }
  Device find(void* stream) {
    const std::scoped_lock lock(mutex_);
    const auto it = of_.find(stream);
    check<DeviceError>(it != of_.end(), "cuda: this stream was not made by cuda::Stream");
    return it->second;
  }

 private:
  std::mutex mutex_;
  std::map<void*, Device> of_;
};
Devices& devices() {
  static auto* const it = new Devices;
  return *it;
}

// The streams on which a thread works instead of the main one, by device.
thread_local std::deque<Stream> used;

const Stream& main_stream(Device device) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, Stream>;
  const std::scoped_lock lock(mutex);
  Stream& stream = (*streams)[device.index];
  if (!stream.defined()) stream = Stream(device);
  return stream;
}

// "Not ready" is an answer, but it stays behind as the thread's last error, where the next launch
// would find it.
bool answer(cudaError_t status, const char* call, Device device) {
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_call(status, call, device);
  return true;
}

}  // namespace

struct Stream::Impl {
  Device device;
  int priority;
  cudaStream_t handle;
  Impl(Device d, int p, cudaStream_t h) : device(d), priority(p), handle(h) {}
  ~Impl() { spare_streams().give(device.index, priority, handle); }
};

Stream::Stream(Device device, Priority priority) {
  const UseDevice use(device);
  const int kind = static_cast<int>(priority);
  cudaStream_t handle = spare_streams().take(device.index, kind);
  if (!handle) {
    int least = 0, greatest = 0;
    check_call(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange", device);
    check_call(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking,
                                            priority == Priority::high ? greatest : least),
               "cudaStreamCreateWithPriority", device);
    devices().add(handle, device);
  }
  impl_ = std::make_shared<Impl>(device, kind, handle);
}

Device device_of(void* stream) { return devices().find(stream); }

Device Stream::device() const { return impl_->device; }
void* Stream::handle() const { return impl_->handle; }

void Stream::wait(const Event& event) const {
  if (!event.recorded()) return;
  select_any();
  check_call(cudaStreamWaitEvent(impl_->handle, static_cast<cudaEvent_t>(event.handle()), 0),
             "cudaStreamWaitEvent", impl_->device);
}

bool Stream::idle() const {
  select_any();
  return answer(cudaStreamQuery(impl_->handle), "cudaStreamQuery", impl_->device);
}

bool Stream::recording() const {
  select_any();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_call(cudaStreamIsCapturing(impl_->handle, &status), "cudaStreamIsCapturing", impl_->device);
  return status == cudaStreamCaptureStatusActive;
}

void Stream::synchronize(std::chrono::milliseconds limit) const {
  const Event event(impl_->device);
  event.record(*this);
  check<DeviceError>(event.wait(limit), "synchronize on ", impl_->device,
                     ": the work queued there was not done after ", limit.count(),
                     " ms; a kernel that never ends, or a peer that never answers");
}

struct Event::Impl {
  Device device;
  int kind;
  cudaEvent_t handle;
  // by this owner: a spare one still holds the mark of its last
  std::atomic<bool> recorded = false;
  // in a graph, which may mark it still; or whose capture failed: then it answers with errors
  std::atomic<bool> captured = false;
  Impl(Device d, int k, cudaEvent_t h) : device(d), kind(k), handle(h) {}
  ~Impl() {
    if (!captured) spare_events().give(device.index, kind, handle);
  }
};

Event::Event(Device device, Timing timing) {
  const UseDevice use(device);
  const int kind = static_cast<int>(timing);
  cudaEvent_t handle = spare_events().take(device.index, kind);
  if (!handle)
    check_call(cudaEventCreateWithFlags(
                   &handle, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
               "cudaEventCreateWithFlags", device);
  impl_ = std::make_shared<Impl>(device, kind, handle);
}

void* Event::handle() const { return impl_->handle; }

void Event::record(const Stream& stream) const {
  select_any();
  impl_->recorded = true;
  if (stream.recording()) impl_->captured = true;
  check_call(cudaEventRecord(impl_->handle, static_cast<cudaStream_t>(stream.handle())),
             "cudaEventRecord", impl_->device);
}

// A captured event without the flag would be a fork inside of the graph; with it, and no capture,
// the call fails.
void Event::record_external(const Stream& stream) const {
  const bool recording = stream.recording();
  const unsigned flags = recording ? cudaEventRecordExternal : cudaEventRecordDefault;
  impl_->recorded = true;
  if (recording) impl_->captured = true;
  check_call(
      cudaEventRecordWithFlags(impl_->handle, static_cast<cudaStream_t>(stream.handle()), flags),
      "cudaEventRecordWithFlags", impl_->device);
}

bool Event::recorded() const { return impl_->recorded; }

bool Event::done() const {
  if (!impl_->recorded) return true;
  select_any();
  return answer(cudaEventQuery(impl_->handle), "cudaEventQuery", impl_->device);
}

bool Event::wait(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  count_wait();
  const auto begin = Clock::now(), spin_until = begin + std::chrono::microseconds(200);
  while (!done()) {
    const auto now = Clock::now();
    if (now - begin >= limit) return false;
    // short waits: no sleep is short enough
    if (now < spin_until)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

double Event::milliseconds(const Event& from, const Event& to) {
  float time = 0;
  check_call(cudaEventElapsedTime(&time, from.impl_->handle, to.impl_->handle),
             "cudaEventElapsedTime", from.impl_->device);
  return static_cast<double>(time);
}

const Stream& current_stream(Device device) {
  for (const Stream& stream : used)
    if (stream.device() == device) return stream;
  thread_local std::deque<Stream> mains;  // a copy of the table, without its lock
  for (const Stream& stream : mains)
    if (stream.device() == device) return stream;
  return mains.emplace_back(main_stream(device));
}

void* launch_stream(Device device) {
  select(device);
  return current_stream(device).handle();
}

UseStream::UseStream(Stream stream) {
  for (Stream& present : used)
    if (present.device() == stream.device()) {
      before_ = std::exchange(present, std::move(stream));
      return;
    }
  device_ = stream.device();
  used.push_back(std::move(stream));
}
UseStream::~UseStream() {
  if (!before_.defined()) {
    std::erase_if(used, [&](const Stream& stream) { return stream.device() == device_; });
    return;
  }
  for (Stream& present : used)
    if (present.device() == before_.device()) present = std::move(before_);
}

}  // namespace gossamer::cuda
#endif
