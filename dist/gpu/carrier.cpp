// The order of the work on a GPU's (x, x~).
#include "gossamer/dist/gpu/carrier.h"

#include <chrono>
#include <cmath>
#include <cstring>
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

GpuCarrier::GpuCarrier(Parts parts, std::shared_ptr<void> keep)
    : keep_(std::move(keep)),
      parts_(std::move(parts)),
      order_(parts_.port.make_event()),
      taken_(parts_.port.make_event()),
      gradients_(parts_.port.make_event()) {
  const Tensor &own = parts_.own, &theirs = parts_.theirs;
  check<ShapeError>(own.numel() == theirs.numel() && own.dtype() == theirs.dtype(),
                    "snapshots of an exchange: ", own.dtype(), " ", own.shape(), " and ",
                    theirs.dtype(), " ", theirs.shape());
  leave(Lane::compute);  // what made (x, x~) comes before the first snapshot
}
GpuCarrier::~GpuCarrier() = default;

void GpuCarrier::enter(Lane lane) { parts_.port.wait(lane, order_); }
void GpuCarrier::leave(Lane lane) { parts_.port.record(order_, lane); }

void GpuCarrier::training_begins(WorkerState<Tensor>& worker) {
  settle_difference(worker);
  enter(Lane::compute);
}
void GpuCarrier::training_ends() { leave(Lane::compute); }

void GpuCarrier::snapshot(WorkerState<Tensor>& worker, double t) {
  settle_difference(worker);
  enter(Lane::exchange);
  mark_ = worker.peek(t, [&](double c, double s) {
    parts_.port.run(Lane::exchange, [this, &worker, c, s] {
      Tensor snapshot = parts_.own;
      take_snapshot(worker.x(), worker.has_twin() ? worker.twin() : Tensor(), static_cast<float>(c),
                    static_cast<float>(s), snapshot);
    });
  });
  leave(Lane::exchange);
  parts_.port.record(taken_, Lane::exchange);
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
      const Difference late{parts_.own, parts_.theirs, static_cast<float>(jx),
                            static_cast<float>(jy)};
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
    parts_.port.run(Lane::exchange, [this, &worker, jx, jy] {
      Tensor none, &twin = worker.has_twin() ? worker.twin() : none;
      apply_difference(worker.x(), twin, static_cast<float>(jx), static_cast<float>(jy), parts_.own,
                       parts_.theirs);
    });
  });
  leave(Lane::exchange);
}

// Asleep for half of what it took last time; then awake often enough that the device does not
// notice.
void GpuCarrier::await_gradients() {
  const trace::Scope scope("wait gradients");
  parts_.port.record(gradients_, Lane::compute);
  const double began = wall_seconds();
  std::this_thread::sleep_for(Seconds(waited_ / 2));
  while (!parts_.port.done(gradients_)) {
    check<DeviceError>(wall_seconds() - began < kStepLimit,
                       "a training step on the GPU takes more than ", kStepLimit, " s");
    std::this_thread::sleep_for(kLook);
  }
  waited_ = wall_seconds() - began;
}

void GpuCarrier::start(int peer, std::uint64_t session, const Progress& own, Seconds limit) {
  session_ = session;
  if (!parts_.payload) return parts_.staging->start(peer, session, taken_, own, limit);
  GpuEdge::Request request{.session = session,
                           .send = parts_.own.data(),
                           .receive = parts_.theirs.data(),
                           .bytes = parts_.own.bytes(),
                           .snapshot = taken_,
                           .note = {},
                           .inspect = {},
                           .sound = {},
                           .until = 0};
  request.note.resize(sizeof own);
  std::memcpy(request.note.data(), &own, sizeof own);
  request.inspect = [this] { inspect(); };
  request.sound = [this] { return std::isfinite(distance_); };
  parts_.payload->exchange(peer, std::move(request), limit);
}

// Of both sides the same number: infinities are seen by both.
void GpuCarrier::inspect() {
  parts_.port.run(Lane::exchange, [this] {
    const Tensor &own = parts_.own, &theirs = parts_.theirs;
    if (own.dtype() == DType::f32) {
      distance_ = squared_distance(own, theirs);
      return;
    }
    Tensor difference = Tensor::zeros(own.shape(), DType::f32, own.device()), none;
    apply_difference(difference, none, -1, 0, own, theirs);
    distance_ = squared_norm(difference);
  });
}

void GpuCarrier::abort(int peer) {
  if (!parts_.payload)
    parts_.staging->abort(peer);
  else
    parts_.payload->abort(peer);
}
void GpuCarrier::settle(Seconds limit) {
  if (!parts_.payload)
    parts_.staging->settle(limit);
  else
    parts_.payload->settle(limit);
}

Carrier::Arrival GpuCarrier::arrived(const Event& e) {
  if (!parts_.payload) {
    const Progress theirs = parts_.staging->land(e);
    inspect();
    return {.squared_distance = distance_, .theirs = theirs};
  }
  Arrival out{.squared_distance = distance_, .theirs = {}};
  const std::vector<char> note = parts_.payload->note(session_);
  check<DistError>(note.size() == sizeof out.theirs, "a note of ", note.size(),
                   " bytes came with exchange ", session_, "; wanted ", sizeof out.theirs);
  std::memcpy(static_cast<void*>(&out.theirs), note.data(), sizeof out.theirs);
  return out;
}

}  // namespace gossamer::dist
