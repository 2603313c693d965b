// Snapshots between GPUs: through the thread that owns the edges (payload.h), or over the host
// (staging.h). gossip/model.h orders the work on the device.
#pragma once

#include <memory>

#include "gossamer/dist/gossip/carrier.h"
#include "gossamer/dist/gpu/payload.h"
#include "gossamer/dist/gpu/staging.h"

namespace gossamer::dist {

class GpuCarrier final : public Carrier {
 public:
  struct Parts {
    DevicePort& port;
    GpuPayload* payload = nullptr;
    // the buffers of the two snapshots, f32 or f16 [size], of this carrier alone while it lives
    Tensor own, theirs;
    HostStaging* staging = nullptr;  // instead of a payload
  };
  // keep: what owns the parts.
  GpuCarrier(Parts, std::shared_ptr<void> keep);
  ~GpuCarrier() override;

  const Tensor& own() const override { return parts_.own; }
  const Tensor& received() const override { return parts_.theirs; }
  DevicePort* device() const override { return &parts_.port; }
  void start(int peer, std::uint64_t session, const Progress& note, Seconds limit) override;
  Arrival arrived(const Event&) override;
  void abort(int peer) override;
  void drain(Seconds limit) override;

 private:
  void inspect();

  const std::shared_ptr<void> keep_;  // destroyed last
  const Parts parts_;
  const DevicePort::Event taken_;  // the snapshot of the last exchange
  std::uint64_t session_ = 0;
  double distance_ = 0;
};

}  // namespace gossamer::dist
