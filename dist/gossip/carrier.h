// How the two snapshots of an exchange travel: between CPUs through a Payload (here), or between
// the buffers of GPUs (dist/gpu/carrier.h).
#pragma once

#include <memory>

#include "gossamer/dist/gossip/roster.h"
#include "gossamer/dist/gpu/port.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// The note of an exchange.
std::span<const char> note_of(const Progress& own);
Progress progress_in(const Event&);  // DistError if its note is none of these

class Carrier {
 public:
  virtual ~Carrier() = default;
  // The buffers of the two snapshots, f32 or f16 [size]; the device they are on, none for a CPU.
  virtual const Tensor& own() const = 0;
  virtual const Tensor& received() const = 0;
  virtual DevicePort* device() const { return nullptr; }
  // One exchange at a time: sends what own() holds after the work that the exchange lane has been
  // given so far, and returns; Event{exchanged, peer, session} follows.
  virtual void start(int peer, std::uint64_t session, const Progress& note, Seconds limit) = 0;
  struct Arrival {
    double squared_distance = 0;  // of the two snapshots; not finite: they must not be applied
    Progress theirs;
  };
  virtual Arrival arrived(const Event&) = 0;  // that event, if it was ok
  virtual void abort(int peer) = 0;           // as Payload's
  virtual void drain(Seconds limit) = 0;
};

// size: of x.
std::unique_ptr<Carrier> host_carrier(Group&, i64 size);

}  // namespace gossamer::dist
