// How exchanges appear in traces: a lane for each peer, and an arrow from the sender's snapshot to
// what the receiver made of it.
#pragma once

#include <string>

#include "gossamer/core/trace.h"

namespace gossamer::dist {

// The id of the arrow for what `from` sends to `to` in this session. Below 2^53: JSON readers keep
// numbers as doubles.
inline std::uint64_t arrow_id(int from, int to, std::uint64_t session) {
  return static_cast<std::uint64_t>(from) << 42 | static_cast<std::uint64_t>(to) << 32 |
         (session & 0xffffffffu);
}
// The ends of an arrow. Called within the slice in which the snapshot was taken, and within the
// slice in which the peer's was used.
inline void trace_departure(int self, int peer, std::uint64_t session) {
  trace::flow("exchange", arrow_id(self, peer, session), true);
}
inline void trace_arrival(int self, int peer, std::uint64_t session) {
  trace::flow("exchange", arrow_id(peer, self, session), false);
}

// The transfer itself goes on beside its thread, and beside transfers with others.
inline double transfer_begins() { return trace::enabled() ? trace::now_us() : 0; }
inline void trace_transfer(int peer, double began_us) {
  if (trace::enabled())
    trace::complete("transfer", began_us, trace::now_us(), peer,
                    trace::lane("exchange with " + std::to_string(peer)));
}

}  // namespace gossamer::dist
