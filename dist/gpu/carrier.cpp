// Snapshots between GPUs.
#include "gossamer/dist/gpu/carrier.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {

GpuCarrier::GpuCarrier(Parts parts, std::shared_ptr<void> keep)
    : keep_(std::move(keep)), parts_(std::move(parts)), taken_(parts_.port.make_event()) {}
GpuCarrier::~GpuCarrier() = default;

void GpuCarrier::start(int peer, std::uint64_t session, const Progress& note, Seconds limit) {
  session_ = session;
  parts_.port.record(taken_, DevicePort::Lane::exchange);
  if (!parts_.payload) return parts_.staging->start(peer, session, taken_, note, limit);
  GpuEdge::Request request{.session = session,
                           .send = parts_.own.data(),
                           .receive = parts_.theirs.data(),
                           .bytes = parts_.own.bytes(),
                           .snapshot = taken_,
                           .note = {},
                           .inspect = {},
                           .sound = {},
                           .until = 0};
  request.note.resize(sizeof note);
  std::memcpy(request.note.data(), &note, sizeof note);
  request.inspect = [this] { inspect(); };
  request.sound = [this] { return std::isfinite(distance_); };
  parts_.payload->exchange(peer, std::move(request), limit);
}

// Of both sides the same number: infinities are seen by both.
void GpuCarrier::inspect() {
  parts_.port.run(DevicePort::Lane::exchange, [this] {
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
void GpuCarrier::drain(Seconds limit) {
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
