// A method in rounds, written once: in which order a worker computes and exchanges within a step.
// Who does it stands behind RoundWorker: a worker that trains (synchronous.h), all the workers of a
// simulation (simulation/rounds.cpp), or the clocks of a time line (simulation/timeline.cpp). Pure.
#pragma once

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

// The step of an outer optimizer, after some steps of the inner one. o is the outer model, v its
// velocity, m the mean of the models now:
//   d = o - m,   v <- mu v + d,   o <- o - rate (way d + velocity v)
struct OuterStep {
  double rate = 1, mu = 0;
  double way = 1, velocity = 0;

  static OuterStep heavy_ball(double rate, double mu) { return {rate, mu, 0, 1}; }
  static OuterStep nesterov(double rate, double mu) { return {rate, mu, 1, mu}; }
};

// What a worker can do within a step. x is its model.
class RoundWorker {
 public:
  virtual ~RoundWorker() = default;
  virtual void average_gradients() = 0;  // g <- mean of all workers' g
  virtual void update() = 0;             // x <- x - lr u(g), u the optimizer's step
  // x <- sum_j W_ij x_j in the next round; it waits for that. A step may have several, or none.
  virtual void mix() = 0;
  // The same with the models that were sent after the step before, while gradients were computed.
  // Of a formula with sends_ahead(): once in each step, before anything that changes x.
  virtual void mix_ahead() = 0;
  virtual void average() = 0;  // x <- mean of all workers' x
  // o and v are updated with x in the place of m; x <- o. Of a formula with has_outer_steps().
  virtual void outer_step(const OuterStep&) = 0;
};

class RoundFormula {
 public:
  virtual ~RoundFormula() = default;
  // Step k, counted from 0. The gradient g has been computed at x. All workers do the same, and it
  // may depend on k only.
  virtual void step(RoundWorker& worker, i64 k) const = 0;
  // step() calls mix_ahead(): after each step, x is sent beside the computation of the next.
  virtual bool sends_ahead() const { return false; }
  // Mixing goes by columns, and weights keep the mean (mixing.h): rounds may be directed.
  virtual bool is_push_sum() const { return false; }
  virtual bool has_outer_steps() const { return false; }
};

// A gradient step and a round of mixing; with overlap the round is that of the step before.
class MixingFormula : public RoundFormula {
 public:
  explicit MixingFormula(bool overlap) : overlap_(overlap) {}
  bool sends_ahead() const override { return overlap_; }
  void step(RoundWorker& worker, i64) const override {
    if (overlap_) worker.mix_ahead();
    worker.update();
    if (!overlap_) worker.mix();
  }

 private:
  const bool overlap_;
};

// Of mixing, in the first steps of a run: the number of the round that comes next.
i64 rounds_in_steps(const RoundFormula&, i64 steps);

}  // namespace gossamer::dist
