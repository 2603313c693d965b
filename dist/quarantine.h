// Which worker is broken: its models are refused (usual_distance.h) by those who exchange with it.
// The others then go on without it, and it ends with an error. Of two that refuse each other nobody
// can say whose model is wrong; several that refuse the same one can.
//
// A worker that has refused the same peer kInARow times in a row, with no exchange that came
// through in between, tells all that it doubts it, and takes that back when one comes through. A
// worker is broken when more than half of its neighbours doubt it, and at least two; or when it
// says so itself, because its own model is not finite. So one liar puts nobody in quarantine, but
// two that are both neighbours of a third on a ring can; and a worker with one neighbour stays.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Quarantine {
 public:
  static constexpr int kInARow = 5;
  Quarantine(int self, int workers) : self_(self), workers_(workers) {}

  // The end of an exchange with `peer`. What all others are to be told, if anything.
  // own_is_finite: of this worker's model.
  std::optional<Message> applied(int peer);
  std::optional<Message> refused(int peer, bool own_is_finite);
  void heard(int from, const Message& doubt);
  // The last word of a worker that others have put here.
  Message resigns() { return say(self_, true); }
  // The worker is gone, or was started again: what it said and what was said of it is no more.
  void forget(int worker);

  // neighbours: of the worker, those that live
  bool is_broken(int worker, const std::vector<int>& neighbours) const;
  // An error for the worker itself: who doubts it, and what to do.
  std::string verdict(const std::vector<int>& neighbours) const;

 private:
  std::vector<int> doubters(int worker, const std::vector<int>& among) const;
  bool doubts(int who, int whom) const { return doubts_.contains({who, whom}); }
  Message say(int of, bool doubt);

  int self_, workers_;
  std::map<int, int> in_a_row_;             // refusals, by peer
  std::set<std::pair<int, int>> doubts_{};  // who doubts whom
};

}  // namespace gossamer::dist
