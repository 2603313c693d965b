// The parameters of one simulated worker, in double, and what events do to them (gossip/a2cid2.h,
// gossip/tracking.h).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "gossamer/dist/gossip/a2cid2.h"
#include "gossamer/dist/gossip/tracking.h"

namespace gossamer::dist {

class SimulatedWorker {
 public:
  // The twin starts as a copy of x; without it and without tracking (AD-PSGD) only x is kept.
  SimulatedWorker(std::vector<double> values, bool with_twin, bool tracks = false)
      : x(std::move(values)) {
    if (with_twin) twin = x;
    if (tracks) tracker.assign(x.size(), 0), last = tracker;
  }

  A2cid2 numbers;
  std::vector<double> x, twin;
  std::vector<double> tracker, last;  // y and g of tracking.h
  bool has_twin() const { return !twin.empty(); }
  bool tracks() const { return !tracker.empty(); }

  // x and x~ drift to `t`: a gradient event without its update
  void drift(double t) {
    const auto [c, s] = numbers.gradient(t);
    if (has_twin())
      for (std::size_t i = 0; i < x.size(); ++i) mix_element(c, s, x[i], twin[i]);
  }
  // What the optimizer sees, of element i: its gradient, or what tracks the mean of all.
  double tracked(std::size_t i, double gradient) {
    if (!tracks()) return gradient;
    track_element(gradient, last[i], tracker[i]);
    return tracker[i];
  }
  void restart_tracking() { tracker = last; }
  // both copies -= u, of element i
  void update(std::size_t i, double u) {
    x[i] -= u;
    if (has_twin()) twin[i] -= u;
  }
  // Both drift to `t`, then out <- x, and after it the tracker. Simulations without gradients would
  // otherwise apply differences ever further behind the drift, where rounding errors grow without
  // bound.
  A2cid2::Mark snapshot(double t, std::vector<double>& out) {
    drift(t);
    out = x;
    out.insert(out.end(), tracker.begin(), tracker.end());
    A2cid2::Mark mark;
    (void)numbers.snapshot(t, mark);
    return mark;
  }
  // Applies the difference of that snapshot. to_tracker: also to it.
  void apply(const A2cid2::Mark& mark, std::span<const double> own,
             std::span<const double> received, bool to_tracker = true) {
    const Jump jump = numbers.arrived(mark);
    double none = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      jump_element(jump.x, jump.twin, own[i] - received[i], x[i], has_twin() ? twin[i] : none);
    if (!to_tracker) return;
    for (std::size_t i = 0, d = x.size(); i < tracker.size(); ++i)
      jump_element(jump.x, 0., own[d + i] - received[d + i], tracker[i], none);
  }
  // out <- x as it is at `t`, and the tracker if there is room for it; changes nothing
  void look(double t, std::span<double> out) const {
    A2cid2::Mark mark;
    const auto [c, s] = numbers.snapshot(t, mark);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = has_twin() ? c * x[i] + s * twin[i] : x[i];
    if (out.size() > x.size()) std::ranges::copy(tracker, out.subspan(x.size()).begin());
  }
};

}  // namespace gossamer::dist
