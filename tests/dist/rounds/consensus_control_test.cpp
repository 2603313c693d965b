// Consensus control: the distance it measures, the distance it keeps, and what that costs.
#include <numeric>

#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/rounds/consensus_controller.h"
#include "gossamer/dist/rounds/consensus_sketch.h"
#include "gossamer/dist/rounds/controllable.h"

namespace gossamer::dist {
namespace {

TEST(ConsensusSketch, EstimatesTheDistanceWithinItsStandardDeviation) {
  constexpr int n = 8, dims = 20000;
  std::vector<std::vector<float>> x(n, std::vector<float>(dims));
  double exact = 0;
  std::vector<double> mean(dims, 0.0);
  for (int i = 0; i < n; ++i) {
    Rng random(2, static_cast<std::uint64_t>(i));
    for (int k = 0; k < dims; ++k) {
      float& v = x[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
      v = 5 + .01f * random.normal();  // far from zero, close to each other
      mean[static_cast<std::size_t>(k)] += static_cast<double>(v) / n;
    }
  }
  for (const auto& row : x)
    for (std::size_t k = 0; k < dims; ++k)
      exact +=
          (static_cast<double>(row[k]) - mean[k]) * (static_cast<double>(row[k]) - mean[k]) / n;
  exact = std::sqrt(exact);
  double bias = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<double> sum(kSketchSize + 1, 0.0);
    for (const auto& row : x) {
      const auto s = sketch(Tensor::from(std::span<const float>(row), {dims}), seed);
      for (std::size_t j = 0; j < s.size(); ++j) sum[j] += s[j];
    }
    const double found = distance_from_sketches(sum, n);
    EXPECT_NEAR(found, exact, .07 * exact) << seed;  // three standard deviations
    bias += (found / exact - 1) / 20;
  }
  EXPECT_NEAR(bias, 0, .015);
}

// Any symmetric W, any x: the identity that turns three means into the distance after a part of a
// round.
TEST(ConsensusController, KnowsThePartOfARoundThatEndsAtTheTarget) {
  const double x[4] = {3, -1, .5, -2.5},
               W[4][4] = {{.5, .3, .2, 0}, {.3, .4, 0, .3}, {.2, 0, .7, .1}, {0, .3, .1, .6}};
  double whole[4] = {}, before = 0, after = 0, theta = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) whole[i] += W[i][j] * x[j];
    before += x[i] * x[i] / 4, after += whole[i] * whole[i] / 4,
        theta += (whole[i] - x[i]) * (whole[i] - x[i]) / 4;
  }
  before = std::sqrt(before), after = std::sqrt(after), theta = std::sqrt(theta);
  ASSERT_LT(after, before);
  for (double target = after; target < before; target += (before - after) / 7.3) {
    const double part = part_of_round(before, after, theta, target);
    double reached = 0;
    for (int i = 0; i < 4; ++i) reached += std::pow((1 - part) * x[i] + part * whole[i], 2) / 4;
    EXPECT_NEAR(std::sqrt(reached), target, 1e-12) << part;
    EXPECT_GT(part, 0);
    EXPECT_LE(part, 1);
  }
  EXPECT_EQ(part_of_round(before, after, theta, after), 1);
  EXPECT_EQ(part_of_round(2, 0, 2, 1), .5) << "an exact mean shortens all differences alike";
  EXPECT_NEAR(part_of_round(2, 1, 0, 1.5), 1.75 / 3, 1e-12)
      << "measured with noise: no movement, but another distance";
}

// Workers whose distance is 10 times the learning rate until they gossip.
class RatedWorkers final : public ControlledWorkers {
 public:
  void step(double rate) { rate_ = rate, distance_ = 10 * rate; }
  std::optional<Measured> measure(bool) override {
    return Measured{.distance = distance_, .theta = distance_, .learning_rate = rate_};
  }
  void gossip() override { distance_ /= 2; }
  void keep_part(double) override {}
  bool average_exactly() override { return true; }
  double steps() const override { return 100; }

 private:
  double rate_ = 0, distance_ = 0;
};

TEST(ConsensusController, MeasuresTheDistanceOnceTheLearningRateRisesNoMore) {
  ConsensusController controller({.fractions = {0.25}, .measure = 0.1});
  RatedWorkers workers;
  for (int k = 1; k <= 40; ++k) {
    workers.step(std::min(1.0, k / 20.0));
    controller.control(workers);
    EXPECT_EQ(controller.target(), k < 29 ? 0 : 2.5) << k;  // ten steps at the whole rate
  }
}

