// Outer steps in the simulator, which takes their settings: DiLoCo's known values.
#include <gtest/gtest.h>

#include "dist/methods/unlike_data.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {
namespace {

class UnlikeData final : public Problem {
 public:
  int dims() const override { return 2; }
  std::vector<double> start() const override { return {0, 0}; }
  void gradient(int worker, std::span<const double> x, Rng&, std::span<double> g) const override {
    const Point at = dist::gradient(static_cast<std::size_t>(worker), {x[0], x[1]});
    std::ranges::copy(at, g.begin());
  }
  double loss(std::span<const double>) const override { return 0; }
};

std::vector<double> mean_after(int steps, const Settings& settings) {
  SimulationOptions o;
  o.method = "diloco";
  o.settings = settings;
  o.graph = "chain";
  o.workers = kWorkers;
  o.learning_rate = kRate;
  const UnlikeData problem;
  const SimulationPlan plan = plan_simulation(o);
  const auto simulation = make_simulation(plan, &problem, 0);
  simulation->run_until(steps);
  EXPECT_LT(simulation->distance(), 1e-25) << "after an outer step all are equal";
  return simulation->mean();
}

// Five own steps and an outer one, three and fifty times; from loops in double precision, in
// Python.
TEST(SimulatedOuterSteps, OfDilocoGiveTheKnownValues) {
  const Settings settings =
      Settings().set("period", 5).set("outer_rate", .7).set("outer_momentum", .6);
  const auto after3 = mean_after(15, settings), after50 = mean_after(250, settings);
  EXPECT_NEAR(after3[0], .330470267204, 1e-10);
  EXPECT_NEAR(after3[1], 1.31882436146, 1e-10);
  EXPECT_NEAR(after50[0], .152752085626, 1e-10);
  EXPECT_NEAR(after50[1], 1.32525695742, 1e-10);
}

// What a step alone says nothing of, such as pieces that take turns, would have no effect.
TEST(SimulatedOuterSteps, TheSimulatorTakesTheirSettings) {
  for (const char* method : {"diloco", "noloco"}) {
    std::vector<std::string> names;
    for (const auto& [setting, value] : simulated_settings(method)) names.push_back(setting.name);
    EXPECT_EQ(names, (std::vector<std::string>{"period", "outer_rate", "outer_momentum"}))
        << method;
  }
}

}  // namespace
}  // namespace gossamer::dist
