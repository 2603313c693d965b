// Snapshots on CPUs; the progress is the note that goes with them.
#include "gossamer/dist/gossip/carrier.h"

#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/gpu_carrier.h"

namespace gossamer::dist {
namespace {

class HostCarrier final : public Carrier {
 public:
  explicit HostCarrier(i64 size) : own_(Tensor::zeros({size})), theirs_(Tensor::zeros({size})) {}

  void snapshot(WorkerState<Tensor>& worker, double t) override {
    mark_ = worker.snapshot(t, own_);
  }
  void apply(WorkerState<Tensor>& worker) override { worker.apply(mark_, own_, theirs_); }

  const Tensor& own() const override { return own_; }
  const Tensor& theirs() const override { return theirs_; }

 private:
  Tensor own_, theirs_;  // [size]
  double mark_ = 0;
};

}  // namespace

std::span<const char> note_of(const Progress& own) {
  return {reinterpret_cast<const char*>(&own), sizeof own};
}

Progress progress_in(const Event& e) {
  Progress theirs;
  check<DistError>(e.note.size() == sizeof theirs, "a note of ", e.note.size(),
                   " bytes came with exchange ", e.session, "; wanted ", sizeof theirs);
  std::memcpy(static_cast<void*>(&theirs), e.note.data(), sizeof theirs);
  return theirs;
}

std::unique_ptr<Carrier> make_carrier(Group& group, const Tensor& x, DType wire) {
  DevicePort* const port = group.device_port();
  if (port == nullptr) {
    check<ConfigError>(wire == DType::f32, "snapshots between CPUs are f32, not ", wire);
    return std::make_unique<HostCarrier>(x.numel());
  }
  return std::make_unique<GpuCarrier>(*port, Tensor::empty({x.numel()}, wire, x.device()),
                                      Tensor::empty({x.numel()}, wire, x.device()));
}

}  // namespace gossamer::dist
