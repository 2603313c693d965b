// How far apart simulated workers stay while they train, against exact stationary values. Oracles
// T15 and T26.
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/dist/simulation/problems.h"

namespace gossamer::dist {
namespace {

SimulationOptions options_of(const char* graph, int n, const char* method, double momentum) {
  SimulationOptions o;
  o.graph = graph;
  o.workers = n;
  o.method = method;
  o.momentum = momentum;
  o.learning_rate = 1;
  return o;
}

// Mean (x - mean)^2 per coordinate when all gradients are noise of variance 1, at learning rate 1.
double stationary(const SimulationOptions& o, double time, int dims, int seeds) {
  const auto problem =
      make_quadratic(o.workers, {.dims = dims, .curvature = 0, .heterogeneity = 0, .noise = 1});
  return simulate_training(plan_simulation(o), *problem, time, seeds).stationary_distance;
}

struct Row {
  const char* graph;
  int n;
  double momentum, base, accelerated;
};

void expect_row(const Row& row, double time, int dims, int seeds) {
  EXPECT_NEAR(stationary(options_of(row.graph, row.n, "adpsgd", row.momentum), time, dims, seeds),
              row.base, .05 * row.base)
      << row.graph << row.n;
  EXPECT_NEAR(stationary(options_of(row.graph, row.n, "a2cid2", row.momentum), time, dims, seeds),
              row.accelerated, .05 * row.accelerated)
      << row.graph << row.n;
}

// T15 wants 1,500 units of time, 3 seeds and 256 dimensions. The rows with 32 and 64 workers have
// 64 dimensions, to take no longer than the others, and more time on rings: there the distance
// needs some hundred units to be forgotten.
constexpr double kTime = 1500;
constexpr int kDims = 256, kSeeds = 3;

TEST(SimulatedTraining, T15_DistanceWithoutMomentum) {
  expect_row({"ring", 8, 0, 2.078, 2.042}, kTime, kDims, kSeeds);
  expect_row({"ring", 16, 0, 3.535, 3.326}, kTime, kDims, kSeeds);
  expect_row({"complete", 8, 0, 2 * .875 * .875, 2 * .875 * .875}, kTime, kDims, kSeeds);
}

TEST(SimulatedTraining, T15_DistanceWithMomentumOnRings) {
  expect_row({"ring", 4, .9, 21.9, 20.6}, kTime, kDims, kSeeds);
  expect_row({"ring", 8, .9, 64.1, 44.2}, kTime, kDims, kSeeds);
  expect_row({"ring", 16, .9, 178.0, 81.0}, kTime, kDims, kSeeds);
}

TEST(SimulatedTraining, T15_DistanceWithMomentumOnRingsOf32And64) {
  expect_row({"ring", 32, .9, 434, 135}, 2400, 64, kSeeds);
  expect_row({"ring", 64, .9, 963, 218}, 2400, 64, kSeeds);
}

TEST(SimulatedTraining, T15_DistanceWithMomentumOnDenserGraphs) {
  expect_row({"exponential", 8, .9, 32.6, 29.6}, kTime, kDims, kSeeds);
  expect_row({"exponential", 16, .9, 40.6, 35.1}, kTime, kDims, kSeeds);
  expect_row({"exponential", 32, .9, 45.1, 37.4}, kTime, 64, kSeeds);
  expect_row({"complete", 16, .9, 35.3, 35.3}, kTime, kDims, kSeeds);
}

TEST(SimulatedTraining, T15_TwiceTheExchanges) {
  for (const auto& [graph, wanted] : {std::pair{"ring", 67.9}, std::pair{"exponential", 13.4}}) {
    SimulationOptions o = options_of(graph, 16, "adpsgd", .9);
    o.rate = 2;
    EXPECT_NEAR(stationary(o, kTime, kDims, kSeeds), wanted, .05 * wanted) << graph;
  }
}

TEST(SimulatedTraining, T26_DistanceOfSynchronousGossipOnRings) {
  const struct {
    int n;
    double while_adapting, then;
  } rows[] = {{8, 1.3862, .5112}, {16, 2.4096, 1.4721}, {32, 4.4213, 3.4525}, {64, 8.4272, 7.4428}};
  for (const auto& row : rows) {
    const double time = 2000;
    const int dims = 64;
    EXPECT_NEAR(stationary(options_of("ring", row.n, "dpsgd", 0), time, dims, 2),
                row.while_adapting, .05 * row.while_adapting)
        << row.n;
    EXPECT_NEAR(stationary(options_of("ring", row.n, "dpsgd-atc", 0), time, dims, 2), row.then,
                .05 * row.then)
        << row.n;
  }
}

TEST(SimulatedTraining, EveryMethodFindsTheMinimumOfTheMeanOfDifferentFunctions) {
  const auto problem =
      make_quadratic(8, {.dims = 8, .curvature = 1, .heterogeneity = 1, .noise = 0});
  for (const char* method : {"a2cid2", "adpsgd", "dpsgd", "dpsgd-atc", "allreduce", "sgp",
                             "local-sgd", "diloco", "noloco"}) {
    SimulationOptions o = options_of("ring", 8, method, 0);
    o.learning_rate = .02;
    const auto r = simulate_training(plan_simulation(o), *problem, 600, 1);
    EXPECT_GT(r.loss.front(), 1) << method;
    // gossip with gradients at random times fluctuates about the minimum
    EXPECT_LT(r.stationary_loss, .05) << method;
    EXPECT_LT(r.stationary_distance, .3) << method;
  }
}

TEST(SimulatedTraining, AllReduceKeepsWorkersEqualAndLocalSgdOnlyOnAverage) {
  const auto problem = make_quadratic(8, {.dims = 8});
  SimulationOptions o = options_of("complete", 8, "allreduce", .9);
  o.learning_rate = .02;
  EXPECT_LT(simulate_training(plan_simulation(o), *problem, 100, 1).stationary_distance, 1e-25);
  o.method = "local-sgd";
  o.settings.set("period", 1);  // H = 1 is parameter averaging
  EXPECT_LT(simulate_training(plan_simulation(o), *problem, 100, 1).stationary_distance, 1e-25);
  o.settings.set("period", 10);
  EXPECT_GT(simulate_training(plan_simulation(o), *problem, 99, 1).stationary_distance, 1e-4);
}

// Noise alone drives workers apart by gamma^2 (1 - 1/n) in each of the H - 1 local steps, and the
// mean brings them back: gamma^2 (1 - 1/n) (H - 1) / 2 on average, however long one looks.
TEST(SimulatedTraining, LocalSgdIsSeenInEveryPhaseOfItsPeriod) {
  const auto problem =
      make_quadratic(8, {.dims = 256, .curvature = 0, .heterogeneity = 0, .noise = 1});
  SimulationOptions o = options_of("complete", 8, "local-sgd", 0);
  o.learning_rate = .1;
  o.settings.set("period", 8);
  const double expected = .01 * (1 - 1. / 8) * 7 / 2;
  for (const double time : {200., 400., 800., 1600.}) {
    const auto r = simulate_training(plan_simulation(o), *problem, time, 2);
    EXPECT_NEAR(r.stationary_distance, expected, .03 * expected) << time;
    if (time == 1600)  // a point for each period of 8 steps
      EXPECT_NEAR(r.distance.back(), expected, .1 * expected);
  }
}

// Nobody waits, so the minimum is that of the losses weighted by speed: of f_i = |x - b_i|^2 / 2 it
// is sum r_i b_i / sum r_i. dist/README.md and the lesson name both figures.
TEST(SimulatedTraining, FastWorkersWinWhereDataAndSpeedsDiffer) {
  constexpr int kWorkers = 8, kDims = 16;
  const auto problem = make_quadratic(kWorkers, {.dims = kDims, .heterogeneity = 1, .noise = 0});
  SimulationOptions o = options_of("ring", kWorkers, "a2cid2", 0);
  o.learning_rate = .05;
  o.pairing = "handshake";
  EXPECT_LT(simulate_training(plan_simulation(o), *problem, 600, 2).stationary_loss, 5e-4);

  o.machines.slow = {1, 1, 1, 10};
  std::vector<double> fixed(kDims), g(kDims);
  const std::vector<double> origin(kDims);
  Rng unused(0);
  for (int i = 0; i < kWorkers; ++i) {
    const double speed = i == 3 ? .1 : 1;
    problem->gradient(i, origin, unused, g);  // -b_i
    for (std::size_t k = 0; k < fixed.size(); ++k) fixed[k] -= speed * g[k] / (kWorkers - .9);
  }
  const double expected = problem->loss(fixed);
  EXPECT_NEAR(expected, .16, .01);
  EXPECT_NEAR(simulate_training(plan_simulation(o), *problem, 600, 2).stationary_loss, expected,
              .1 * expected);
}

// With steps weighted by min r / r_i all count alike, with momentum too; then time passes at the
// speed of the slowest.
TEST(SimulatedTraining, WithEqualWeightWorkersOfAnySpeedFindTheMinimumOfTheMean) {
  constexpr int kWorkers = 8, kDims = 16;
  const auto problem = make_quadratic(kWorkers, {.dims = kDims, .heterogeneity = 1, .noise = 0});
  for (const char* method : {"a2cid2", "adpsgd"})
    for (const double momentum : {0., .9}) {
      SCOPED_TRACE(testing::Message() << method << ", momentum " << momentum);
      SimulationOptions o = options_of("ring", kWorkers, method, momentum);
      o.learning_rate = momentum > 0 ? .005 : .05;
      o.pairing = "handshake";
      o.machines.slow = {1, 1, 3, 10};
      const auto loss = [&] {
        return simulate_training(plan_simulation(o), *problem, 4000, 1).stationary_loss;
      };
      EXPECT_GT(loss(), .1);
      o.settings.set("equal_weight", true);
      EXPECT_LT(loss(), 1e-3);
    }
}

// With tracking each step is for the mean loss, whoever does it. The exchanges of pairs that take
// no time, of the protocol, and with momentum.
TEST(SimulatedTraining, WithTrackingWorkersOfAnySpeedFindTheMinimumOfTheMean) {
  constexpr int kWorkers = 8;
  const auto problem = make_quadratic(kWorkers, {.dims = 16, .heterogeneity = 1, .noise = 0});
  for (const char* pairing : {"poisson", "handshake"})
    for (const double momentum : {0., .8}) {
      SCOPED_TRACE(testing::Message() << pairing << ", momentum " << momentum);
      SimulationOptions o = options_of("ring", kWorkers, "async-tracking", momentum);
      o.learning_rate = .05 * (1 - momentum);
      o.pairing = pairing;
      if (!is_ideal(pairing)) o.machines.slow = {1, 1, 1, 10};
      const auto loss = [&] {
        return simulate_training(plan_simulation(o), *problem, 2000, 1).final_loss;
      };
      EXPECT_LT(loss(), 1e-20);  // 1e-10 away
      o.method = "adpsgd";
      EXPECT_GT(loss(), 1e-5);
    }
}

// The figures of dist/methods/async_tracking.md: how large the learning rate may be, and what noise
// does.
TEST(SimulatedTraining, TrackingTakesLargeStepsAndUsesTheNoiseOfASlowWorkerOften) {
  constexpr int kWorkers = 8;
  const auto loss = [](const char* method, double slow, double rate, double noise) {
    const auto problem = make_quadratic(kWorkers, {.dims = 16, .noise = noise});
    SimulationOptions o = options_of("ring", kWorkers, method, 0);
    o.learning_rate = rate;
    o.pairing = "handshake";
    o.machines.slow = {1, 1, 1, slow};
    const auto r = simulate_training(plan_simulation(o), *problem, 2000, 1);
    return noise > 0 ? r.stationary_loss : r.final_loss;
  };
  EXPECT_LT(loss("async-tracking", 10, .4, 0), 1e-20);
  EXPECT_LT(loss("async-tracking", 100, .2, 0), 1e-12);
  EXPECT_NEAR(loss("async-tracking", 1, .05, 1), .026, .006);
  EXPECT_NEAR(loss("async-tracking", 10, .05, 1), .051, .012);
  EXPECT_NEAR(loss("adpsgd", 1, .05, 1), .025, .006);
  EXPECT_NEAR(loss("adpsgd", 10, .05, 1), .19, .03);
}

// With period 1 accumulated Adam is Adam (T19); a longer one keeps the workers' steps smaller.
TEST(SimulatedTraining, AccumulatedAdamOfPeriodOneIsDecentralizedAdam) {
  const auto problem = make_quadratic(8, {.dims = 8, .noise = 1});
  SimulationOptions o = options_of("ring", 8, "dadam", 0);
  o.learning_rate = .02;
  const auto adam = simulate_training(plan_simulation(o), *problem, 400, 2);
  EXPECT_LT(adam.stationary_loss, .2 * adam.loss.front());
  o.method = "accum-adam";
  o.settings.set("period", 1);
  const auto one = simulate_training(plan_simulation(o), *problem, 400, 2);
  EXPECT_EQ(one.loss, adam.loss);
  o.settings.set("period", 4);
  const auto four = simulate_training(plan_simulation(o), *problem, 400, 2);
  EXPECT_NE(four.loss, adam.loss);
  EXPECT_LT(four.stationary_loss, .2 * four.loss.front());
}

TEST(SimulatedTraining, LogisticRegressionEndsNearItsMinimum) {
  const auto problem = make_logistic(8, {.dims = 10, .heterogeneity = .5});
  EXPECT_GT(problem->loss(problem->start()), .01);
  for (const char* method : {"a2cid2", "adpsgd", "allreduce", "dpsgd", "sgp"}) {
    SimulationOptions o = options_of("ring", 8, method, .9);
    o.learning_rate = .05;
    const auto r = simulate_training(plan_simulation(o), *problem, 600, 2);
    // no model is better than the minimum that Newton's method found
    EXPECT_GT(r.loss.back(), 0) << method;
    EXPECT_LT(r.stationary_loss, .05 * r.loss.front()) << method;
  }
}

TEST(SimulatedTraining, TheNetworkWithLatenciesTrainsAsTheIdealOne) {
  const auto problem = make_quadratic(8, {.dims = 32});
  SimulationOptions o = options_of("ring", 8, "a2cid2", 0);
  o.learning_rate = .05;
  const auto ideal = simulate_training(plan_simulation(o), *problem, 800, 3);
  o.pairing = "handshake";
  const auto real = simulate_training(plan_simulation(o), *problem, 800, 3);
  EXPECT_NEAR(real.exchanges / real.gradients, .5, .05);
  // gradients at even times, and no partner twice running
  EXPECT_LT(real.stationary_distance, ideal.stationary_distance);
  EXPECT_GT(real.stationary_distance, .3 * ideal.stationary_distance);
  EXPECT_LT(real.stationary_loss, 3 * ideal.stationary_loss + .05);
}

}  // namespace
}  // namespace gossamer::dist
