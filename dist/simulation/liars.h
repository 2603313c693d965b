// Simulated workers that lie, and what they say (faults/attack.h). A liar knows all models, and
// tells other liars the truth.
// Threads: one at a time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {

class Liars {
 public:
  explicit Liars(const SimulationOptions& options) : all_(parse_injections(options.inject)) {}
  bool any() const { return !all_.empty(); }
  // How the worker lies after `steps` of its own, if it does.
  std::optional<Attack> lie_of(int worker, i64 steps) const;

 private:
  std::vector<Injection> all_;
};

// What workers hear that meet in pairs.
class PairLies {
 public:
  explicit PairLies(const SimulationPlan& plan) : graph_(plan.graph), liars_(plan.options) {}
  bool any() const { return liars_.any(); }
  // What `from` tells `to` of x, [dims]: x, or what a liar puts into `lie`. steps: its own so far.
  // target: the model of `to`. look(worker, out) writes a model as it is now. As among workers that
  // train, neighbours have equal weights.
  std::span<const double> said(int from, int to, i64 steps, std::span<const double> x,
                               std::span<const double> target,
                               FunctionRef<void(int, std::span<double>)> look,
                               std::vector<double>& lie) const;

 private:
  const Graph& graph_;
  const Liars liars_;
};

}  // namespace gossamer::dist
