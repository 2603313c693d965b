// The parameters of one simulated worker, in double, and what events do to them (gossip/a2cid2.h).
#pragma once

#include <span>
#include <vector>

#include "gossamer/dist/gossip/a2cid2.h"

namespace gossamer::dist {

class SimulatedWorker {
 public:
  // The twin starts as a copy of x; without it (AD-PSGD) only x is kept.
  SimulatedWorker(std::vector<double> values, bool with_twin) : x(std::move(values)) {
    if (with_twin) twin = x;
  }

  A2cid2 numbers;
  std::vector<double> x, twin;
  bool has_twin() const { return !twin.empty(); }

  // x and x~ drift to `t`: a gradient event without its update
  void drift(double t) {
    const auto [c, s] = numbers.gradient(t);
    if (has_twin())
      for (std::size_t i = 0; i < x.size(); ++i) mix_element(c, s, x[i], twin[i]);
  }
  // both copies -= u, of element i
  void update(std::size_t i, double u) {
    x[i] -= u;
    if (has_twin()) twin[i] -= u;
  }
  // Both drift to `t`, then out <- x. Simulations without gradients would otherwise apply
  // differences ever further behind the drift, where rounding errors grow without bound.
  A2cid2::Mark snapshot(double t, std::vector<double>& out) {
    drift(t);
    out = x;
    A2cid2::Mark mark;
    (void)numbers.snapshot(t, mark);
    return mark;
  }
  // applies the difference of that snapshot
  void apply(const A2cid2::Mark& mark, std::span<const double> own,
             std::span<const double> received) {
    const Jump jump = numbers.arrived(mark);
    double none = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      jump_element(jump.x, jump.twin, own[i] - received[i], x[i], has_twin() ? twin[i] : none);
  }
  // out <- x as it is at `t`; changes nothing
  void look(double t, std::span<double> out) const {
    A2cid2::Mark mark;
    const auto [c, s] = numbers.snapshot(t, mark);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = has_twin() ? c * x[i] + s * twin[i] : x[i];
  }
};

}  // namespace gossamer::dist
