// Oracles of A2CiD2's events, in double precision. T-numbers: see tests/README.md.
#include "gossamer/dist/gossip/a2cid2.h"

#include <array>

#include <gtest/gtest.h>

#include "gossamer/core/exchange.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/gossip/model.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/simulation/simulated_worker.h"

namespace gossamer::dist {
namespace {

using State = SimulatedWorker;

State worker(double x, double twin, double eta, double alpha_tilde = 0.5) {
  State w({x}, true);
  w.twin[0] = twin;
  w.numbers.eta = eta;
  w.numbers.alpha_tilde = alpha_tilde;
  return w;
}

// A communication event with no delay.
void exchange(State& a, State& b, double t) {
  std::vector<double> xa, xb;
  const A2cid2::Mark ma = a.snapshot(t, xa), mb = b.snapshot(t, xb);
  a.apply(ma, xa, xb);
  b.apply(mb, xb, xa);
}

void gradient(State& w, double t, const std::vector<double>& u) {
  w.drift(t);
  for (std::size_t k = 0; k < u.size(); ++k) w.update(k, u[k]);
}

TEST(A2cid2, T1_MixingHasTheClosedForm) {
  State w = worker(1, 3, .5);
  w.drift(1);
  EXPECT_NEAR(w.x[0], 1.632120558829, 1e-12);
  EXPECT_NEAR(w.twin[0], 2.367879441171, 1e-12);
  EXPECT_NEAR(MixCoefficients<double>::over(.5, 1).c, .683939720586, 1e-12);
}

TEST(A2cid2, T2_MixingIsAFlowThatKeepsTheSumAndShrinksTheDifference) {
  State once = worker(1.3, -.7, .21), twice = worker(1.3, -.7, .21);
  once.drift(3.5);
  twice.drift(1.25);
  twice.drift(3.5);
  EXPECT_NEAR(once.x[0], twice.x[0], 1e-12);
  EXPECT_NEAR(once.twin[0], twice.twin[0], 1e-12);
  EXPECT_NEAR(once.x[0] + once.twin[0], .6, 1e-12);
  EXPECT_NEAR(once.x[0] - once.twin[0], 2 * std::exp(-2 * .21 * 3.5), 1e-12);
  once.drift(1e6);
  EXPECT_NEAR(once.x[0], .3, 1e-12);
  EXPECT_NEAR(once.twin[0], .3, 1e-12);
  // expm of [[-eta, eta], [eta, -eta]] t by its series.
  double p[2] = {1.3, -.7}, sum[2] = {1.3, -.7};
  for (int k = 1; k < 40; ++k) {
    const double a = .21 * 3.5 / k * (p[1] - p[0]);
    p[0] = a, p[1] = -a;
    sum[0] += p[0], sum[1] += p[1];
  }
  EXPECT_NEAR(twice.x[0], sum[0], 1e-12);
}

TEST(A2cid2, T3_AnExchangeAveragesXAndMovesTheTwinsApart) {
  State a = worker(2, 1, 0, 1.8716888), b = worker(5, 4, 0, 1.8716888);
  exchange(a, b, 0);
  EXPECT_NEAR(a.x[0], 3.5, 1e-12);
  EXPECT_NEAR(b.x[0], 3.5, 1e-12);
  EXPECT_NEAR(a.twin[0], 6.6150664, 1e-12);
  EXPECT_NEAR(b.twin[0], -1.6150664, 1e-12);
}

// Random events on a ring; all brought to a common time before means are taken.
struct Network {
  Network(const char* graph, int n, int dims, bool twin, std::uint64_t seed)
      : g(make_graph(graph, n)), random(seed) {
    const GraphConstants k = constants(g);
    for (int i = 0; i < n; ++i) {
      std::vector<double> x;
      for (int d = 0; d < dims; ++d) x.push_back(random.normal());
      w.emplace_back(x, twin);
      if (twin) {
        w.back().numbers.eta = k.eta;
        w.back().numbers.alpha = k.alpha;
        w.back().numbers.alpha_tilde = k.alpha_tilde;
      }
    }
  }
  void communicate() {
    t += random.exponential() * 2 / g.n;
    const Edge& e = g.edges[random.below(static_cast<std::uint32_t>(g.edges.size()))];
    exchange(w[static_cast<std::size_t>(e.a)], w[static_cast<std::size_t>(e.b)], t);
  }
  void learn() {
    auto& one = w[random.below(static_cast<std::uint32_t>(g.n))];
    gradient(one, t += .01, {.1 * random.normal(), .1 * random.normal()});
  }
  std::pair<double, double> means() {
    double x = 0, y = 0;
    for (State& one : w) {
      one.drift(t);
      x += one.x[0] / g.n;
      y += one.twin[0] / g.n;
    }
    return {x, y};
  }
  Graph g;
  Rng random;
  std::vector<State> w;
  double t = 0;
};

TEST(A2cid2, T4_NoEventChangesTheMeansOfTheNetwork) {
  Network net("ring", 16, 2, true, 1);
  const auto before = net.means();
  for (int k = 0; k < 10000; ++k) net.communicate();
  const auto after = net.means();
  EXPECT_NEAR(after.first, before.first, 1e-14);
  EXPECT_NEAR(after.second, before.second, 1e-14);
}

TEST(A2cid2, T4_WithGradientsTheMeanOfXStaysTheMeanOfTheTwins) {
  Network net("ring", 16, 2, true, 2);
  for (int k = 0; k < 3000; ++k) net.communicate(), net.learn();
  const auto [x, twin] = net.means();
  EXPECT_NEAR(x, twin, 1e-12);
}

TEST(A2cid2, T5_WithoutAccelerationTheTwinIsX) {
  State a({2.0}, true), b({5.0}, true);
  State plain_a({2.0}, false), plain_b({5.0}, false);
  for (int k = 1; k < 50; ++k) {
    gradient(a, k, {.3}), gradient(plain_a, k, {.3});
    if (k % 3 == 0) exchange(a, b, k), exchange(plain_a, plain_b, k);
    EXPECT_EQ(a.x, a.twin);
    EXPECT_EQ(a.x, plain_a.x);
    EXPECT_EQ(b.x, plain_b.x);
  }
}

TEST(A2cid2, T7_OnTheCompleteGraphA2CiD2IsTheBaseline) {
  Network fast("complete", 8, 2, true, 5), base("complete", 8, 2, false, 5);
  for (int k = 0; k < 500; ++k) {
    fast.communicate(), base.communicate();
    fast.learn(), base.learn();
  }
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(fast.w[i].x[0], base.w[i].x[0], 1e-12);
}

TEST(A2cid2, T8_ALateJumpEqualsTheJumpAtItsOwnTime) {
  const double eta = .142474, alpha_tilde = 1.87169, other = 7.5;
  const auto play = [&](bool late, bool jump_at_all) {
    State w = worker(2, 1, eta, alpha_tilde);
    std::vector<double> own;
    const A2cid2::Mark mark = w.snapshot(.3, own);
    if (jump_at_all && !late) w.apply(mark, own, std::array{other});
    gradient(w, .5, {.4});
    w.drift(.8);
    if (jump_at_all && late) w.apply(mark, own, std::array{other});
    return std::tuple(w.x[0], w.twin[0], own[0] - other);
  };
  const auto [x, twin, d] = play(true, true);
  const auto [x_at_once, twin_at_once, d_at_once] = play(false, true);
  EXPECT_NEAR(x, x_at_once, 1e-12);
  EXPECT_NEAR(twin, twin_at_once, 1e-12);
  const auto [x_without, twin_without, d_without] = play(true, false);
  EXPECT_NEAR((x_without - x) / d, .591073288, 1e-9);
  EXPECT_NEAR((twin_without - twin) / d, 1.780616712, 1e-9);
}

TEST(A2cid2, T9_AGradientThatLandsDuringATransferIsNotLost) {
  State a({1.0}, false), b({2.0}, false);
  std::vector<double> xa, xb;
  const A2cid2::Mark ma = a.snapshot(0, xa), mb = b.snapshot(0, xb);
  gradient(a, 0, {.1});
  // what the published code does
  const double lerp = .5 * (a.x[0] + xb[0]) + .5 * (b.x[0] + xa[0]);
  a.apply(ma, xa, xb);
  b.apply(mb, xb, xa);
  EXPECT_NEAR(a.x[0] + b.x[0], 2.90, 1e-12);
  EXPECT_NEAR(lerp, 2.95, 1e-12);
}

TEST(A2cid2, T29_BetweenEqualWorkersExchangesChangeNothing) {
  State a = worker(1.7, 1.7, .3, 2), b = worker(1.7, 1.7, .3, 2), alone = worker(1.7, 1.7, .3, 2);
  for (int k = 1; k < 20; ++k) {
    gradient(a, k, {.2}), gradient(b, k, {.2}), gradient(alone, k, {.2});
    exchange(a, b, k);
    EXPECT_EQ(a.x, alone.x);
    EXPECT_EQ(b.twin, alone.twin);
  }
}

// A snapshot leaves x and x~ alone, and the flow also runs backwards: a difference that is applied
// before the next gradient event has the same effect as after it.
TEST(A2cid2, ADifferenceMayBeAppliedBeforeTheDriftToItsSnapshot) {
  const auto play = [&](bool early) {
    State w = worker(2, 1, .2, 1.9);
    A2cid2::Mark mark;
    std::vector<double> own(1);
    w.look(.7, own);
    const A2cid2::Mix mix = w.numbers.snapshot(.7, mark);
    EXPECT_DOUBLE_EQ(own[0], mix.c * w.x[0] + mix.s * w.twin[0]);
    if (early) w.apply(mark, own, std::array{5.0});
    gradient(w, 1.5, {.4});
    if (!early) w.apply(mark, own, std::array{5.0});
    w.drift(2);
    return std::pair(w.x[0], w.twin[0]);
  };
  const auto [x, twin] = play(true);
  const auto [x_late, twin_late] = play(false);
  EXPECT_NEAR(x, x_late, 1e-12);
  EXPECT_NEAR(twin, twin_late, 1e-12);
}

TEST(A2cid2, AGraphThatChangesMeanwhileLeavesTheJumpOfASnapshotAlone) {
  State w = worker(2, 1, .3, 1.8);
  std::vector<double> own;
  const A2cid2::Mark mark = w.snapshot(.4, own);
  w.drift(1);
  const Jump before = w.numbers.arrived(mark);
  w.numbers.alpha_tilde = .7;
  // the compiler may round one of the two calls otherwise
  EXPECT_DOUBLE_EQ(w.numbers.arrived(mark).x, before.x);
  EXPECT_DOUBLE_EQ(w.numbers.arrived(mark).twin, before.twin);
}

TEST(A2cid2, AStalledWorkerDriftsNoFurtherThanTheLongestGap) {
  A2cid2 a;
  a.eta = .1;
  a.longest_gap = 2;
  A2cid2::Mark mark;
  EXPECT_EQ(a.snapshot(1.5, mark).s, A2cid2::Mix::over(.1, 1.5).s);
  EXPECT_EQ(a.snapshot(50, mark).s, A2cid2::Mix::over(.1, 2).s);
  EXPECT_EQ(mark.drifted, .2);
  EXPECT_EQ(a.gradient(50).s, A2cid2::Mix::over(.1, 2).s);
  EXPECT_EQ(a.arrived(mark).x, .5) << "as at the snapshot";
  EXPECT_EQ(a.gradient(50).c, 1);
  EXPECT_EQ(a.gradient(39).c, 1) << "time does not go back";
}

// An optimizer that subtracts `u`; what the model asks of one in single precision.
class Subtract final : public Optimizer {
 public:
  Subtract(Tensor x, float u) : x_(std::move(x)), u_(u) {}
  void begin_step(const GradientScale&) override {}
  void update(FlatRange, float, const Twin* twin, const Difference* late) override {
    EXPECT_EQ(late, nullptr) << "on a CPU differences are applied at once";
    Tensor other = twin->values;
    mix(x_, other, twin->c, twin->s);
    for (float& v : x_.span<float>()) v -= u_;
    for (float& v : other.span<float>()) v -= u_;
  }
  std::vector<NamedTensor> state() override { return {}; }
  const char* name() const override { return "subtract"; }