// What a part of a round leaves: (1 - part) x + part W x, also where push-sum's weights differ.
TEST(ConsensusControl, KeepsAPartOfARoundOfEveryMethod) {
  for (const char* name : {"dpsgd", "sgp"}) {
    const int n = 4;
    const double part = .3;
    LocalCluster cluster(n);
    std::vector<double> z(n), w(n);
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, 8);
      MethodOptions options;
      options.start_samples = 1;  // resumed: each keeps its own values
      options.settings.set("overlap", false);
      const Graph ring = make_graph("ring", n);
      const auto m = make_method(name, q.params, q.sgd, group, ring, options);
      auto& controllable = dynamic_cast<Controllable&>(*m);
      const bool weights = !m->state().empty();
      if (weights) m->state()[0].tensor.fill(static_cast<float>(.7 + .2 * rank));
      controllable.gossip();
      controllable.keep_part_of_gossip(part);
      const auto r = static_cast<std::size_t>(rank);
      z[r] = static_cast<double>(q.params.values().span<float>()[0]);
      w[r] = weights ? static_cast<double>(m->state()[0].tensor.item()) : 1;
      m->finish();
    });
    for (int i = 0; i < n; ++i) {
      double u = 0, weight = 0;
      for (int j = 0; j < n; ++j) {
        const double share = (i == j ? 1 - part : 0) + ((j - i + n) % n != 2 ? part / 3 : 0),
                     own = name == std::string("sgp") ? .7 + .2 * j : 1;
        u += share * own * j, weight += share * own;
      }
      EXPECT_NEAR(w[static_cast<std::size_t>(i)], weight, 1e-6) << name;
      EXPECT_NEAR(z[static_cast<std::size_t>(i)], u / weight, 1e-5) << name;
    }
  }
}

struct Kept {
  std::vector<double> distance, target;  // exact, after each step
  MethodStats stats;
  std::vector<float> mean;  // of all workers, at the end
  // Steps with a target, and those of them within 20 % of it.
  std::pair<int, int> near() const {
    int steps = 0, near = 0;
    for (std::size_t k = 0; k < target.size(); ++k)
      if (target[k] > 0) ++steps, near += std::abs(distance[k] / target[k] - 1) <= .2;
    return {steps, near};
  }
};

// n workers on a ring whose gradients are noise: what they would drift apart to, and what control
// keeps.
Kept train(int n, const ConsensusControlOptions& control, int steps,
           const char* method = "consensus-control", double rate = .1) {
  Kept kept;
  LocalCluster cluster(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, 512);  // all begin at the mean
    MethodOptions options;
    options.batch = 1;
    options.total_samples = 1.0 * n * steps;
    options.rounds = "ring";
    if (method == std::string("consensus-control")) options.settings.set_all(control);
    auto m = make_method(method, q.params, q.sgd, group, make_graph("ring", n), options);
    while (!m->done()) {
      for (float& g : q.params.grads().span<float>().first(512)) g = q.noise.normal();
      m->step(rate);
      const double exact = exact_consensus_distance(q.params.values().clone(), group.collectives());
      if (rank == 0) kept.distance.push_back(exact), kept.target.push_back(m->stats().target);
    }
    if (rank == 0) kept.stats = m->stats();
    const auto mine = m->stats();
    m->finish();
    if (rank == 0) {
      const auto values = q.params.values().span<float>();
      kept.mean.assign(values.begin(), values.end());
    }
    EXPECT_EQ(mine.control.gossip, m->stats().control.gossip);
  });
  return kept;
}

double mean_from(const std::vector<double>& v, std::size_t begin) {
  return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(begin), v.end(), 0.0) /
         static_cast<double>(v.size() - begin);
}

