// Methods for workers whose data differ, on a problem of four workers on a chain, f_i(x) = |A_i x -
// b_i|^2 / 2 in two dimensions, for which the values after 3, 50 and 2,000 rounds are known
// (computed from the matrix form of each method in double precision, in Python).
#include <array>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/mixing.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

constexpr int kWorkers = 4;
constexpr double kRate = .05, kMomentum = .9;
using Point = std::array<double, 2>;
using Points = std::array<Point, kWorkers>;
constexpr Point kMinimum = {1 / 24., 87 / 72.};

Point gradient(std::size_t worker, const Point& x) {
  constexpr double a[kWorkers][2][2] = {
      {{1, 0}, {0, 2}}, {{2, 1}, {0, 1}}, {{1, 1}, {1, -1}}, {{1, 0}, {1, 1}}};
  constexpr double b[kWorkers][2] = {{3, 2}, {-1, 3}, {4, 0}, {-2, 1}};
  Point g = {0, 0};
  for (std::size_t row = 0; row < 2; ++row) {
    const auto& line = a[worker][row];
    const double residual = line[0] * x[0] + line[1] * x[1] - b[worker][row];
    for (std::size_t k = 0; k < 2; ++k) g[k] += line[k] * residual;
  }
  return g;
}

// What a method makes of the problem, in double precision and with nothing but its formula.
class InDouble final : private RoundWorker {
 public:
  InDouble(const std::string& method, const Settings& settings, double momentum, bool nesterov)
      : formula_(method_row(method).formula(settings)),
        rounds_(make_rounds("chain", kWorkers)),
        momentum_(momentum),
        nesterov_(nesterov) {}

  void run(int steps) {
    for (; steps > 0; --steps, ++step_) {
      for (std::size_t i = 0; i < kWorkers; ++i) at(Vector::gradient)[i] = gradient(i, x()[i]);
      formula_->step(*this, step_);
    }
  }
  Points& x() { return at(Vector::model); }

 private:
  Points& at(Vector v) { return vectors_.at(static_cast<std::size_t>(v)); }
  void average_gradients() override { FAIL(); }
  void average() override { FAIL(); }
  void outer_step(const OuterStep&) override { FAIL(); }
  double learning_rate() const override { return kRate; }
  void update() override {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        x()[i][k] -= kRate * sgd_direction(momentum_, 0., nesterov_, x()[i][k],
                                           at(Vector::gradient)[i][k], at(Vector::velocity)[i][k]);
  }
  void mix() override {
    const Points before = x();
    for (int i = 0; i < kWorkers; ++i) {
      const Round r = with_consensus_factor(rounds_->round(i, 0), formula_->consensus_factor());
      for (std::size_t k = 0; k < 2; ++k) {
        double& to = x()[static_cast<std::size_t>(i)][k];
        const double own = to;
        for (const Neighbour& j : r.in)
          to += j.weight * (before[static_cast<std::size_t>(j.worker)][k] - own);
      }
    }
  }
  void mix_ahead() override { mix(); }
  void blend(Vector to, double a, double b, Vector from) override {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k) at(to)[i][k] = a * at(to)[i][k] + b * at(from)[i][k];
  }

  const std::unique_ptr<RoundFormula> formula_;
  const std::shared_ptr<const Rounds> rounds_;
  const double momentum_;
  const bool nesterov_;
  std::array<Points, 5> vectors_{};
  i64 step_ = 0;
};

double root_mean_square(const Points& x) {  // of the distance to the minimum
  double sum = 0;
  for (const Point& p : x)
    for (std::size_t k = 0; k < 2; ++k) sum += (p[k] - kMinimum[k]) * (p[k] - kMinimum[k]);
  return std::sqrt(sum / kWorkers);
}

