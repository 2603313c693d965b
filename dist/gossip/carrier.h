// How the two snapshots of an exchange are taken, travel, and are applied: between floats on CPUs
// through a Payload (here), or between the buffers of GPUs (dist/gpu/carrier.h).
#pragma once

#include <memory>

#include "gossamer/core/parallel.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/gossip/roster.h"
#include "gossamer/dist/gossip/worker_state.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// The note of an exchange.
std::span<const char> note_of(const Progress& own);
Progress progress_in(const Event&);  // DistError if its note is none of these

class Carrier {
 public:
  virtual ~Carrier() = default;
  // --- under the mutex of the state. On a GPU these only enqueue: the order of the calls is the
  // order in which the device does them. first half of a communication event
  virtual void snapshot(WorkerState<Tensor>&, double t) = 0;
  // Second half, of the last snapshot; after arrived(). On a GPU the gradient event takes the
  // difference along, if that comes next.
  virtual void apply(WorkerState<Tensor>&) = 0;
  // step: Optimizer::step with these. No twin for AD-PSGD; late: a difference that goes with it, or
  // null.
  using Step = FunctionRef<void(const Twin*, const Difference* late)>;
  virtual void gradient_event(WorkerState<Tensor>& worker, double t, Step step) {
    worker.gradient_event(t, [&](double c, double s) {
      if (!worker.has_twin()) return step(nullptr, nullptr);
      const Twin twin{worker.twin(), static_cast<float>(c), static_cast<float>(s)};
      step(&twin, nullptr);
    });
  }
  // Around what else the training thread does to (x, x~), or reads of them: it comes after all that
  // was enqueued or applied before, and before all that is enqueued later.
  virtual void training_begins(WorkerState<Tensor>&) {}
  virtual void training_ends() {}
  // --- outside of it
  // Before a gradient event. On a GPU it returns when the device has the gradients.
  virtual void await_gradients() {}
  // One exchange at a time:
  // Sends the last snapshot and returns; Event{exchanged, peer, session} follows.
  virtual void start(int peer, std::uint64_t session, const Progress& own, Seconds limit) = 0;
  struct Arrival {
    double squared_distance = 0;  // of the two snapshots; not finite: they must not be applied
    Progress theirs;
  };
  virtual Arrival arrived(const Event&) = 0;  // that event, if it was ok
  virtual void abort(int peer) = 0;           // as Payload's
  virtual void settle(Seconds limit) = 0;
};

// size: of x.
std::unique_ptr<Carrier> host_carrier(Group&, i64 size);

}  // namespace gossamer::dist
