// Partner policies decide which neighbours exchange, and when. transfer.h does the exchange.
//   handshake   two neighbours agree on the spot (handshake.h, pairing.h)
//   schedule    all workers draw the same list of events from the seed (appointments.h, schedule.h)
//   rounds      fixed matchings; the partner follows from the number of own gradients (the same)
//   replay      as an earlier run was recorded (replay.cpp)
// Pure state machines: events in, messages out. Time is an argument, so tests and the simulator run
// the very same classes.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

struct MethodOptions;

// wall: seconds; t: the worker's own gradient clock; gradient_s: mean seconds of its gradients, 0
// until one was measured.
struct Now {
  double wall = 0, t = 0, gradient_s = 0;
};
// When a policy wants advance() again though nothing has come: whichever is first.
struct Wake {
  double wall = INFINITY, t = INFINITY;
};
// Training waits when its clock has reached `at`, for `seconds` at most. Then what was due by then
// is dropped (drop_due).
struct Hold {
  double at = INFINITY, seconds = 0;
};

// An exchange that both sides have agreed on. session: the same on both sides, unique for the pair.
struct Meeting {
  int peer = -1;
  std::uint64_t session = 0;
  std::optional<double> t;  // replay: the clock value of the snapshot
};

class PartnerPolicy {
 public:
  virtual ~PartnerPolicy() = default;
  // --- events
  // at the start, and whenever it changes: without the dead
  virtual void adopt(const Graph& graph, const std::vector<bool>& gone) = 0;
  // avail, propose, accept, commit, cancel, decline
  virtual void receive(int peer, const Message&) = 0;
  // dead, or left: takes part in no exchange any more
  virtual void gone(int peer) = 0;
  // a gone peer takes part again, from its first state
  virtual void joined(int peer) = 0;
  // trains no more, but answers until all have stopped
  virtual void stopped(int peer) = 0;
  virtual void advance(const Now&) = 0;  // time has passed
  // training has waited long enough for what was due by t
  virtual void drop_due(double t) = 0;
  // starts nothing more
  virtual void stop() = 0;
  // the snapshot for meeting() has been taken
  virtual void begun() = 0;
  // the exchange is over, whether it came through or not
  virtual void ended() = 0;
  // --- results
  // to begin now, or under way
  virtual std::optional<Meeting> meeting() const = 0;
  // The payload of the exchange has ended: whether to apply it. A replay waits for its turn (no
  // value) and does as recorded.
  virtual std::optional<bool> verdict(bool arrived) const { return arrived; }
  // owes nobody an answer and awaits none: may end
  virtual bool resting() const = 0;
  virtual Wake wake() const = 0;
  virtual Hold hold() const = 0;
  virtual std::vector<std::pair<int, Message>> take_messages() = 0;
};

// The policy that options.pairing names. ConfigError: an unknown name, or a graph that has no
// matchings.
std::unique_ptr<PartnerPolicy> make_partner_policy(const MethodOptions&, const Graph&, int self);

}  // namespace gossamer::dist
