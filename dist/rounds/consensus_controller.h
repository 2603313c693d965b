// How far apart workers may be while they train, and what is done when they are further (Kong et
// al., ICML 2021): after a local step they gossip on until their distance Xi = sqrt(mean |x_i -
// mean|^2) is below a target. The same class controls the workers of a run (consensus_control.h)
// and those of a simulation (simulation/rounds.cpp); what it acts on is behind ControlledWorkers.
//
// target "plateau": the run has phases; at the start of each, once the learning rate rises no more,
// the distance without control, Xi_max, is measured, and the phase aims at a fraction of it.
// "online": factor * learning rate * (mean gradient norm, smoothed), with nothing to measure first.
// A fraction of 0, or a target that `most` gossip steps do not reach, is met by an exact average
// (all-reduce).
//
// Ours, not the paper's: the last round is made lazy. Whole rounds end somewhere below the target,
// as far as one round takes Xi; of the round that gets below it workers keep only the part that
// ends at the target: W_part = (1 - part) I + part W, whose columns (and rows) sum to 1 as W's do.
// So Xi is kept at its target, not under it: a little more distance, and a few more rounds, than
// gossip on until it is less.
// Threads: one at a time for a ConsensusController.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/dist/control_options.h"
#include "gossamer/dist/method.h"

namespace gossamer::dist {

// All workers of a network. In a real one each worker has a controller and a ControlledWorkers of
// its own, and their calls are collective.
class ControlledWorkers {
 public:
  // Means over all workers, the same numbers on each of them: so all decide alike.
  struct Measured {
    double distance = 0;  // Xi
    // sqrt(mean |x' - x|^2) of the gossip() before; 0: there was none in this step
    double theta = 0;
    double gradient_norm = 0;  // sqrt(mean |g_i|^2), if wanted
    double progress = 0;       // of the run, from 0 to 1; 0: it has no end
    double learning_rate = 0;
  };
  virtual ~ControlledWorkers() = default;
  // none after a death: everything begins anew then, see forget()
  virtual std::optional<Measured> measure(bool gradients) = 0;
  virtual void gossip() = 0;  // one more round of mixing
  // of that round: x <- x + part (x' - x), x as it was before; 0 to 1
  virtual void keep_part(double part) = 0;
  // false if a death came in between
  virtual bool average_exactly() = 0;
  // of the whole run; 0: it has no end
  virtual double steps() const = 0;
};

// The part of a round after which the distance is `target`, if it was `before` and is `after` with
// the whole round, and the round moved workers by `theta` (all as in Measured; after <= target <
// before). With d' = W d the differences from the mean, theta^2 = mean |d' - d|^2, so
//   mean |(1 - part) d + part d'|^2 = (1 - part) before^2 + part after^2 - part (1 - part) theta^2:
// what is measured anyway says it exactly. (Push-sum: where its weights are all 1, as on regular
// rounds; else nearly.) Above 0, at most 1.
double part_of_round(double before, double after, double theta, double target);

class ConsensusController {
 public:
  // ConfigError: what is wrong with them
  explicit ConsensusController(const ConsensusControlOptions&);
  void control(ControlledWorkers&);  // after each local step
  // all workers begin again: measure first, no target
  void forget();
  double target() const { return target_; }  // 0: none now
  // after the last step; below 0: not known yet
  double distance() const { return distance_; }
  // of the last gossip step, whole
  double theta() const { return theta_; }
  const ControlTally& tally() const { return tally_; }

 private:
  std::optional<ControlledWorkers::Measured> measure(ControlledWorkers&);
  // phase and target; rests on measured numbers only
  void follow(const ControlledWorkers::Measured&, double steps);
  void end_measuring();
  bool online() const { return options_.target == "online"; }

  const ConsensusControlOptions options_;
  int phase_ = -1;
  std::vector<double> uncontrolled_;  // distances since the phase began, while it is measured
  i64 to_measure_ = 0;                // steps still left alone
  double rate_ = 0;                   // learning rate of the step before, while it is measured
  double target_ = 0;
  bool exact_ = false;         // exact averages in this phase
  double gradient_norm_ = -1;  // moving average
  double distance_ = -1, theta_ = 0;
  ControlTally tally_;
};

}  // namespace gossamer::dist
