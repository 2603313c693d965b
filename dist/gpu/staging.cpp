// Bytes in pinned memory.
#include "gossamer/dist/gpu/staging.h"

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
      send_(cuda::allocate_pinned(own_.bytes())),
      receive_(cuda::allocate_pinned(own_.bytes())),
      copied_(port.make_event()) {}

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
  const auto bytes = [&](const std::shared_ptr<Block>& block) {
    return Tensor::wrap(block->data, {static_cast<i64>(own_.bytes())}, DType::u8, [block] {});
  };
  group_.payload().exchange(peer, session, bytes(send_), bytes(receive_), note_of(own),
                            Seconds(std::max(1e-3, until - wall_seconds())));
}

Progress HostStaging::land(const Event& e) {
  const Progress theirs = progress_in(e);
  port_.copy(DevicePort::Lane::exchange, theirs_.data(), receive_->data, own_.bytes());
  return theirs;
}

}  // namespace gossamer::dist
