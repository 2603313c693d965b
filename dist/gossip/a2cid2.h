// A2CiD2 (Nabli, Belilovsky, Oyallon: A2CiD2, Accelerating Asynchronous Communication in
// Decentralized Deep Learning, NeurIPS 2023), as one worker sees it. This page is the whole method.
//
// Worker i keeps its parameters x_i and a second copy of them, the twin x~_i. Time is counted in
// mean durations of a gradient (GradientClock, dist/time.h). Only x is ever sent. The numbers of
// this page are applied to memory in model.h.
//
// Between events both copies drift towards each other:
//     dx = eta (x~ - x) dt,      dx~ = eta (x - x~) dt.
// Over the drift D = eta * (elapsed time) that is
//     (x, x~) <- (c x + s x~, s x + c x~)      with c = (1 + e^(-2D))/2,  s = (1 - e^(-2D))/2.
// The sum x + x~ stays, and x - x~ shrinks by e^(-2D).
//
// A gradient event lets both drift up to its time and gives them the same update u:
//     x -= u,      x~ -= u.
// u is the learning rate times the optimizer's direction (update.h). Its weight decay uses x after
// the drift. Its gradient was computed at x as the last gradient event left it: layers read a copy
// of x (FlatParams::separate), and only gradient events write that copy.
//
// A communication event happens to two neighbours i and j at one moment. With d = x_i - x_j,
//     x_i -= alpha d,      x~_i -= alpha~ d,      and the same with -d for worker j.
// alpha = 1/2 makes x_i and x_j their mean. From the graph follow eta = 1/(2 sqrt(chi1 chi2)) and
// alpha~ = sqrt(chi1/chi2)/2 (constants() in graph/graph.h; chi1 is large where the graph is slow
// to mix). alpha~ is 1/2 or more, so the twin moves further than x, and the drift brings x after
// it, like momentum. With eta = 0 the twin has no effect on x: that is AD-PSGD.
//
// A late difference is exact. A transfer takes time, and training goes on meanwhile. Both workers
// copy x at the moment of the event (the snapshot) and send that copy. When the other snapshot has
// arrived, d = own - received is known. The drift is linear and an update, once computed, is just
// added. So the state with the jump (alpha d, alpha~ d) differs from the state without it by that
// jump, drifted since. Applied at the arrival, with c and s over the drift since the snapshot,
//     x -= (c alpha + s alpha~) d,      x~ -= (s alpha + c alpha~) d
// gives what applying it at the event would have given, whatever came in between. So an exchange
// never waits for a gradient, nor a gradient for an exchange, and the sum of x + x~ over all
// workers changes by gradients only. (The published code sends x without its drift and makes x the
// mean of what it has and what it got at the arrival. That damps the acceleration, and half of a
// gradient that comes in between is lost.)
//
// A snapshot leaves x and x~ alone: it is computed as c x + s x~. The next gradient event, which
// passes over both anyway, makes up for their drift. A difference that arrives before that finds x
// and x~ as they were before the snapshot. It is applied with a negative drift, which is exact too.
#pragma once

#include <algorithm>

#include "gossamer/core/update.h"

namespace gossamer::dist {

// (x, x~) -= (x, twin) (own - received)
struct Jump {
  double x = 0, twin = 0;
};

// The time, drift and coefficients of one worker. It owns no parameters: CPUs, GPUs and the
// simulator apply its numbers to theirs.
class A2cid2 {
 public:
  using Mix = MixCoefficients<double>;  // (x, x~) <- (c x + s x~, s x + c x~)
  // When a snapshot was taken, as the drift D from the start until then, and the jump of the graph
  // as it was: it may have lost a worker when the other snapshot arrives.
  struct Mark {
    double drifted = 0;
    Jump jump;
  };

  // may change from event to event: it follows the measured rate of exchanges (dist/time.h)
  double eta = 0;
  double alpha = 0.5, alpha_tilde = 0.5;  // of the graph (Exchanger::adopt_graph)
  // x and x~ drift for this time at most before the next gradient event. A stalled worker does not
  // run away then, and a drift backwards multiplies rounding errors by e^(2 eta longest_gap) at
  // most.
  double longest_gap = 1e300;

  // A gradient event at `t`: mix x and x~ with this, then update both.
  Mix gradient(double t) {
    const double since = gap(t);
    time_ = std::max(time_, t);
    drifted_ += eta * since;
    return Mix::over(eta, since);
  }
  // A communication event at `t`: the snapshot is c x + s x~. Writes `mark` for arrived().
  Mix snapshot(double t, Mark& mark) const {
    mark = {drifted_ + eta * gap(t), {alpha, alpha_tilde}};
    return Mix::over(eta, gap(t));
  }
  // The coefficients of the difference to that snapshot, for x and x~ as they are now.
  Jump arrived(const Mark& mark) const {
    const auto [c, s] = Mix::over(1, drifted_ - mark.drifted);
    const auto [x, twin] = mark.jump;
    return {c * x + s * twin, s * x + c * twin};
  }

 private:
  double gap(double t) const { return std::clamp(t - time_, 0.0, longest_gap); }

  double time_ = 0;     // of the last gradient event
  double drifted_ = 0;  // D from the start until then
};

}  // namespace gossamer::dist
