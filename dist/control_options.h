// Consensus control as a user sees it: what is asked for, and what it took. How it works:
// rounds/consensus_controller.h.
// Threads: one at a time for a ControlTally.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

struct ConsensusControlOptions {
  std::string method = "dpsgd";  // the synchronous method under control
  // plateau: fractions of the distance without control, measured; online: factor * learning rate *
  // gradient norm
  std::string target = "plateau";
  // plateau: fractions of the run at which the next phase begins, ascending
  std::vector<double> phases{};
  // plateau: the target of each phase (one more than phases); 0: exact averages; 1 or more: no
  // control
  std::vector<double> fractions{0.25};
  // plateau: fraction of the run at the start of a phase that is left alone to measure its
  // distance; a warm-up before it is left alone, too
  double measure = 0.02;
  double factor = 1;  // online
  // gossip steps after one local step; beyond that all workers average exactly (all-reduce)
  int most = 100;
};

// What control has done so far, and what that took.
struct ControlTally {
  i64 steps = 0;  // local steps after which there was a target
  // of those: Xi was within 20 % of it in the end; after a lazy round it is the target, by
  // computation
  i64 near = 0;
  double ratio_sum = 0;        // of Xi / target over those steps, after control
  double least = 0, most = 0;  // Xi / target
  // rounds (a lazy one is one) and all-reduces beyond the method's own
  i64 gossip = 0, exact_averages = 0;
  i64 measurements = 0;  // all-reduces of 8 KB
  double ratio() const { return steps > 0 ? ratio_sum / static_cast<double>(steps) : 0; }
  void count(double distance, double target);
  ControlTally& operator+=(const ControlTally&);
};

}  // namespace gossamer::dist