struct Case {
  const char* name;
  const char* method;
  double momentum;
  bool nesterov;
  Settings settings;
  Points after3, after50;
  double distance;  // after 2,000, to the minimum
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class UnlikeData : public testing::TestWithParam<Case> {};

TEST_P(UnlikeData, TheFormulaGivesTheKnownValues) {
  const Case& c = GetParam();
  InDouble all(c.method, c.settings, c.momentum, c.nesterov);
  const auto expect = [&](const Points& wanted, int round) {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_NEAR(all.x()[i][k], wanted[i][k], 1e-10) << "round " << round << ", worker " << i;
  };
  all.run(3);
  expect(c.after3, 3);
  all.run(47);
  expect(c.after50, 50);
  all.run(1950);
  EXPECT_NEAR(root_mean_square(all.x()), c.distance, c.distance > 0 ? 6e-4 : 1e-9);
}

// The same by workers that train, in single precision; and stopped after 20 rounds and resumed.
TEST_P(UnlikeData, WorkersThatTrainGiveThemToo) {
  const Case& c = GetParam();
  constexpr int kStop = 20, kSteps = 50;
  for (const bool stopped : {false, true}) {
    std::vector<std::vector<NamedTensor>> kept(kWorkers);
    std::vector<std::vector<float>> x(kWorkers), velocity(kWorkers);
    const auto train = [&](int from, int to) {
      LocalCluster cluster(kWorkers);
      on_workers(cluster, kWorkers, [&](int rank, Group& group) {
        const auto me = static_cast<std::size_t>(rank);
        Tensor w = Tensor::zeros({2});
        FlatParams params({{"w", w}});
        params.settle_grads();
        nn::Sgd sgd(params, {.momentum = c.momentum, .nesterov = c.nesterov});
        MethodOptions options = options_of("chain", kWorkers, kSteps);
        options.settings = c.settings;
        options.start_samples = static_cast<double>(options.batch) * kWorkers * from;
        const auto method =
            make_method(c.method, params, sgd, group, make_graph("complete", kWorkers), options);
        if (from > 0) {
          std::ranges::copy(x[me], params.values().span<float>().begin());
          std::ranges::copy(velocity[me], sgd.state()[0].tensor.span<float>().begin());
          const std::vector<NamedTensor> state = method->state();
          ASSERT_EQ(state.size(), kept[me].size());
          for (std::size_t i = 0; i < state.size(); ++i)
            Tensor(state[i].tensor).copy_from(kept[me][i].tensor);
          params.refresh();
        }
        for (int step = from; step < to; ++step) {
          const auto at = params.compute_f32().span<float>();
          const Point g = gradient(me, {static_cast<double>(at[0]), static_cast<double>(at[1])});
          for (std::size_t k = 0; k < 2; ++k)
            params.grads().span<float>()[k] = static_cast<float>(g[k]);
          method->step(kRate);
        }
        x[me] = copy(params.values());
        velocity[me] = copy(sgd.state()[0].tensor);
        kept[me].clear();
        for (const NamedTensor& each : method->state())
          kept[me].push_back({each.name, each.tensor.clone()});
        group.collectives().barrier();
      });
    };
    if (stopped)
      train(0, kStop), train(kStop, kSteps);
    else
      train(0, kSteps);
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_NEAR(static_cast<double>(x[i][k]), c.after50[i][k], 1e-5)
            << "worker " << i << (stopped ? ", resumed" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, UnlikeData,
                         testing::Values(Case{"gut",
                                              "d2",
                                              0,
                                              false,
                                              Settings().set("damp", .9),
                                              {{{.162703703704, .400944444444},
                                                {.141361111111, .381870370370},
                                                {.092314814815, .341166666667},
                                                {.080092592593, .314240740741}}},
                                              {{{.065736384114, 1.187016665132},
                                                {.059312242716, 1.197496572158},
                                                {.041509566496, 1.206696292085},
                                                {.038447584664, 1.211955580970}}},
                                              .0158807},
                                         Case{"dpsgd",
                                              "dpsgd",
                                              0,
                                              false,
                                              Settings().set("overlap", false),
                                              {{{.170037037037, .411944444444},
                                                {.160944444444, .400203703704},
                                                {.067731481481, .331000000000},
                                                {.073759259259, .292074074074}}},
                                              {{{.153356682958, 1.12054032698},
                                                {.107177337769, 1.20263936423},
                                                {-.047571961370, 1.27033013358},
                                                {-.058898544802, 1.31307954350}}},
                                              .128},
                                         Case{"qg_dsgdm",
                                              "qg-dsgdm",
                                              kMomentum,
                                              false,
                                              {},
                                              {{{.186243703704, .450599444444},
                                                {.174001111111, .436170370370},
                                                {.077184814815, .362801666667},
                                                {.080862592593, .320155740741}}},
                                              {{{.075961181037, 1.16492503537},
                                                {.031592229620, 1.25622102237},
                                                {-.123970622071, 1.33821050276},
                                                {-.138877395798, 1.38776751389}}},
                                              .128},
                                         Case{"qg_dsgdm_n",
                                              "qg-dsgdm",
                                              kMomentum,
                                              true,
                                              {},
                                              {{{.293333280370, .716717989444},
                                                {.271721237778, .717060387037},
                                                {.087933928148, .614895448333},
                                                {.118481705926, .558070642407}}},
                                              {{{.197102391176, 1.08346589180},
                                                {.133957470450, 1.21624829553},
                                                {-.131197313789, 1.32204383092},
                                                {-.129263481408, 1.39517158731}}},
                                              .203},
                                         Case{"d2",
                                              "d2",
                                              0,
                                              false,
                                              {},
                                              {{{.161333333333, .399166666667},
                                                {.139370370370, .379648148148},
                                                {.094861111111, .342296296296},
                                                {.081351851852, .317444444444}}},
                                              {{{.053012759564, 1.19643077877},
                                                {.053037030794, 1.19662476907},
                                                {.053036461347, 1.19689985450},
                                                {.053013582434, 1.19704092757}}},
                                              0},
                                         Case{"exact_diffusion",
                                              "exact-diffusion",
                                              0,
                                              false,
                                              {},
                                              {{{.206574652778, .419788194444},
                                                {.118978587963, .395553240741},
                                                {.118777777778, .353549189815},
                                                {.055346064815, .280529513889}}},
                                              {{{.052994042792, 1.19628562211},
                                                {.052848567285, 1.19702651113},
                                                {.052472659599, 1.19770460643},
                                                {.052092750889, 1.19825131300}}},
                                              0}),
                         [](const auto& test) { return std::string(test.param.name); });

// A worker alone takes the optimizer's own step, to the bit.
TEST(UnlikeData, AWorkerAloneIsNotCorrected) {
  const auto train = [](const std::string& name) {
    LocalCluster cluster(1);
    std::vector<float> out;
    on_workers(cluster, 1, [&](int rank, Group& group) {
      Quadratic q(rank, 5, .9f);
      const auto method =
          make_method(name, q.params, q.sgd, group, make_graph("ring", 1), options_of("", 1, 30));
      while (!method->done()) q.gradient(.1f), method->step(.1);
      out = copy(q.params.values());
    });
    return out;
  };
  EXPECT_EQ(train("d2"), train("dpsgd"));
  EXPECT_EQ(train("exact-diffusion"), train("dpsgd"));
}

// Rounds that change would let the correction grow without limit.
TEST(UnlikeData, D2RefusesRoundsThatItCannotTake) {
  const auto error = [](const std::string& name, const std::string& rounds, int n) {
    LocalCluster cluster(n);
    MethodOptions options = options_of(rounds, n, 1);
    return error_of(
        [&] { check_method(name, "sgd", cluster.group(0), make_graph("ring", n), options); });
  };
  for (const char* rounds : {"one-peer-exp", "base:2", "epidemic:2"})
    for (const char* name : {"d2", "exact-diffusion"})
      EXPECT_NE(error(name, rounds, 6).find("its correction would grow"), std::string::npos)
          << name << " " << rounds << ": " << error(name, rounds, 6);
  // An even ring with weights 1/3 has exactly -1/3.
  EXPECT_NE(error("d2", "", 16)
                .find("is -0.333333; it must be above -1/3; take the method "
                      "exact-diffusion"),
            std::string::npos)
      << error("d2", "", 16);
  EXPECT_EQ(error("d2", "", 15), "no error");
  EXPECT_EQ(error("exact-diffusion", "", 16), "no error");
  EXPECT_EQ(error("qg-dsgdm", "epidemic:2", 16), "no error");
  // QG needs the momentum that it steers.
  LocalCluster cluster(1);
  Quadratic q(0, 4);
  nn::Adam adam(q.params);
  EXPECT_NE(error_of([&] {
              make_method("qg-dsgdm", q.params, adam, cluster.group(0), make_graph("ring", 1),
                          options_of("", 1, 1));
            }).find("steers the momentum of SGD"),
            std::string::npos);
}

// What a dead worker's data did to the correction is gone after the meeting: the living end at the
// mean of their own targets.
TEST(UnlikeData, ADeadWorkerLeavesNothingInTheCorrection) {
  constexpr int n = 5, dies = 4, steps = 400;
  LocalCluster cluster(n);
  std::vector<std::vector<float>> x(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, 6);
    const MethodOptions options = options_of("", n, steps);
    const auto method =
        make_method("exact-diffusion", q.params, q.sgd, group, make_graph("ring", n), options);
    for (int step = 0; !method->done(); ++step) {
      if (rank == dies && step == 60) return cluster.kill(rank);
      q.gradient();
      method->step(.1);
    }
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
    method->finish();
  });
  for (int i = 0; i < n; ++i) {
    if (i == dies) continue;
    for (int k = 0; k < 6; ++k)
      EXPECT_NEAR(static_cast<double>(x[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)]),
                  1.5 + .01 * k, 1e-4)
          << i;
  }
}

}  // namespace
}  // namespace gossamer::dist
