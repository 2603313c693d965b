// Snapshots on a GPU. Work on (x, x~) is enqueued on two streams and done in one order: each piece
// waits, on the device, for the one before. So the computation waits for a snapshot's 0.1 ms at
// most, never for a peer:
//
//   compute   - fwd k - bwd k -[order]- step k -[order]- fwd k+1 - bwd k+1 -[order]- step k+1
//   exchange  ----[order]- snapshot -[order]..(READY both)- transfer - inspect .(MOVED both)
//   training  waits for the end of bwd k - enqueues step k, fwd and bwd k+1 - waits ...
//   gossip    enqueues the snapshot, starts the exchange           keeps the difference d
//
// The training thread does not run ahead of the device by an update: behind one that waits for a
// whole step to come, a snapshot would wait as long, and an exchange would take two steps where its
// transfer needs a part of one. The difference waits for the next gradient event, whose pass over
// memory takes it along (mix, update, jump). Layers read the copy that only this pass writes, so
// for them nothing is late. If something else comes first (a snapshot, a checkpoint, the end), it
// is applied before that.
#pragma once

#include "gossamer/dist/device_port.h"
#include "gossamer/dist/gossip/carrier.h"

namespace gossamer::dist {

class GpuCarrier final : public Carrier {
 public:
  // own, theirs: the buffers of the two snapshots, f32 or f16 [size], of this carrier alone while
  // it lives. The port outlives it.
  GpuCarrier(DevicePort&, Tensor own, Tensor theirs);

  void snapshot(WorkerState<Tensor>&, double t) override;
  void apply(WorkerState<Tensor>&) override;
  void gradient_event(WorkerState<Tensor>&, double t, Step) override;
  void await_gradients() override;
  void training_begins(WorkerState<Tensor>&) override;
  void training_ends() override;
  const Tensor& own() const override { return own_; }
  const Tensor& theirs() const override { return theirs_; }

 private:
  using Lane = DevicePort::Lane;
  void enter(Lane);
  void leave(Lane);
  void settle_difference(WorkerState<Tensor>&);

  DevicePort& port_;
  const Tensor own_, theirs_;
  // the last work on (x, x~); the last backward
  const DevicePort::Event order_, gradients_;
  double waited_ = 0;  // seconds, for the last backward
  double mark_ = 0;    // of the last snapshot
  // the difference of the last snapshot is there, and not applied yet
  bool kept_ = false;
};

}  // namespace gossamer::dist
