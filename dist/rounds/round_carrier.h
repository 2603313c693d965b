// How the pieces of a round travel: between CPUs a Payload takes them from where they are (here);
// between GPUs they go over pinned memory of the host (dist/gpu/staged_rounds.h). Who calls it, and
// in which order: round_exchange.h.
#pragma once

#include <memory>
#include <span>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// One thread calls all of it: the one that trains.
class RoundCarrier {
 public:
  virtual ~RoundCarrier() = default;
  // What the slot's exchanges send: `piece` (f32 [n]) as the work that its device has been given so
  // far leaves it; it must not change before they have ended. Its last `notes` floats are for the
  // host of whoever receives it.
  virtual void offer(int slot, const Tensor& piece, i64 notes) = 0;
  // Starts the exchange and returns. Event{exchanged, peer, session} follows, as with a Payload:
  // one at a time with each peer, and then the next may start. sends: what the slot offers;
  // receive: of the same size, undefined if nothing is to come.
  virtual void exchange(int slot, int peer, std::uint64_t session, bool sends,
                        const Tensor& receive, Seconds deadline) = 0;
  // After that event, if it was ok and something came. True: it is in `receive`. False: it is on
  // its way, a second event like the first follows.
  virtual bool land(int slot, int peer) = 0;
  struct Arrival {
    // between the slot's piece and what came, without the notes; not finite: it must not be used
    double squared_distance = 0;
    std::span<const float> notes{};  // until the slot's next offer
  };
  virtual Arrival arrival(int slot, int peer) = 0;  // of what landed
  // The slot's exchanges have all ended, not all of them well: returns when nothing reads its piece
  // any more. DistError after the limit.
  virtual void withdraw(int slot, Seconds limit) = 0;
  virtual void abort(int peer) = 0;  // as Payload's
  virtual void settle(Seconds limit) = 0;
};

std::unique_ptr<RoundCarrier> host_round_carrier(Group&, int slots);

}  // namespace gossamer::dist
