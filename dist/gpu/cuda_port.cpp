// Three streams and a list of events.
#include "gossamer/dist/gpu/cuda_port.h"

#include <deque>
#include <mutex>
#include <vector>

namespace gossamer::dist {

struct CudaPort::Impl {
  Device device;
  cuda::Stream compute, exchange, measure;
  std::mutex mutex;  // of the list; the events themselves are thread-safe
  std::deque<cuda::Event> events;
  std::vector<Event> spare;
  const cuda::Event& event(Event e) {
    const std::scoped_lock lock(mutex);
    return events.at(e);
  }
};

CudaPort::CudaPort(Device device) : impl_(std::make_unique<Impl>()) {
  impl_->device = device;
  impl_->compute = cuda::current_stream(device);
  impl_->exchange = cuda::Stream(device, cuda::Stream::Priority::high);
  impl_->measure = cuda::Stream(device);
}
CudaPort::~CudaPort() = default;

DevicePort::Event CudaPort::make_event() {
  const std::scoped_lock lock(impl_->mutex);
  if (!impl_->spare.empty()) {
    const Event e = impl_->spare.back();
    impl_->spare.pop_back();
    impl_->events[e] = cuda::Event(impl_->device);  // a fresh one: never recorded
    return e;
  }
  impl_->events.emplace_back(impl_->device);
  return static_cast<Event>(impl_->events.size() - 1);
}
void CudaPort::free_event(Event e) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->spare.push_back(e);
}
void CudaPort::record(Event e, Stream which) {
  const cuda::Stream& current = cuda::current_stream(impl_->device);
  impl_->event(e).record_external(which == Stream::compute && current.recording() ? current
                                                                                  : stream(which));
}
void CudaPort::wait(Stream which, Event e) { stream(which).wait(impl_->event(e)); }
bool CudaPort::done(Event e) { return impl_->event(e).done(); }

void CudaPort::run(Stream which, const std::function<void()>& kernels) {
  const cuda::UseDevice device(impl_->device);
  const cuda::UseStream use(stream(which));
  kernels();
}

void CudaPort::copy(Stream which, void* to, const void* from, std::size_t bytes) {
  cuda::copy(to, from, bytes, stream(which));
}
const cuda::Stream& CudaPort::stream(Stream which) const {
  switch (which) {
    case Stream::compute:
      return impl_->compute;
    case Stream::exchange:
      return impl_->exchange;
    case Stream::measure:
      break;
  }
  return impl_->measure;
}
Device CudaPort::device() const { return impl_->device; }

}  // namespace gossamer::dist
