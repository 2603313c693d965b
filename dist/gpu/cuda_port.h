// The DevicePort of a real GPU.
#pragma once

#include <memory>

#include "gossamer/core/cuda.h"
#include "gossamer/dist/gpu/port.h"

namespace gossamer::dist {

class CudaPort final : public DevicePort {
 public:
  // The compute stream is the calling thread's current stream. A thread that records a graph marks
  // events in that.
  explicit CudaPort(Device);
  ~CudaPort() override;
  Event make_event() override;
  void free_event(Event) override;
  void record(Event, Stream) override;
  void wait(Stream, Event) override;
  bool done(Event) override;
  void run(Stream, const std::function<void()>& kernels) override;
  void copy(Stream, void* to, const void* from, std::size_t bytes) override;
  const cuda::Stream& stream(Stream) const;
  Device device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