TEST(ConsensusControl, KeepsTheDistanceAtItsTarget) {
  const int n = 8, steps = 300;
  ConsensusControlOptions control;
  control.fractions = {.5};
  control.measure = .2;
  const Kept free = train(n, control, steps, "dpsgd"), kept = train(n, control, steps);
  const double plateau = mean_from(free.distance, 60), target = kept.target.back();
  // Noise alone: the plateau is the one of algorithms' T26, 1.3862 for each coordinate.
  EXPECT_NEAR(plateau, .1 * std::sqrt(1.3862 * 512), .05 * plateau);
  EXPECT_NEAR(target, .5 * plateau, .1 * target);
  EXPECT_EQ(kept.target[30], 0) << "while it measures";
  const double reached = mean_from(kept.distance, 70);
  EXPECT_NEAR(reached, target, .05 * target);
  // The noise is the same, and control only moves what workers have between them.
  for (std::size_t k = 0; k < kept.mean.size(); ++k) EXPECT_NEAR(kept.mean[k], free.mean[k], 2e-4f);
  EXPECT_GT(kept.stats.control.gossip, 100);
  EXPECT_GT(kept.stats.theta, 0);
  // The cheap bound: Xi <= theta / (1 - lambda_2), of the last gossip step.
  EXPECT_LT(kept.distance.back(), 1.1 * kept.stats.theta / (1 - .80474));
  RecordProperty("plateau", std::to_string(plateau));
  RecordProperty("target", std::to_string(target));
  RecordProperty("reached", std::to_string(reached));
  RecordProperty("extra_gossip", static_cast<int>(kept.stats.control.gossip));
}

TEST(ConsensusControl, KeepsARingOf8NearItsTargetInNearlyAllSteps) {
  for (const ConsensusControlOptions& control :
       {ConsensusControlOptions{.fractions = {.5}, .measure = .2},
        ConsensusControlOptions{.fractions = {.25}, .measure = .2},
        ConsensusControlOptions{.target = "online", .factor = .7}}) {
    const Kept kept = train(8, control, 200);
    const auto [steps, near] = kept.near();
    EXPECT_GT(steps, 150);
    EXPECT_GE(near, .95 * steps);
    EXPECT_EQ(kept.stats.control.steps, steps);
    EXPECT_EQ(kept.stats.control.exact_averages, 0);
    const std::string name = control.target == "online"   ? "online"
                             : control.fractions[0] == .5 ? "half"
                                                          : "quarter";
    RecordProperty(name + "_near", std::to_string(1. * near / steps));
    RecordProperty(name + "_gossip",
                   std::to_string(static_cast<double>(kept.stats.control.gossip) / steps));
    RecordProperty(name + "_ratio",
                   std::to_string(mean_from(kept.distance, 50) / kept.target.back()));
  }
}

TEST(ConsensusControl, FollowsPhasesAndEscapesToExactAverages) {
  ConsensusControlOptions control;
  control.phases = {.3, .6};
  control.fractions = {1, 0, .3};
  control.measure = .1;
  // phase 2: gossip is not allowed, so each control averages exactly
  control.most = 0;
  const Kept kept = train(4, control, 100);
  EXPECT_GT(kept.distance[25], 0) << "phase 0 is left alone";
  EXPECT_EQ(kept.target[25], 0);
  EXPECT_LT(kept.distance[40], 1e-5) << "phase 1 averages exactly";
  EXPECT_GT(kept.distance[65], 1e-2) << "phase 2 measures first";
  EXPECT_GT(kept.target.back(), 0);
  EXPECT_EQ(kept.stats.control.gossip, 0);
  EXPECT_GT(kept.stats.control.exact_averages, 30);
}

TEST(ConsensusControl, OnlineAimsAtTheLearningRateTimesTheGradientNorm) {
  ConsensusControlOptions control;
  control.target = "online";
  control.factor = .7;
  const Kept kept = train(8, control, 120);
  // |g| = sqrt(512) on average.
  EXPECT_NEAR(kept.target.back(), .7 * .1 * std::sqrt(512.0), .05 * kept.target.back());
  EXPECT_NEAR(mean_from(kept.distance, 20), kept.target.back(), .05 * kept.target.back());
  EXPECT_GT(kept.stats.control.gossip, 50);
}

TEST(ConsensusControl, RefusesWhatItCantDo) {
  LocalCluster cluster(1);
  const auto error = [&](const ConsensusControlOptions& control) {
    Quadratic q(0, 4);
    MethodOptions options;
    options.settings.set_all(control);
    try {
      make_method("consensus-control", q.params, q.sgd, cluster.group(0), make_graph("ring", 1),
                  options);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error({}), "no error");
  EXPECT_NE(error({.method = "a2cid2"}).find("it can: dpsgd, sgp, local-sgd"), std::string::npos);
  EXPECT_NE(error({.target = "offline"}).find("plateau, online"), std::string::npos);
  EXPECT_NE(error({.phases = {.5}}).find("one more than control.phases"), std::string::npos);
  EXPECT_NE(error({.phases = {.5, .2}, .fractions = {1, 1, 1}}).find("ascending"),
            std::string::npos);
}

}  // namespace
}  // namespace gossamer::dist
