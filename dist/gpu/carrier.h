// Snapshots on a GPU. Work on (x, x~) is enqueued on two streams and done in one order: each piece
// waits, on the device, for the one before. So the computation waits for a snapshot's 0.1 ms at
// most, never for a peer:
//
//   compute  ── fwd k ── bwd k ──[order]─ step k ─[order]── fwd k+1 ── bwd k+1 ──[order]─ step k+1
//   and jump ─[order]── exchange ───────[order]─ snapshot ─[order, taken]····(both READY)─ NCCL or
//   copy ─ inspect ·(both MOVED)·[order] host                                  polls taken launches
//   polls           polls, confirms     keeps the difference training thread   enqueues fwd, bwd k
//   ─ waits for their end ─ enqueues step k, fwd and bwd k+1 ─ …
//
// The training thread does not run ahead of the device by an update: behind one that waits for a
// whole step to come, a snapshot would wait as long, and an exchange would take two steps where its
// transfer needs a part of one. The difference waits for the next gradient event, whose pass over
// memory takes it along (mix, update, jump). Layers read the copy that only this pass writes, so
// for them nothing is late. If something else comes first (a snapshot, a checkpoint, the end), it
// is applied before that.
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

  void snapshot(WorkerState<Tensor>&, double t) override;
  void apply(WorkerState<Tensor>&) override;
  void gradient_event(WorkerState<Tensor>&, double t, Step) override;
  void await_gradients() override;
  void training_begins(WorkerState<Tensor>&) override;
  void training_ends() override;
  void start(int peer, std::uint64_t session, const Progress& own, Seconds limit) override;
  Arrival arrived(const Event&) override;
  void abort(int peer) override;
  void settle(Seconds limit) override;

 private:
  using Lane = DevicePort::Lane;
  void enter(Lane);
  void leave(Lane);
  void settle_difference(WorkerState<Tensor>&);
  void inspect();

  const std::shared_ptr<void> keep_;  // destroyed last
  const Parts parts_;
  // the last work on (x, x~); the last snapshot; the last backward
  const DevicePort::Event order_, taken_, gradients_;
  double waited_ = 0;  // seconds, for the last backward
  std::uint64_t session_ = 0;
  double mark_ = 0, distance_ = 0;
  // the difference of the last snapshot is there, and not applied yet
  bool kept_ = false;
};

}  // namespace gossamer::dist
