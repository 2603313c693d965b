// A method in rounds, written once: in which order a worker computes and exchanges within a step.
// Who does it stands behind RoundWorker: a worker that trains (synchronous.h), all the workers of a
// simulation (simulation/rounds.cpp), or the clocks of a time line (simulation/timeline.cpp). Pure.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/dist/compressor.h"
#include "gossamer/dist/rounds/mixing.h"

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

// The vectors of a worker, each as long as its model.
enum class Vector {
  model,     // x
  gradient,  // g; settled, so any pass over it is right
  velocity,  // what SGD with momentum keeps: update() makes it momentum * velocity + g
  first,     // the formula's own: own_vectors()[0] …
  second
};
struct OwnVector {
  std::string name;  // in checkpoints; empty: it is used within a step only
  // It begins at 0, and again where rounds begin anew: what it holds of the dead would never leave
  // it.
  bool cleared = true;
  bool begins_as_model = false;  // as x, instead of 0
};

// Of a mean of compressed vectors: each value over all workers, or over those whose Q(v) is not 0
// there.
enum class MeanOver { all, senders };

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
  // v <- sum_j W_ij v_j for a vector other than x, in a message of its own, waited for. Of a
  // formula with two messages_per_round().
  virtual void mix_alone(Vector v) = 0;
  // x <- the mean of all workers' x, of which those further away are older (relay.h). Of a formula
  // with trees(), once in each step.
  virtual void relay() = 0;
  // Of a formula with a compressor(): each worker has replicas x^_j of its neighbours' models and
  // of its own, alike on all that have them. If there are none yet, x^ <- x.
  virtual void begin_replicas() = 0;
  // x^ <- x^ + Q(x - x^), where Q(x - x^) alone travels; it waits for that …
  virtual void exchange_replicas() = 0;
  // … or it was sent after the step before, beside the computation. Of a formula with
  // sends_ahead().
  virtual void receive_replicas() = 0;
  // x <- x + kappa sum_j W_ij (x^_j - x^_i)
  virtual void mix_replicas(double kappa) = 0;
  virtual void average() = 0;  // x <- mean of all workers' x
  // Of a formula with a compressor(): x <- mean of all workers' Q(v), and v <- v - Q(v), where Q(v)
  // alone travels.
  virtual void average_compressed(Vector v, MeanOver) = 0;
  // o and v are updated with x in the place of m; x <- o. Of a formula with has_outer_steps().
  virtual void outer_step(const OuterStep&) = 0;
  // to <- a to + b from, two different vectors; b from alone where a is 0, whatever `to` held
  virtual void blend(Vector to, double a, double b, Vector from) = 0;
  virtual double learning_rate() const = 0;  // of this step
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
  virtual bool has_outer_steps_alone() const { return false; }  // of a worker without others, too
  // phi in [0, 1]: rounds do x <- (1 - phi) x + phi W x (mixing.h)
  virtual double consensus_factor() const { return 1; }
  virtual std::vector<OwnVector> own_vectors() const { return {}; }
  virtual bool uses_velocity() const { return false; }
  // Vectors that mix() and mix_ahead() mix as x, in the same message.
  virtual std::vector<Vector> sends_beside() const { return {}; }
  // So many calls of mix() and mix_alone(), one after the other, are of one round: they mix with
  // the same neighbours.
  virtual int messages_per_round() const { return 1; }
  // Above 0: the rounds must be a tree, and x is relayed in so many pieces: the first along it, the
  // second along the tree of the workers in reverse order.
  virtual int trees() const { return 0; }
  // How far one neighbour may pull in a round (mixing.h).
  virtual const Clipping* clipping() const { return nullptr; }
  // What travels of replicas, or of what average_compressed() averages.
  virtual const Compressor* compressor() const { return nullptr; }
  // step() reads g, or changes it: without the loss scale, and 0 where it overflowed.
  virtual bool uses_gradient() const { return false; }
  // The limit of the norm is for g as it was computed, not for what step() makes of it.
  virtual bool clips_first() const { return false; }
};

// A gradient step and a round of mixing; with overlap the round is that of the step before.
class MixingFormula : public RoundFormula {
 public:
  explicit MixingFormula(bool overlap, double consensus_factor = 1)
      : overlap_(overlap), consensus_factor_(consensus_factor) {}
  bool sends_ahead() const override { return overlap_; }
  double consensus_factor() const override { return consensus_factor_; }
  void step(RoundWorker& worker, i64) const override {
    if (overlap_) worker.mix_ahead();
    worker.update();
    if (!overlap_) worker.mix();
  }

 private:
  const bool overlap_;
  const double consensus_factor_;
};

// Of mixing, in the first steps of a run: the number of the message that comes next, which is that
// of the round where a round has one.
i64 messages_in_steps(const RoundFormula&, i64 steps);

}  // namespace gossamer::dist
