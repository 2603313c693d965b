// Repeats a recorded run (recorder.h) bit for bit. The training thread and the communication thread
// of a worker take turns as they once did: each does an event only when all recorded before it have
// happened. So all numbers come out the same to the last bit, whatever threads and machines do.
// Only runs in which no worker was lost can be replayed, and all workers must replay.
//
// Three parts stand around a method that knows nothing of it: a Method that holds each gradient
// back until its turn, a policy that names partners and moments from the record, and an EventLog
// that follows the events and compares them with the record.
#pragma once

#include <memory>

#include "gossamer/dist/method_context.h"

namespace gossamer::dist {

struct GossipKind {
  // A2CiD2: a twin x~ and the drift between both. Otherwise the asynchronous baseline, AD-PSGD:
  // eta = 0, no twin.
  bool accelerated = true;
  bool tracks = false;        // tracking.h
  bool equal_weight = false;  // equal_weight.h
};

// A GossipMethod, recorded or replayed as options.record and options.replay say. ConfigError: the
// record is of another run (names the difference), or a worker was lost in it. IoError: see
// read_record(). While it replays, DistError with the file, the event and the peer: nothing happens
// for long, or another event happens than was recorded; at the end, the parameters are others, or a
// worker is missing because its own replay failed.
std::unique_ptr<Method> make_gossip(const MethodTraits&, const GossipKind&, const MethodContext&);

}  // namespace gossamer::dist