 private:
  Tensor x_;
  const float u_;
};

TEST(A2cid2, TheSinglePrecisionPassesFollowTheSameEvents) {
  const int n = 1000;
  Rng random(3);
  std::vector<double> x, other;
  Tensor xf = Tensor::empty({n}), otherf = Tensor::empty({n});
  for (int k = 0; k < n; ++k) {
    x.push_back(random.normal()), other.push_back(random.normal());
    xf.span<float>()[static_cast<std::size_t>(k)] = static_cast<float>(x.back());
    otherf.span<float>()[static_cast<std::size_t>(k)] = static_cast<float>(other.back());
  }
  State d(x, true);
  GossipModel f(xf, true);
  f.exchange_by(DType::f32, nullptr);
  Tensor(f.incoming()).copy_from(otherf);
  for (A2cid2* a : {&d.numbers, &f.numbers}) a->eta = .2, a->alpha_tilde = 1.9;
  std::vector<double> own;
  Subtract optimizer(xf, .125f);
  for (int round = 1; round <= 5; ++round) {
    const A2cid2::Mark mark = d.snapshot(round, own);
    f.snapshot(round);
    gradient(d, round + .4, std::vector<double>(n, .125));
    f.gradient(round + .4, optimizer, 1);
    d.apply(mark, own, other), f.arrived();
  }
  const GossipModel::Access look(f);  // the last difference waits for a gradient
  for (std::size_t k = 0; k < n; ++k) {
    EXPECT_NEAR(f.x().span<float>()[k], d.x[k], 1e-4);
    EXPECT_NEAR(f.twin().span<float>()[k], d.twin[k], 1e-3);
  }
}

}  // namespace
}  // namespace gossamer::dist
