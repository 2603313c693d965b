// One worker's (x, x~, time) and the only two kinds of events that change it. Pure: no clock, no
// thread, no network.
//
// Between events the pair drifts together:  dx = eta (x~ - x) dt,  dx~ = eta (x - x~) dt.
// A gradient event gives both the same update.  A communication event with difference d = x_i - x_j
// gives
//     x -= alpha d,  x~ -= alpha~ d.
// d is known only after a transfer. Because the drift is linear, applying d later is exact if the
// jump drifts along: with (c, s) over the drift since the snapshot,  x -= (c alpha + s alpha~) d,
// x~ -= (s alpha + c alpha~) d.  Gradients may land in between.
//
// Block is Tensor in training (one fused pass each, core/update.h) and std::vector<double> in tests
// and simulation.
#pragma once

#include <algorithm>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {

// The passes over vectors of doubles; those over Tensors are in core/update.h. Both use the same
// element formulas.
inline void mix(std::vector<double>& x, std::vector<double>& y, double c, double s) {
  for (std::size_t i = 0; i < x.size(); ++i) mix_element(c, s, x[i], y[i]);
}
inline void jump(std::vector<double>& x, std::vector<double>& y, double jx, double jy,
                 const std::vector<double>& own, const std::vector<double>& received) {
  double unused = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    jump_element(jx, jy, own[i] - received[i], x[i], y.empty() ? unused : y[i]);
}
inline void mix_and_snapshot(std::vector<double>& x, std::vector<double>* y, double c, double s,
                             std::vector<double>& snapshot) {
  if (y) mix(x, *y, c, s);
  snapshot = x;
}

inline void jump(Tensor& x, Tensor& y, double jx, double jy, const Tensor& own,
                 const Tensor& received) {
  apply_difference(x, y, static_cast<float>(jx), static_cast<float>(jy), own, received);
}
inline void mix_and_snapshot(Tensor& x, Tensor* y, double c, double s, Tensor& snapshot) {
  if (y) mix(x, *y, static_cast<float>(c), static_cast<float>(s));
  snapshot.copy_from(x);
}

// AD-PSGD: eta = 0, and no twin
struct Gossip {
  double eta = 0, alpha = 0.5, alpha_tilde = 0.5;
};

template <class Block>
class WorkerState {
 public:
  // x~ starts as a copy of x; without it (AD-PSGD) only x is kept.
  WorkerState(Block x, bool with_twin) : x_(std::move(x)), has_twin_(with_twin) {
    if (with_twin) twin_ = copy_of(x_);
  }

  // eta may change from event to event (rate tracking)
  Gossip gossip;
  // the drift of one gap is cut here: a stalled worker must not run away
  double longest_gap = 1e300;

  Block& x() { return x_; }
  Block& twin() { return twin_; }
  bool has_twin() const { return has_twin_; }
  double time() const { return time_; }

  // Gradient event at `t`: update(c, s) must mix both with (c, s), evaluate its direction at the
  // mixed x, and add it to both. In training that is one pass: Optimizer::step(lr, &Twin{x~, c,
  // s}).
  template <class Update>
  void gradient_event(double t, Update update) {
    const auto mixed = drift_to(t);
    update(mixed.c, mixed.s);
  }

  // First half of a communication event: drift to t, copy x. Returns a mark to give back with the
  // answer.
  double snapshot(double t, Block& out) {
    const auto mixed = drift_to(t);
    mix_and_snapshot(x_, has_twin_ ? &twin_ : nullptr, mixed.c, mixed.s, out);
    return drifted_;
  }

  // Second half, any time later: own and received are the two snapshots.
  void apply(double mark, const Block& own, const Block& received) {
    const auto since = MixCoefficients<double>::over(1, drifted_ - mark);
    const double a = gossip.alpha, b = gossip.alpha_tilde;
    if (has_twin_)
      jump(x_, twin_, since.c * a + since.s * b, since.s * a + since.c * b, own, received);
    else
      jump(x_, twin_, a, 0, own, received);
  }

  // Both halves for who copies and jumps himself (on a GPU, in other formats). copy(c, s) writes c
  // x + s x~ and leaves both as they are: the next event makes up for their drift. jump(jx, jy)
  // does x -= jx d, x~ -= jy d; the flow also runs backwards, so it may come before that event.
  template <class Copy>
  double peek(double t, Copy copy) const {
    const double gap = std::clamp(t - time_, 0.0, longest_gap);
    const auto mixed = MixCoefficients<double>::over(gossip.eta, gap);
    copy(mixed.c, mixed.s);
    return drifted_ + gossip.eta * gap;
  }
  template <class Jump>
  void apply(double mark, Jump jump_by) {
    const auto since = MixCoefficients<double>::over(1, drifted_ - mark);
    const double a = gossip.alpha, b = gossip.alpha_tilde;
    if (has_twin_)
      jump_by(since.c * a + since.s * b, since.s * a + since.c * b);
    else
      jump_by(a, 0.0);
  }

  // Drifts without an event, e.g. before states are compared at a common time.
  void mix_to(double t) {
    const auto mixed = drift_to(t);
    if (has_twin_) mix(x_, twin_, mixed.c, mixed.s);
  }

  // x was replaced from outside (start of training, all workers averaged): the twin follows.
  void restart() {
    if (has_twin_) copy_into(twin_, x_);
  }

 private:
  static std::vector<double> copy_of(const std::vector<double>& x) { return x; }
  static Tensor copy_of(const Tensor& x) { return x.clone(); }
  static void copy_into(std::vector<double>& to, const std::vector<double>& from) { to = from; }
  static void copy_into(Tensor& to, const Tensor& from) { to.copy_from(from); }

  MixCoefficients<double> drift_to(double t) {
    const double gap = std::clamp(t - time_, 0.0, longest_gap);
    time_ = std::max(time_, t);
    drifted_ += gossip.eta * gap;
    return MixCoefficients<double>::over(gossip.eta, gap);
  }

  Block x_, twin_{};
  bool has_twin_;
  double time_ = 0;
  double drifted_ = 0;  // integral of eta dt: what a late jump has to catch up with
};

}  // namespace gossamer::dist
