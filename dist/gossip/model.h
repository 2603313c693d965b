// x and x~ of one worker in memory, or x, y and g of tracking.h, the two snapshots of an exchange,
// and what events do to them: the numbers of a2cid2.h applied to tensors. All calls but
// await_gradients() are under the mutex of the worker's state, so events have one order.
//
// On a GPU the calls only enqueue. Work on (x, x~) goes to two streams and is done in one order:
// each piece waits, on the device, for the one before. So the computation waits for a snapshot's
// 0.1 ms at most, never for a peer:
//
//   compute   ─ fwd k ─ bwd k ─[order]─ step k, difference, copy ─[order]─ fwd k+1 ─ bwd k+1 ─ …
//   exchange  ─[order]─ snapshot ─[order]─ transfer, distance ─[order]─ …
//   host        polls the end of bwd k, enqueues step k and fwd and bwd k+1 ─ …
//
// The training thread enqueues an update only when the device has its gradients. Otherwise a
// snapshot would queue behind an update that waits for a whole backward pass, and an exchange would
// take two steps, although its transfer takes a part of one.
//
// When a difference is applied: in the next gradient event, whose pass over memory applies it too,
// with the bits of a pass of its own. Layers read the copy that only this pass writes, so for them
// nothing is late. If something else comes first (a snapshot, a checkpoint, the end), the
// difference is applied before that.
#pragma once

#include <optional>

#include "gossamer/core/update.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/consensus_estimate.h"
#include "gossamer/dist/device_port.h"
#include "gossamer/dist/gossip/a2cid2.h"

namespace gossamer::dist {

class GossipModel {
 public:
  // x: the master values of the parameters. The twin starts as a copy; AD-PSGD has none. tracks:
  // with y and g, which start as 0; on a CPU.
  GossipModel(Tensor x, bool with_twin, bool tracks = false);
  // Before the first exchange. wire: the type of snapshots, f32 or f16. device: of x; none: a CPU.
  // coding: how they travel between CPUs. ConfigError: snapshots between CPUs are f32, those
  // between GPUs have no coding.
  void exchange_by(DType wire, DevicePort* device, Coding coding = Coding::f32);

  A2cid2 numbers;
  Tensor& x() { return x_; }
  Tensor& twin() { return twin_; }  // undefined: AD-PSGD
  bool has_twin() const { return twin_.defined(); }
  bool tracks() const { return tracker_.defined(); }
  // g, f32 [1, n]; undefined: nothing is tracked.
  const Tensor& last_gradient() const { return last_gradient_; }
  // y <- g, as a new epoch begins.
  void restart_tracking();
  // Before the optimizer's begin_step() of a gradient event: y and g follow `gradient`, f32 [n],
  // which becomes y.
  void track(const Tensor& gradient);
  // What coding has taken and not sent yet, f32 [1, values sent]; undefined: nothing is lost.
  const Tensor& error() const { return error_; }
  // The buffers of the exchange under way: what goes to the peer, and where the peer's snapshot
  // comes. The thread that exchanges calls pack() before ours travels and unpack() when the peer's
  // has come, without the mutex. unpack() returns the squared distance of the two snapshots, which
  // is `known` if they did not need unpacking; that of their parameters alone is a part of it.
  const Tensor& outgoing() const { return codes_ ? codes_->bytes() : own_; }
  const Tensor& incoming() const { return codes_ ? received_codes_ : received_; }
  void pack();
  double unpack(double known);
  double part_of_parameters(double squared_distance) const;
  // The norm of our snapshot, between the two halves of an exchange. Called without the mutex, as
  // pack() is; waits for a GPU.
  double snapshot_norm();
  // The sketch of x as it is at `t`, with those signs (consensus_estimate.h); changes nothing, so
  // that a replay without it has the same bits. Under the mutex; waits for a GPU.
  PairSketch sketch(double t, std::uint64_t stream);

  // A gradient event at `t`, after the optimizer's begin_step().
  void gradient(double t, Optimizer&, float learning_rate);
  // First half of a communication event: own <- x at `t`, and y.
  void snapshot(double t);
  // Second half: the peer's snapshot has come. to_tracker: y is averaged too.
  void arrived(bool to_tracker = true);
  // While it lives, the training thread may read and write x and x~, as all events so far left
  // them; later events see what it did.
  class Access {
   public:
    explicit Access(GossipModel&);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    GossipModel& model_;
  };
  // x was replaced from outside, so the twin becomes a copy of it.
  void restart();
  // Waits until the device has the gradients. Called before a gradient event, without the mutex.
  void await_gradients();

 private:
  using Stream = DevicePort::Stream;
  void enter(Stream);
  void leave(Stream);
  template <class F>
  void run(Stream, F);
  void apply_kept();

  Tensor x_, twin_, own_, received_;  // own_: the snapshot as the peer gets it
  Tensor own_x_, received_x_;         // the part of it that is x
  Tensor tracker_, last_gradient_, own_y_, received_y_;
  Coding coding_ = Coding::f32;
  std::optional<Coded> codes_;
  Tensor error_, received_codes_;
  A2cid2::Mark mark_;  // of the last snapshot
  bool kept_ = false;  // its difference is there, and not applied yet
  DevicePort* device_ = nullptr;
  DevicePort::Event order_ = 0, gradients_ = 0;  // the last work on (x, x~); the last backward
  double waited_ = 0;                            // seconds, for the last backward
};

}  // namespace gossamer::dist
