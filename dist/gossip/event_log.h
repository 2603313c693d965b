// The events that change a worker's state, and who hears of them (recorder.h, replay.h).
#pragma once

#include <cstdint>

namespace gossamer::dist {

struct WorkerEvent {
  // completed: training is over, the worker's progress stays. lost: a worker is a member no more.
  enum class Kind : std::uint8_t { gradient, snapshot, applied, failed, completed, lost };
  Kind kind = Kind::gradient;
  int peer = -1;                      // snapshot, applied, failed, lost
  std::uint64_t session = 0;          // snapshot, applied, failed
  double t = 0;                       // snapshot: the clock value it was mixed to
  double learning_rate = 0, eta = 0;  // gradient: as given to step(); in force from then on
};

// Hears every event of one worker, in the order in which they change its state. What it throws ends
// the run of this worker.
class EventLog {
 public:
  virtual ~EventLog() = default;
  virtual void happened(const WorkerEvent&) = 0;  // under the mutex of the worker's state
  // After the last event. digest: of the parameters, before the final average.
  virtual void ended(std::uint64_t digest) = 0;
  virtual void failed() {}  // the communication thread has stopped with an error
};

}  // namespace gossamer::dist
