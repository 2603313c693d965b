// Consensus control of simulated workers: the controller of the real ones, on networks of any size.
// What it keeps, and what that costs.
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/rounds/consensus_controller.h"
#include "gossamer/dist/simulation/problems.h"

namespace gossamer::dist {
namespace {

constexpr int kSteps = 400;

SimulationOptions controlled(int n, const ConsensusControlOptions& control) {
  SimulationOptions o;
  o.graph = "ring";
  o.workers = n;
  o.method = "consensus-control";
  o.learning_rate = .1;
  o.settings.set_all(control);
  return o;
}

// Noise alone, so that the distance without control is known: T26.
TrainingResult run(const SimulationOptions& o, int dims = 64, double steps = kSteps,
                   int seeds = 1) {
  const auto problem =
      make_quadratic(o.workers, {.dims = dims, .curvature = 0, .heterogeneity = 0, .noise = 1});
  return simulate_training(plan_simulation(o), *problem, steps, seeds);
}

TEST(SimulatedControl, KeepsTheDistanceOfARingOf16AtItsTargetByPhase) {
  // Free, then at half of what it was, then free, then at a quarter.
  ConsensusControlOptions control{
      .phases = {.25, .5, .75}, .fractions = {1, .5, 1, .25}, .measure = .1};
  const TrainingResult r = run(controlled(16, control), 64, 800);
  const auto& xi = r.control->xi;
  const auto& target = r.control->target;
  const double plateau = .1 * std::sqrt(2.4096 * 64);  // T26
  int seen[2] = {}, near = 0;
  for (std::size_t k = 0; k < xi.size(); ++k) {
    // The first point after a change is also of steps that had no target yet.
    if (target[k] == 0 || target[k - 1] == 0) continue;
    const bool later = r.time[k] > .75 * 800;
    ++seen[later];
    EXPECT_NEAR(target[k], (later ? .25 : .5) * plateau, .15 * target[k]) << r.time[k];
    EXPECT_LE(xi[k], target[k] * (1 + 1e-9)) << r.time[k];
    near += xi[k] > target[k] * (1 - 1e-9);
  }
  EXPECT_GT(seen[0], 20);
  EXPECT_GT(seen[1], 20);
  EXPECT_GT(near, .95 * (seen[0] + seen[1])) << "the last round stops at the target";
  EXPECT_GT(static_cast<double>(r.control->tally.near),
            .95 * static_cast<double>(r.control->tally.steps));
  EXPECT_EQ(r.control->tally.exact_averages, 0);
  RecordProperty("ratio", std::to_string(r.control->tally.ratio()));
  RecordProperty("gossip", std::to_string(r.control->tally.gossip));
  // Each round is one exchange on each of the 16 edges, beside those of the method itself.
  EXPECT_EQ(r.control->exchanges, 16.0 * static_cast<double>(r.control->tally.gossip));
  EXPECT_EQ(r.exchanges, r.control->exchanges + 16.0 * 800);
  EXPECT_EQ(r.control->tally.measurements, r.control->tally.gossip + 800);
}

// The distance itself after each step, not what the controller thinks of it.
TEST(SimulatedControl, KeepsARingOf16NearItsTargetInNearlyAllSteps) {
  for (const ConsensusControlOptions& control :
       {ConsensusControlOptions{.fractions = {.5}, .measure = .1},
        ConsensusControlOptions{.fractions = {.25}, .measure = .1},
        ConsensusControlOptions{.target = "online", .factor = 1}}) {
    SimulationOptions o = controlled(16, control);
    o.dims = 64, o.steps = kSteps;
    const SimulationPlan plan = plan_simulation(o);
    const auto problem =
        make_quadratic(o.workers, {.dims = 64, .curvature = 0, .heterogeneity = 0, .noise = 1});
    const auto simulation = make_simulation(plan, problem.get(), 0);
    int near = 0, steps = 0;
    double ratio = 0;
    for (int k = 1; k <= kSteps; ++k) {
      simulation->run_until(k);
      const double target = simulation->controller()->target();
      if (target == 0) continue;
      ++steps;
      ratio += std::sqrt(simulation->distance() * 64) / target;
      near += std::abs(std::sqrt(simulation->distance() * 64) / target - 1) <= .2;
    }
    EXPECT_GT(steps, .85 * kSteps);
    EXPECT_GE(near, .95 * steps);
    EXPECT_EQ(near, simulation->controller()->tally().near);
    EXPECT_NEAR(ratio / steps, simulation->controller()->tally().ratio(), 1e-6);
    const std::string name = control.target == "online"   ? "online"
                             : control.fractions[0] == .5 ? "half"
                                                          : "quarter";
    RecordProperty(name + "_near", std::to_string(1. * near / steps));
    RecordProperty(name + "_ratio", std::to_string(ratio / steps));
    RecordProperty(
        name + "_gossip",
        std::to_string(static_cast<double>(simulation->controller()->tally().gossip) / steps));
  }
}

TEST(SimulatedControl, KeepsTheDistanceOfARingOf16AtItsTargetOnline) {
  const TrainingResult r = run(controlled(16, {.target = "online", .factor = 1}));
  // |g| is sqrt(64) in the mean
  EXPECT_NEAR(r.control->target.back(), .1 * std::sqrt(64.0), .05 * r.control->target.back());
  const ControlTally& t = r.control->tally;
  EXPECT_NEAR(t.ratio(), 1, .05);
  EXPECT_LE(t.most, 1);
  for (std::size_t k = 10; k < r.control->xi.size(); ++k)
    EXPECT_GT(r.control->xi[k], .8 * r.control->target[k]) << r.time[k];
  EXPECT_GT(static_cast<double>(t.near), .95 * static_cast<double>(t.steps));
  EXPECT_EQ(t.steps, kSteps);
  EXPECT_GT(t.gossip, 0);
  EXPECT_EQ(t.exact_averages, 0);
  RecordProperty("ratio", std::to_string(t.ratio()));
  RecordProperty("near", std::to_string(static_cast<double>(t.near) / kSteps));
  RecordProperty("gossip", std::to_string(t.gossip));
}

TEST(SimulatedControl, TakesAnExactAverageWhereGossipIsTooSlow) {
  const TrainingResult r =
      run(controlled(1024, {.fractions = {.25}, .measure = .2, .most = 3}), 4, 60);
  EXPECT_GT(r.control->tally.exact_averages, 5);
  EXPECT_LE(r.control->tally.most, 1);
  // An all-reduce costs what n - 1 exchanges do.
  EXPECT_EQ(r.control->exchanges,
            1024.0 * static_cast<double>(r.control->tally.gossip) +
                1023.0 * static_cast<double>(r.control->tally.exact_averages));
}

TEST(SimulatedControl, ControlsEveryMethodThatMixes) {
  for (const char* method : {"dpsgd", "dpsgd-atc", "sgp", "local-sgd"}) {
    SimulationOptions o = controlled(16, {.method = method, .fractions = {.5}, .measure = .1});
    o.graph = "exponential";
    const TrainingResult r = run(o, 16, 200);
    EXPECT_GT(r.control->tally.steps, 150) << method;
    EXPECT_LE(r.control->tally.most, 1) << method;
  }
}

TEST(SimulatedControl, SaysTheSameForTheSameSeed) {
  const ConsensusControlOptions control{.fractions = {.5}, .measure = .1};
  SimulationOptions o = controlled(16, control);
  const TrainingResult first = run(o, 8, 100), second = run(o, 8, 100);
  EXPECT_EQ(first.control->xi, second.control->xi);
  EXPECT_EQ(first.control->tally.gossip, second.control->tally.gossip);
  o.seed = 1;
  EXPECT_NE(run(o, 8, 100).control->xi, first.control->xi);
}

TEST(SimulatedControl, RefusesWhatItCantControl) {
  EXPECT_THROW(plan_simulation(controlled(8, {.method = "a2cid2"})), ConfigError);
  EXPECT_THROW(run(controlled(8, {.fractions = {.5, .5}})), ConfigError);
  EXPECT_THROW(run(controlled(8, {.target = "offline"})), ConfigError);
}

}  // namespace
}  // namespace gossamer::dist
