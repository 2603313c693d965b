// The order of the work on a GPU's (x, x~).
#include "gossamer/dist/gossip/gpu_carrier.h"

#include <chrono>
#include <thread>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
constexpr auto kLook = std::chrono::microseconds(20);
constexpr double kStepLimit = 600;  // seconds
}  // namespace

GpuCarrier::GpuCarrier(DevicePort& port, Tensor own, Tensor theirs)
    : port_(port),
      own_(std::move(own)),
      theirs_(std::move(theirs)),
      order_(port.make_event()),
      gradients_(port.make_event()) {
  check<ShapeError>(own_.numel() == theirs_.numel() && own_.dtype() == theirs_.dtype(),
                    "snapshots of an exchange: ", own_.dtype(), " ", own_.shape(), " and ",
                    theirs_.dtype(), " ", theirs_.shape());
  leave(Lane::compute);  // what made (x, x~) comes before the first snapshot
}

void GpuCarrier::enter(Lane lane) { port_.wait(lane, order_); }
void GpuCarrier::leave(Lane lane) { port_.record(order_, lane); }

void GpuCarrier::training_begins(WorkerState<Tensor>& worker) {
  settle_difference(worker);
  enter(Lane::compute);
}
void GpuCarrier::training_ends() { leave(Lane::compute); }

void GpuCarrier::snapshot(WorkerState<Tensor>& worker, double t) {
  settle_difference(worker);
  enter(Lane::exchange);
  mark_ = worker.peek(t, [&](double c, double s) {
    port_.run(Lane::exchange, [this, &worker, c, s] {
      Tensor snapshot = own_;
      take_snapshot(worker.x(), worker.has_twin() ? worker.twin() : Tensor(), static_cast<float>(c),
                    static_cast<float>(s), snapshot);
    });
  });
  leave(Lane::exchange);
}

// Whoever uses the difference waits for [order], and so for what brought it.
void GpuCarrier::apply(WorkerState<Tensor>&) {
  enter(Lane::exchange);
  leave(Lane::exchange);
  kept_ = true;
}

void GpuCarrier::gradient_event(WorkerState<Tensor>& worker, double t, Step step) {
  const bool with_difference = std::exchange(kept_, false);
  enter(Lane::compute);
  Carrier::gradient_event(worker, t, [&](const Twin* twin, const Difference*) {
    if (!with_difference) return step(twin, nullptr);
    // the worker has drifted to t already, as (x, x~) will have when they jump
    worker.apply(mark_, [&](double jx, double jy) {
      const Difference late{own_, theirs_, static_cast<float>(jx), static_cast<float>(jy)};
      step(twin, &late);
    });
  });
  leave(Lane::compute);
}

// In a pass of its own.
void GpuCarrier::settle_difference(WorkerState<Tensor>& worker) {
  if (!std::exchange(kept_, false)) return;
  enter(Lane::exchange);
  worker.apply(mark_, [&](double jx, double jy) {
    port_.run(Lane::exchange, [this, &worker, jx, jy] {
      Tensor none, &twin = worker.has_twin() ? worker.twin() : none;
      apply_difference(worker.x(), twin, static_cast<float>(jx), static_cast<float>(jy), own_,
                       theirs_);
    });
  });
  leave(Lane::exchange);
}

// Asleep for half of what it took last time; then awake often enough that the device does not
// notice.
void GpuCarrier::await_gradients() {
  const trace::Scope scope("wait gradients");
  port_.record(gradients_, Lane::compute);
  const PreciseSleep precise;
  const double began = wall_seconds();
  std::this_thread::sleep_for(Seconds(waited_ / 2));
  while (!port_.done(gradients_)) {
    check<DeviceError>(wall_seconds() - began < kStepLimit,
                       "a training step on the GPU takes more than ", kStepLimit, " s");
    std::this_thread::sleep_for(kLook);
  }
  waited_ = wall_seconds() - began;
}

}  // namespace gossamer::dist
