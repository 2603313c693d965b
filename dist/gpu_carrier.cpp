// The order of the work on a GPU's (x, x~).
#include "gossamer/dist/gpu_carrier.h"

#include <cmath>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/core/fused_update.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {

GpuCarrier::GpuCarrier(DevicePort& port, GpuPayload& payload, Tensor own, Tensor theirs, std::shared_ptr<void> keep)
    : keep_(std::move(keep)), port_(port), payload_(payload), own_(std::move(own)), theirs_(std::move(theirs)), order_(port.make_event()), taken_(port.make_event()) {
  check<ShapeError>(own_.numel() == theirs_.numel() && own_.dtype() == theirs_.dtype(), "snapshots of an exchange: ", own_.dtype(), " ", own_.shape(), " and ",
                    theirs_.dtype(), " ", theirs_.shape());
}
GpuCarrier::~GpuCarrier() = default;

void GpuCarrier::enter(Lane lane) { port_.wait(lane, order_); }
void GpuCarrier::leave(Lane lane) { port_.record(order_, lane); }

void GpuCarrier::gradient_begins() { enter(Lane::compute); }
void GpuCarrier::gradient_ended() { leave(Lane::compute); }

void GpuCarrier::snapshot(WorkerState<Tensor>& worker, double t) {
  enter(Lane::exchange);
  port_.run(Lane::exchange, [&] {
    mark_ = worker.peek(t, [&](double c, double s) {
      fused::snapshot(worker.x(), worker.has_twin() ? worker.twin() : Tensor(), static_cast<float>(c), static_cast<float>(s), own_);
    });
  });
  leave(Lane::exchange);
  port_.record(taken_, Lane::exchange);
}

// Behind the snapshot in the same stream, and behind what has been done to (x, x~) since.
void GpuCarrier::apply(WorkerState<Tensor>& worker) {
  enter(Lane::exchange);
  port_.run(Lane::exchange, [&] {
    worker.apply(mark_, [&](double jx, double jy) {
      Tensor none, &twin = worker.has_twin() ? worker.twin() : none;
      fused::apply_difference(worker.x(), twin, static_cast<float>(jx), static_cast<float>(jy), own_, theirs_);
    });
  });
  leave(Lane::exchange);
}

void GpuCarrier::start(int peer, std::uint64_t session, const Progress& own, Seconds limit) {
  session_ = session;
  GpuEdge::Request request{.session = session, .send = own_.data(), .receive = theirs_.data(), .bytes = own_.bytes(), .snapshot = taken_, .note = {},
                           .inspect = {}, .sound = {}, .until = 0};
  request.note.resize(sizeof own);
  std::memcpy(request.note.data(), &own, sizeof own);
  // Of both sides the same number: infinities are seen by both.
  request.inspect = [this] {
    port_.run(Lane::exchange, [this] {
      if (own_.dtype() == DType::f32) {
        distance_ = squared_distance(own_, theirs_);
        return;
      }
      Tensor difference = Tensor::zeros(own_.shape(), DType::f32, own_.device()), none;
      fused::apply_difference(difference, none, -1, 0, own_, theirs_);
      distance_ = squared_norm(difference);
    });
  };
  request.sound = [this] { return std::isfinite(distance_); };
  payload_.exchange(peer, std::move(request), limit);
}

Carrier::Arrival GpuCarrier::arrived() {
  Arrival out{.squared_distance = distance_, .theirs = {}};
  const std::vector<char> note = payload_.note(session_);
  check<DistError>(note.size() == sizeof out.theirs, "a note of ", note.size(), " bytes came with exchange ", session_, "; wanted ", sizeof out.theirs);
  std::memcpy(static_cast<void*>(&out.theirs), note.data(), sizeof out.theirs);
  return out;
}

}  // namespace gossamer::dist
