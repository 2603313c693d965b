// Bytes in pinned memory, sent as floats whatever they are.
#include "gossamer/dist/gpu/staging.h"

#include <cstring>
#include <thread>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

HostStaging::HostStaging(Group& group, DevicePort& port, Tensor own, Tensor theirs)
    : group_(group),
      port_(port),
      own_(std::move(own)),
      theirs_(std::move(theirs)),
      send_(cuda::allocate_pinned(own_.bytes() + sizeof(Progress))),
      receive_(cuda::allocate_pinned(own_.bytes() + sizeof(Progress))),
      copied_(port.make_event()) {
  check<ShapeError>(own_.bytes() % sizeof(float) == 0, "a snapshot of ", own_.bytes(),
                    " bytes; wanted a multiple of four");
}

void HostStaging::start(int peer, std::uint64_t session, DevicePort::Event taken,
                        const Progress& own, Seconds limit) {
  const double until = wall_seconds() + limit.count();
  const auto reached = [&](DevicePort::Event e) {
    while (!port_.done(e) && wall_seconds() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return port_.done(e);
  };
  port_.copy(DevicePort::Lane::exchange, send_->data, own_.data(), own_.bytes());
  port_.record(copied_, DevicePort::Lane::exchange);
  if (!reached(taken) || !reached(copied_)) {
    Event late;
    late.kind = Event::Kind::exchanged;
    late.peer = peer;
    late.session = session;
    late.why = "our own snapshot was not on the host in time";
    return group_.control().post(late);
  }
  std::memcpy(static_cast<char*>(send_->data) + own_.bytes(), &own, sizeof own);
  const std::size_t floats = (own_.bytes() + sizeof own) / sizeof(float);
  group_.payload().exchange(peer, session, {static_cast<const float*>(send_->data), floats},
                            {static_cast<float*>(receive_->data), floats},
                            Seconds(std::max(1e-3, until - wall_seconds())));
}

Progress HostStaging::land() {
  Progress theirs;
  std::memcpy(static_cast<void*>(&theirs), static_cast<const char*>(receive_->data) + own_.bytes(),
              sizeof theirs);
  port_.copy(DevicePort::Lane::exchange, theirs_.data(), receive_->data, own_.bytes());
  return theirs;
}

}  // namespace gossamer::dist
