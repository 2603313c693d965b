// One formula, two workers that follow it: real ones in threads, and those of the simulator.
#include <gtest/gtest.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/simulation/simulator.h"
#include "gossamer/nn/optim.h"

namespace gossamer::dist {
namespace {

// Five: on an even ring d2 is refused.
constexpr int kWorkers = 5, kDims = 3, kSteps = 23;
constexpr double kRate = .1;

// Of worker i in coordinate k: where its own function is least.
double target(int i, std::size_t k) { return i * i - 2.0 * static_cast<double>(k); }

class Squares final : public Problem {
 public:
  int dims() const override { return kDims; }
  std::vector<double> start() const override { return std::vector<double>(kDims, 1.0); }
  void gradient(int i, std::span<const double> x, Rng&, std::span<double> g) const override {
    for (std::size_t k = 0; k < g.size(); ++k) g[k] = x[k] - target(i, k);
  }
  double loss(std::span<const double>) const override { return 0; }
};

Settings settings_of_run(const std::string& method) {
  Settings all;
  all.set("period", 4).set("overlap", false).set("outer_rate", .6).set("outer_momentum", .3);
  return all.only(method_settings(method));
}

// Mean over workers and steps; mean (x - mean)^2.
struct End {
  std::vector<double> mean = std::vector<double>(kDims, 0.0);
  double distance = 0;
};

End trained(const std::string& method, const Settings& settings) {
  LocalCluster cluster(kWorkers);
  std::vector<std::vector<float>> x(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    FlatParams params({{"x", Tensor::full({kDims}, 1)}});
    params.settle_grads();
    nn::Sgd sgd(params, {.momentum = 0});
    MethodOptions options = options_of(graph_for(method), kWorkers, 0);
    options.settings = settings;
    const auto m = make_method(method, params, sgd, group, make_graph("ring", kWorkers), options);
    for (int step = 0; step < kSteps; ++step) {
      const std::span<float> at = params.values().span<float>(), g = params.grads().span<float>();
      for (std::size_t k = 0; k < kDims; ++k) g[k] = at[k] - static_cast<float>(target(rank, k));
      m->step(kRate);
    }
    const auto values = params.values().span<float>().first(kDims);
    x[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    m->finish();
  });
  End end;
  for (std::size_t k = 0; k < kDims; ++k) {
    for (const auto& each : x) end.mean[k] += static_cast<double>(each[k]) / kWorkers;
    for (const auto& each : x)
      end.distance += std::pow(static_cast<double>(each[k]) - end.mean[k], 2) / kWorkers / kDims;
  }
  return end;
}

End simulated(const std::string& method, const Settings& settings) {
  SimulationOptions o;
  o.method = method;
  o.settings = settings;
  o.graph = o.rounds = graph_for(method);
  o.workers = kWorkers;
  o.learning_rate = kRate;
  const Squares problem;
  const SimulationPlan plan = plan_simulation(o);
  const auto simulation = make_simulation(plan, &problem, 0);
  simulation->run_until(kSteps);
  return {simulation->mean(), simulation->distance()};
}

TEST(MethodFormulas, WorkersThatTrainDoWhatTheSimulatorDoes) {
  int methods = 0;
  for (const MethodRow& row : method_rows()) {
    const MethodTraits& m = row.traits;
    if (!m.synchronous || m.simulated_only || m.controls || !m.optimizer.empty()) continue;
    SCOPED_TRACE(m.name);
    ++methods;
    std::vector<Settings> runs{settings_of_run(m.name)};
    if (m.name == "dpsgd" || m.name == "gradient-tracking" || m.name == "choco")
      runs.push_back(Settings().set("overlap", true));
    for (const Settings& settings : runs) {
      const End live = trained(m.name, settings), model = simulated(m.name, settings);
      for (std::size_t k = 0; k < kDims; ++k) EXPECT_NEAR(live.mean[k], model.mean[k], 1e-5) << k;
      EXPECT_NEAR(live.distance, model.distance, 1e-4);
    }
  }
  EXPECT_GE(methods, 6);
}

}  // namespace
}  // namespace gossamer::dist
