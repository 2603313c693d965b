// Asynchronous gradient tracking, as one worker sees it: AD-PSGD for workers whose data and speeds
// differ. methods/async_tracking.md derives it.
//
// Worker i keeps its parameters x_i, its last gradient g_i, and the tracker y_i, which follows the
// mean of all g. A gradient event with a new gradient g':
//     y += g' - g,      g = g',      x -= the optimizer's step for y in place of g'.
// An exchange makes x_i and x_j their mean, and y_i and y_j theirs, with one message of both. A
// difference of two snapshots that comes late is just subtracted (a2cid2.h with eta = 0), from y
// as from x. Whatever the order of events, neither kind changes
//     sum of (y_i - g_i) = 0,
// unless one side of an exchange averages y and the other does not, or a worker is lost with its y.
// Then y = g on all workers makes it true again, and nobody has to meet for that:
//
// Each worker counts epochs, and two workers average y if both were in the same one when they took
// their snapshots. (x they average in any case.) A new epoch begins with y = g, for a worker
//   that loses another:                                 its own plus 1
//   that hears of a later one:                          that one
//   that hears of as late a one, with which it has not averaged y as often as the other has with
//   it: one of an exchange's two sides had failed:      its own plus 1.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace gossamer::dist {

// A gradient event, for one parameter. A worker alone has y = gradient to the bit, for y - g is 0.
template <class T>
inline void track_element(T gradient, T& g, T& y) {
  y = (y - g) + gradient;
  g = gradient;
}

// The epoch of one worker. Without events but gradients and exchanges that reach both sides it
// stays 0, and y is averaged in all of them.
class TrackingEpoch {
 public:
  // Travels with a snapshot.
  struct Stamp {
    std::uint64_t epoch = 0;
    std::uint64_t averaged = 0;  // how often with this peer in this epoch
  };
  Stamp stamp(int peer) const {
    const auto found = averaged_.find(peer);
    return {epoch_, found == averaged_.end() ? 0 : found->second};
  }

  // What becomes of y: averaged as x is; left as it is; or a new epoch has begun, and it must
  // become g.
  enum class Then : std::uint8_t { average, keep, restart };
  // An exchange with `peer` has come through; own and theirs: the stamps of the two snapshots.
  Then exchanged(int peer, const Stamp& own, const Stamp& theirs) {
    const bool same = own.epoch == theirs.epoch, agreed = own.averaged == theirs.averaged;
    if (same && agreed) {
      // In a later epoch by now, to which the peer will come too: what it averages now is
      // forgotten.
      if (epoch_ != own.epoch) return Then::keep;
      ++averaged_[peer];
      return Then::average;
    }
    return begin(same ? own.epoch + 1 : theirs.epoch);
  }
  // A worker that took part is lost. Its y is, too.
  void lost() { begin(epoch_ + 1); }

 private:
  Then begin(std::uint64_t epoch) {
    if (epoch <= epoch_) return Then::keep;
    epoch_ = epoch;
    averaged_.clear();
    return Then::restart;
  }

  std::uint64_t epoch_ = 0;
  std::map<int, std::uint64_t> averaged_;  // by peer
};

}  // namespace gossamer::dist
