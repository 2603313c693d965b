// Consensus Control (Kong et al., ICML 2021): in some phases of training the distance between workers costs accuracy; there they gossip on after
// each local step until it is below a target. It wraps a synchronous method, which stays as it is.
//
// target "plateau": the run has phases; at the start of each the distance without control, Xi_max, is measured, and the phase aims at a
// fraction of it. "online": factor * learning rate * (mean gradient norm, smoothed), with nothing to measure first.
// A fraction of 0, or a target that `most` gossip steps do not reach, is met by an exact average (all-reduce).
// Xi is estimated by sketches (consensus_sketch.h); theta = sqrt(mean |sum_j W_ij x_j - x_i|^2) of gossip steps is kept beside it: for a fixed
// symmetric W, Xi <= theta / (1 - lambda_2), with lambda_2 the second largest eigenvalue modulus.
#pragma once

#include <memory>

#include "gossamer/dist/synchronous.h"

namespace gossamer::dist {

class ConsensusControl final : public Method {
 public:
  ConsensusControl(std::unique_ptr<SynchronousMethod> method, const ConsensusControlOptions&);
  void prepare(double learning_rate) override { method_->prepare(learning_rate); }
  void step(double learning_rate) override { method_->step(learning_rate); }
  double samples_seen() const override { return method_->samples_seen(); }
  bool done() const override { return method_->done(); }
  void finish() override;
  void quiesce(const std::function<void()>& f) override { method_->quiesce(f); }
  std::vector<NamedTensor> state() override { return method_->state(); }
  MethodStats stats() const override;
  const char* name() const override { return "consensus-control"; }
  bool needs_frozen_compute() const override { return method_->needs_frozen_compute(); }

 private:
  struct Measured { double distance = 0, theta = 0, gradient_norm = 0, samples = 0, learning_rate = 0; };
  void control(double learning_rate);
  std::optional<Measured> measure(double learning_rate, double moved);      // the same numbers on all workers; none after a death
  void follow(const Measured&);                    // phase and target; decisions rest on measured numbers only, so all workers decide alike
  void end_measuring();
  void forget();                                   // after a restart of the rounds: all workers begin from the same state

  const std::unique_ptr<SynchronousMethod> method_;
  const ConsensusControlOptions options_;
  std::uint64_t measurements_ = 0;
  int phase_ = -1;
  std::vector<double> uncontrolled_;               // distances since the phase began, while it is measured
  i64 to_measure_ = 0;                             // steps still left alone
  double target_ = 0;                              // 0: none
  bool exact_ = false;                             // exact averages in this phase
  double gradient_norm_ = -1;                      // moving average
  double distance_ = -1, theta_ = 0;
  i64 extra_ = 0, exact_averages_ = 0;
  bool finished_ = false;
};

}  // namespace gossamer::dist
