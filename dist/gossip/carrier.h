// How the two snapshots of an exchange are taken and applied: on a CPU (here), or on a GPU
// (gpu_carrier.h). A Payload moves them.
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
  // Second half, of the last snapshot, when the peer's is there. On a GPU the gradient event takes
  // the difference along, if that comes next.
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
  // The last snapshot, and where the peer's goes. One exchange at a time.
  virtual const Tensor& own() const = 0;
  virtual const Tensor& theirs() const = 0;
};

// For snapshots of `x`, of this type on their way.
std::unique_ptr<Carrier> make_carrier(Group&, const Tensor& x, DType wire);

}  // namespace gossamer::dist
