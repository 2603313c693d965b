// What exchanges, sums and snapshots on a GPU need of a device, and no more. Implemented by CUDA
// (gpu/cuda_port.h) and by fakes in the tests, which make every order of events happen that a real
// device may produce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace gossamer::dist {

// One worker's GPU. Three streams matter here: that of the training, one of high priority for
// exchanges, whose kernels may wait for another GPU, and one for measurements, whose kernels never
// do. Nothing here waits for the device. Errors of the device are DeviceErrors. Calls
// may come from several threads.
class DevicePort {
 public:
  enum class Stream : std::uint8_t { compute, exchange, measure };
  using Event = std::uint32_t;
  virtual ~DevicePort() = default;
  virtual Event make_event() = 0;
  // it is not used any more; its number may be given out again
  virtual void free_event(Event) {}
  // Marks the work that the stream has been given so far. On the compute stream while its graph is
  // recorded: each launch does, at this place.
  virtual void record(Event, Stream) = 0;
  // later work of the stream starts after the event's last mark; the host goes on
  virtual void wait(Stream, Event) = 0;
  virtual bool done(Event) = 0;  // its last mark is reached (true if there is none)
  // what `kernels` launches goes to the stream
  virtual void run(Stream, const std::function<void()>& kernels) = 0;
  virtual void copy(Stream, void* to, const void* from, std::size_t bytes) = 0;
};

}  // namespace gossamer::dist
