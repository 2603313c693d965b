// Repeats a recorded run (recorder.h): the training thread and the communication thread of a worker
// take turns as they once did. Each does an event only when all recorded before it have happened,
// so all numbers come out the same to the last bit, whatever threads and machines do. Only runs
// without deaths can be replayed.
#pragma once

#include <condition_variable>
#include <mutex>

#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/recorder.h"

namespace gossamer::dist {

// A replayed worker waits this many times longer for a partner than a live one: it comes when its
// own record says so.
inline constexpr double kReplayPatience = 10;

class Replay {
 public:
  // ConfigError: the record is of another run (names the difference), or of one in which a worker
  // died.
  Replay(Record, const RunFacts& wanted, double limit_s);

  // Training: waits until the next event is training's own (gradient or settled), or the record has
  // ended: null. DistError: nothing happened for limit_s, with the event and the peer that are
  // waited for; or give_up() was called.
  const RecordedEvent* await_training();
  // As above, for a gradient: anything else is a DistError, for then the program does not do what
  // was recorded.
  const RecordedEvent& await_gradient();
  void give_up();  // the communication thread has failed

  const RecordedEvent* next() const;  // null: the record has ended
  void pass();                        // the next event has happened
  // DistError unless the parameters are those of the recorded run.
  void check_end(std::uint64_t digest) const;
  // "replay of FILE, event 17 (snapshot with worker 3)"
  std::string place() const;

 private:
  static bool is_training(const RecordedEvent& e) {
    return e.kind == RecordedEvent::Kind::gradient || e.kind == RecordedEvent::Kind::settled;
  }
  std::string place_locked() const;

  const Record record_;
  const double limit_s_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t at_ = 0;
  bool given_up_ = false;
};

// Partners and moments as recorded; says and hears nothing.
class ReplayPolicy : public PartnerPolicy {
 public:
  explicit ReplayPolicy(Replay& replay) : replay_(replay) {}
  void adopt(const Graph&, const std::vector<bool>&) override {}
  void receive(int, const Message&) override {}
  void gone(int peer) override;  // DistError if the record goes on
  void joined(int) override {}
  void stopped(int) override {}
  void advance(const Now&) override {}
  void drop_due(double) override {}
  void stop() override {}
  void begun() override { replay_.pass(); }
  void ended() override { replay_.pass(); }
  std::optional<Meeting> meeting() const override;
  bool may_end() const override;
  // DistError: recorded as applied, but it did not arrive
  bool accepts(bool arrived) const override;
  bool may_stop() const override { return replay_.next() == nullptr; }
  bool resting() const override { return true; }
  Wake wake() const override { return {}; }
  Hold hold() const override { return {}; }
  std::vector<std::pair<int, Message>> take_messages() override { return {}; }

 private:
  Replay& replay_;
};

}  // namespace gossamer::dist
