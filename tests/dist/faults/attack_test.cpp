// Workers that lie (faults/attack.h): what they say, and who withstands it, among workers that
// train and simulated ones.
#include "gossamer/dist/faults/attack.h"

#include <gtest/gtest.h>

#include "dist/workers.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/simulation/liars.h"
#include "gossamer/dist/simulation/problems.h"

namespace gossamer::dist {
namespace {

TEST(Attack, SaysWhatItsFormulaSays) {
  const std::vector<double> own = {7, 7}, target = {1, 0}, a = {2, 0}, b = {3, 6};
  const auto said = [&](Attack attack) {
    std::vector<double> out(2);
    lie<double>(attack, own, target, .25, {{.5, a}, {.25, b}}, out);
    return out;
  };
  EXPECT_EQ(said(Attack::sign_flip), (std::vector<double>{-7, -7}));
  EXPECT_EQ(said(Attack::label_flip), own);
  // 1 - 1.5 (.5 (2 - 1) + .25 (3 - 1)) / .25
  EXPECT_EQ(said(Attack::dissensus), (std::vector<double>{-5, -9}));
  // means 2 and 2, deviations 1 and the root of 12
  EXPECT_DOUBLE_EQ(said(Attack::alie)[0], 2 - 10);
  EXPECT_DOUBLE_EQ(said(Attack::alie)[1], 2 - 10 * std::sqrt(12.));
  EXPECT_DOUBLE_EQ(said(Attack::ipm)[0], -.2);
  std::vector<double> out(2);
  lie<double>(Attack::alie, own, target, 1, {}, out);  // nobody else is known
  EXPECT_EQ(out, target);
}

constexpr const char* kLies[] = {"dissensus", "sign-flip", "alie", "ipm"};

// Eight workers with the same data, of which one lies: how far an honest one ends from the minimum,
// at most. All are at 1 with the honest models.
double trained(const std::string& method, const std::string& inject) {
  constexpr int kWorkers = 8;
  LocalCluster cluster(kWorkers);
  std::array<double, kWorkers> distance{};
  on_workers(cluster, kWorkers, [&](int rank, Group& plain) {
    Injector faults(parse_injections(inject), rank, {});
    faults.start();
    const std::unique_ptr<Group> group = disturbed(plain, faults, 7, Seconds(30));
    Quadratic q(rank, 8);
    std::ranges::fill(q.target, 1.f);
    MethodOptions options;
    options.seed = 5;
    auto run =
        make_method(method, q.params, q.sgd, *group, make_graph("exponential", kWorkers), options);
    for (int step = 0; step < 200; ++step) {
      q.gradient(.1f);
      faults.before_step(step);
      run->step(.05);
      faults.after_step();
    }
    run->read_model([&] {
      for (const float x : q.params.values().span<float>().first(q.target.size())) {
        double& far = distance[static_cast<std::size_t>(rank)];
        far = std::max(far, std::isfinite(x) ? std::abs(x - 1.) : INFINITY);
      }
    });
    run->finish();
  });
  distance[3] = 0;
  return *std::ranges::max_element(distance);
}

TEST(Attack, ClippedGossipHoldsAgainstALiarAndMixingDoesNot) {
  EXPECT_LT(trained("dpsgd", ""), .1);
  for (const std::string attack : kLies) {
    SCOPED_TRACE(attack);
    EXPECT_LT(trained("clipped-gossip", "attack:3:" + attack), .1);
    EXPECT_GT(trained("dpsgd", "attack:3:" + attack), .12);
  }
}

TEST(Attack, BeginsAtItsStep) {
  EXPECT_LT(trained("dpsgd", "attack:3:sign-flip@step=200"), .2);
  EXPECT_GT(trained("dpsgd", "attack:3:sign-flip@step=50"), .4);
}

double simulated(const std::string& method, const std::string& inject,
                 const std::string& pairing = "poisson") {
  constexpr int kWorkers = 8;
  SimulationOptions o;
  o.graph = "exponential";
  o.workers = kWorkers;
  o.method = method;
  o.learning_rate = .2;
  o.inject = inject;
  o.pairing = pairing;
  LogisticOptions of{.dims = 8, .heterogeneity = 0};
  const SimulationPlan plan = plan_simulation(o);
  for (const Injection& each : parse_injections(inject))
    if (!each.lies()) of.wrong_labels.push_back(each.rank);
  return simulate_training(plan, *make_logistic(kWorkers, of), 400, 1).stationary_loss;
}

TEST(Attack, ClippedGossipHoldsAgainstASimulatedLiarAndMixingDoesNot) {
  const double honest = simulated("dpsgd-atc", "");
  for (const std::string attack : kLies) {
    SCOPED_TRACE(attack);
    const double a = simulated("clipped-gossip", "attack:3:" + attack),
                 b = simulated("dpsgd-atc", "attack:3:" + attack);
    EXPECT_LT(a, 2 * honest);
    EXPECT_GT(b, 4 * honest);
  }
  // the data of one in eight are wrong: that moves the minimum, for any method
  const double flipped = simulated("dpsgd-atc", "attack:3:label-flip");
  EXPECT_GT(flipped, 1.3 * honest);
}

// AD-PSGD halves the distance to what it hears. Worker 1 tells 0 and 2 minus its model, from step 3
// on, and hears the truth.
TEST(Attack, OfASimulatedPairIsHeardByTheOtherOnly) {
  SimulationOptions o;
  o.graph = "complete";
  o.workers = 3;
  o.method = "adpsgd";
  o.dims = 2;
  o.inject = "attack:1:sign-flip@step=3";
  SimulationPlan plan = plan_simulation(o);
  plan.start = {1, 2, 3, 5, 7, 11};
  std::vector<double> x = plan.start;
  int lies = 0;
  plan.watch = [&](const SimulatedEvent& e) {
    for (std::size_t k = 0; k < 2; ++k) {
      double &a = x[static_cast<std::size_t>(e.i) * 2 + k],
             &b = x[static_cast<std::size_t>(e.j) * 2 + k];
      const bool begun = e.t >= 3;
      const double a_says = begun && e.i == 1 ? -a : a, b_says = begun && e.j == 1 ? -b : b;
      lies += begun && (e.i == 1 || e.j == 1) ? 1 : 0;
      std::tie(a, b) = std::pair(.5 * (a + b_says), .5 * (b + a_says));
      EXPECT_NEAR(e.x[k], a, 1e-12);
      EXPECT_NEAR(e.other_x[k], b, 1e-12);
    }
  };
  make_simulation(plan, nullptr, 1)->run_until(10);
  EXPECT_GT(lies, 0);
}

// The liars of a pair take the neighbours of whom they lie to, with equal weights: worker 0 hears
// -.1 times the mean of itself and worker 2, and not of the other liar, 3.
TEST(Attack, OfASimulatedPairKnowsTheHonestNeighbours) {
  SimulationOptions o;
  o.graph = "complete";
  o.workers = 4;
  o.inject = "attack:1:ipm,attack:3:ipm";
  const SimulationPlan plan = plan_simulation(o);
  const auto look = [](int worker, std::span<double> out) {
    EXPECT_EQ(worker, 2);
    out[0] = 9;
  };
  const PairLies lies(plan);
  const std::vector<double> target = {5};
  const std::vector<double> x = {1};
  std::vector<double> lie;
  const auto said = [&](int from, int to) {
    return lies.said(from, to, 0, x, target, look, lie)[0];
  };
  EXPECT_DOUBLE_EQ(said(1, 0), -.7);
  EXPECT_EQ(said(2, 0), 1) << "honest";
  EXPECT_EQ(said(1, 3), 1) << "among liars";
}

// Nobody of a pair can say how far is too far.
TEST(Attack, PairsHaveNoProtectionInSimulation) {
  for (const std::string method : {"adpsgd", "a2cid2", "async-tracking"}) {
    const double honest = simulated(method, "");
    for (const std::string pairing : {"poisson", "handshake"})
      for (const std::string attack : {"sign-flip", "alie", "dissensus"}) {
        SCOPED_TRACE(method + " " + pairing + " " + attack);
        EXPECT_GT(simulated(method, "attack:3:" + attack, pairing), 4 * honest);
      }
  }
}

TEST(Attack, IsRefusedWhereNobodySendsAModel) {
  const auto refused = [](const std::string& method, const std::string& inject) {
    SimulationOptions o;
    o.method = method;
    o.workers = 8;
    o.inject = inject;
    if (method == "relay-sgd") o.graph = "chain";
    EXPECT_THROW(plan_simulation(o), ConfigError) << method << " " << inject;
  };
  for (const char* method : {"allreduce", "local-sgd", "relay-sgd", "choco"})
    refused(method, "attack:3:alie");
  refused("dpsgd", "kill:rank=3");
  refused("dpsgd", "attack:3:alie@t=3");
  refused("dpsgd", "attack:8:alie");
}

}  // namespace
}  // namespace gossamer::dist
