// dpsgd, sgp, local-sgd and their optimizers on workers in one process: against matrices in double,
// in pieces, and when workers die.
#include "dist/rounds/synchronous.h"

#include <algorithm>
#include <numbers>

#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/rounds/mixing.h"

namespace gossamer::dist {
namespace {

constexpr int kDims = 12;
constexpr double kRate = 0.1;

double noise_at(int worker, int step, int k) {
  Rng random(11, static_cast<std::uint64_t>(worker * 10007 + step * 101 + k));
  return random.normal();
}

// --- T26, T20: what the methods compute

// x_i <- sum_j W_ij x_j - lr g_i (AWC) or sum_j W_ij (x_j - lr g_j) (ATC), gradients written down,
// in double.
std::vector<double> by_matrix(const Rounds& rounds, int steps, bool overlap, double phi) {
  const int n = rounds.workers();
  std::vector<double> x(static_cast<std::size_t>(n) * kDims, 0.0);
  const auto at = [](int worker, int k) { return static_cast<std::size_t>(worker * kDims + k); };
  const auto mix = [&](i64 round) {
    const auto w = mixing_matrix(rounds, round);
    const auto before = x;
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < kDims; ++k) {
        double sum = (1 - phi) * before[at(i, k)];
        for (int j = 0; j < n; ++j)
          sum += phi * w[static_cast<std::size_t>(i * n + j)] * before[at(j, k)];
        x[at(i, k)] = sum;
      }
  };
  for (int step = 0; step < steps; ++step) {
    if (overlap && step > 0) mix(step - 1);
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < kDims; ++k) x[at(i, k)] -= kRate * noise_at(i, step, k);
    if (!overlap) mix(step);
  }
  return x;
}

struct Case {
  const char* method;
  const char* rounds;
  int n;
  bool overlap;
  double phi;
};
class Mixing : public testing::TestWithParam<Case> {};

TEST_P(Mixing, T26_InAClusterIsTheMatrixProduct) {
  const Case c = GetParam();
  const int steps = 9;
  const auto want = by_matrix(*make_rounds(c.rounds, c.n), steps, c.overlap, c.phi);
  LocalCluster cluster(c.n);
  on_workers(cluster, c.n, [&](int rank, Group& group) {
    Quadratic q(0, kDims);
    MethodOptions options = options_of(c.rounds, c.n, steps, c.overlap);
    options.settings.set("consensus_factor", c.phi);
    auto method =
        make_method(c.method, q.params, q.sgd, group, make_graph("complete", c.n), options);
    for (int step = 0; !method->done(); ++step) {
      for (int k = 0; k < kDims; ++k)
        q.params.grads().span<float>()[static_cast<std::size_t>(k)] =
            static_cast<float>(noise_at(rank, step, k));
      method->step(kRate);
    }
    EXPECT_EQ(method->samples_seen(), options.total_samples);
    for (int k = 0; k < kDims; ++k)
      EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[static_cast<std::size_t>(k)]),
                  want[static_cast<std::size_t>(rank * kDims + k)], 2e-6)
          << rank;
    EXPECT_EQ(method->stats().failed, 0);
    method->finish();
  });
}
INSTANTIATE_TEST_SUITE_P(
    Methods, Mixing,
    testing::Values(Case{"dpsgd", "ring", 8, true, 1}, Case{"dpsgd", "ring", 8, false, 1},
                    Case{"dpsgd", "ring", 5, true, .3}, Case{"dpsgd", "complete", 4, false, .5},
                    Case{"dpsgd", "one-peer-exp", 6, true, 1}, Case{"dpsgd", "star", 5, true, 1},
                    Case{"dpsgd", "ring", 3, true, 0},
                    Case{"sgp", "one-peer-exp-directed", 8, true, 1},
                    Case{"sgp", "one-peer-exp-directed", 6, false, 1},
                    Case{"sgp", "torus", 6, true, 1}),
    [](const auto& test) {
      std::string name = std::string(test.param.method) + "_" + test.param.rounds + "_" +
                         std::to_string(test.param.n) + (test.param.overlap ? "_awc_" : "_atc_") +
                         std::to_string(static_cast<int>(10 * test.param.phi));
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(Mixing, T20_TheConsensusFactorKeepsSumsAndZeroChangesNothing) {
  const auto rounds = make_rounds("complete", 4);
  for (const double phi : {0.0, .1, .7, 1.0}) {
    const Round r = with_consensus_factor(rounds->round(1, 0), phi);
    double sum = r.own;
    for (const Neighbour& n : r.in) sum += n.weight;
    EXPECT_NEAR(sum, 1, 1e-15);
    if (phi == 0) {
      EXPECT_EQ(r.own, 1);
    }
    // As all-reduce of equal shares the own value gets w - (1 - w)/(n - 1) on top: nothing, with
    // uniform weights.
    EXPECT_NEAR(r.own - (1 - phi) - r.in[0].weight, 0, 1e-15);
  }
}

// The second largest eigenvalue of the ring, the stationary distance under noise alone, and the
// estimator's bound.
TEST(Mixing, T26_DistancesOnTheRing) {
  const auto stationary = [](int n, bool awc) {
    double sum = 0;
    for (int m = 1; m < n; ++m) {
      const double lambda = (1 + 2 * std::cos(2 * std::numbers::pi * m / n)) / 3;
      sum += (awc ? 1 : lambda * lambda) / (1 - lambda * lambda) / n;
    }
    return sum;
  };
  EXPECT_NEAR(stationary(8, true), 1.3862, 5e-5);
  EXPECT_NEAR(stationary(64, true), 8.4272, 5e-5);
  EXPECT_NEAR(stationary(8, false), .5112, 5e-5);
  EXPECT_NEAR(stationary(64, false), 7.4428, 5e-5);
  for (const auto& [n, lambda2] : {std::pair{8, .80474}, {16, .94925}, {32, .98719}}) {
    const auto w = mixing_matrix(*make_rounds("ring", n), 0);
    // The covariance of x under x <- W x + noise reaches the same, with the weights the rounds
    // really have.
    std::vector<double> slow(static_cast<std::size_t>(n)), moved(slow);
    for (int i = 0; i < n; ++i)
      slow[static_cast<std::size_t>(i)] = std::cos(2 * std::numbers::pi * i / n);
    double theta = 0, xi = 0;
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int j = 0; j < n; ++j)
        sum += w[static_cast<std::size_t>(i * n + j)] * slow[static_cast<std::size_t>(j)];
      EXPECT_NEAR(sum, lambda2 * slow[static_cast<std::size_t>(i)], 1e-5);
      theta +=
          (sum - slow[static_cast<std::size_t>(i)]) * (sum - slow[static_cast<std::size_t>(i)]);
      xi += slow[static_cast<std::size_t>(i)] * slow[static_cast<std::size_t>(i)];
    }
    EXPECT_NEAR(std::sqrt(xi),
                std::sqrt(theta) / (1 - (1 + 2 * std::cos(2 * std::numbers::pi / n)) / 3), 1e-9);
  }
}

// --- in pieces, during backward

struct Layers {
  explicit Layers(int rank) : random(5, static_cast<std::uint64_t>(rank)) {
    Rng init(3, 0);
    std::vector<NamedTensor> all;
    for (int i = 0; i < 4; ++i) {
      w.push_back(Tensor::empty({20, 20}));
      b.push_back(Tensor::full({20}, .1f));
      for (float& v : w.back().span<float>()) v = .3f * init.normal();
      all.push_back({std::to_string(i) + ".w", w.back()});
      all.push_back({std::to_string(i) + ".b", b.back()});
    }
    params = std::make_unique<FlatParams>(all);
  }
  Tensor loss() {
    Tensor x = Tensor::empty({8, 20});
    for (float& v : x.span<float>()) v = random.normal();
    for (std::size_t i = 0; i < 4; ++i) x = relu(linear(x, w[i], b[i]));
    return mean(x * x);
  }
  std::vector<Tensor> w, b;
  Rng random;
  std::unique_ptr<FlatParams> params;
};

std::vector<std::vector<float>> train_layers(const std::string& optimizer_name, bool prepared,
                                             i64 bucket_bytes, double clip = 0) {
  constexpr int n = 4, steps = 7;
  LocalCluster cluster(n);
  std::vector<std::vector<float>> out(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    Layers net(rank);
    auto optimizer =
        nn::make_optimizer(optimizer_name, *net.params, {.weight_decay = .01, .period = 2});
    MethodOptions options = options_of("one-peer-exp", n, steps);
    options.settings.set("bucket_mb", static_cast<double>(bucket_bytes) / (1 << 20));
    options.clip_norm = clip;
    auto method =
        make_method("dpsgd", *net.params, *optimizer, group, make_graph("complete", n), options);
    for (int step = 0; !method->done(); ++step) {
      const Tensor loss = net.loss();
      net.params->zero_grad();
      const double rate = .02 / (1 + step);
      const auto before = copy(net.params->values());
      if (prepared) method->prepare(rate);
      loss.backward();
      EXPECT_EQ(copy(net.params->values()) != before, prepared && clip == 0)
          << "updated during backward?";
      method->step(rate);
    }
    out[static_cast<std::size_t>(rank)] = copy(net.params->values());
    EXPECT_EQ(method->stats().exchanges, steps - 1);
    method->finish();
  });
  return out;
}

TEST(Dpsgd, InPiecesDuringBackwardEqualsTheWholeBlockBitForBit) {
  for (const char* name : {"sgd", "adamw", "accum-adam"}) {
    const auto whole = train_layers(name, false, 1 << 30);
    EXPECT_NE(whole[0], whole[1]);
    EXPECT_EQ(train_layers(name, true, 1500), whole) << name;
    EXPECT_EQ(train_layers(name, true, 1 << 30), whole) << name;
    EXPECT_EQ(train_layers(name, false, 3500), whole) << name;
  }
  EXPECT_EQ(train_layers("sgd", true, 1500, .05), train_layers("sgd", false, 1 << 30, .05))
      << "clipping waits for the whole gradient";
}

TEST(Dpsgd, StepMustKeepTheLearningRateOfPrepare) {
  LocalCluster cluster(2);
  on_workers(cluster, 2, [&](int rank, Group& group) {
    Layers net(rank);
    auto optimizer = nn::make_optimizer("sgd", *net.params);
    auto method = make_method("dpsgd", *net.params, *optimizer, group, make_graph("ring", 2),
                              options_of("ring", 2, 3));
    net.params->zero_grad();
    method->prepare(.1);
    net.loss().backward();
    EXPECT_THROW(method->step(.2), Error);
  });
}

// With int8 the round that was on its way is sent again with the error it had.
TEST(Dpsgd, GoesOnExactlyWhereItsCheckpointWas) {
  constexpr int n = 4, steps = 10, stop = 6;
  using Kept = std::vector<std::vector<std::vector<float>>>;  // of each worker: values, state()
  for (const char* payload : {"f32", "bf16", "int8"}) {
    const auto run = [&](int from, int to, const Kept& kept) {
      Kept out(n);
      LocalCluster cluster(n);
      on_workers(cluster, n, [&](int rank, Group& group) {
        const auto me = static_cast<std::size_t>(rank);
        Quadratic q(0, kDims);
        MethodOptions options = options_of("ring-matching", n, steps);
        options.start_samples = 2.0 * n * from;
        options.payload = payload;
        auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", n), options);
        std::vector<Tensor> all{q.params.values()};
        for (const NamedTensor& t : method->state()) all.push_back(t.tensor);
        EXPECT_EQ(all.size(), payload == std::string("int8") ? 2u : 1u);
        for (std::size_t i = 0; from > 0 && i < all.size(); ++i)
          std::ranges::copy(kept[me][i], all[i].span<float>().begin());
        group.collectives().barrier();
        for (int step = from; step < to; ++step) {
          for (int k = 0; k < kDims; ++k)
            q.params.grads().span<float>()[static_cast<std::size_t>(k)] =
                static_cast<float>(noise_at(rank, step, k));
          method->step(kRate);
        }
        for (const Tensor& t : all) out[me].push_back(copy(t));
        group.collectives().barrier();
      });
      return out;
    };
    const Kept whole = run(0, steps, {});
    EXPECT_EQ(run(stop, steps, run(0, stop, {})), whole) << payload;
  }
}

// --- other methods

TEST(LocalSgd, AveragesTheParametersEveryPeriod) {
  for (const int period : {1, 3}) {
    LocalCluster cluster(3);
    on_workers(cluster, 3, [&](int rank, Group& group) {
      Quadratic q(0, kDims);
      MethodOptions options = options_of("complete", 3, 7);
      options.settings.set("period", period);
      auto method =
          make_method("local-sgd", q.params, q.sgd, group, make_graph("complete", 3), options);
      std::vector<double> x(3, 0.0);
      for (int step = 0; !method->done(); ++step) {
        q.params.grads().span<float>()[0] = static_cast<float>(noise_at(rank, step, 0));
        method->step(kRate);
        for (int i = 0; i < 3; ++i) x[static_cast<std::size_t>(i)] -= kRate * noise_at(i, step, 0);
        if ((step + 1) % period == 0) x.assign(3, (x[0] + x[1] + x[2]) / 3);
        EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[0]),
                    x[static_cast<std::size_t>(rank)], 1e-6);
      }
      method->finish();
    });
  }
}

TEST(AllReduce, T28_WithAdamFourWorkersAreOneWithTheMeanGradient) {
  Quadratic whole(0, 30);
  for (std::size_t k = 0; k < 30; ++k) whole.target[k] = 1.5f + .01f * static_cast<float>(k);
  Tensor(whole.params.values()).slice(0, 30).fill(1.5f);
  nn::Adam adam(whole.params, {.weight_decay = .01f});
  for (int step = 0; step < 60; ++step) whole.gradient(), adam.step(.05f);
  LocalCluster cluster(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    Quadratic q(rank, 30);
    nn::Adam mine(q.params, {.weight_decay = .01f});
    auto method = make_method("allreduce", q.params, mine, group, make_graph("ring", 4),
                              options_of("ring", 4, 60));
    while (!method->done()) q.gradient(), method->step(.05);
    for (std::size_t k = 0; k < 30; ++k)
      EXPECT_NEAR(q.params.values().span<float>()[k], whole.params.values().span<float>()[k], 1e-5);
    method->finish();
  });
}

TEST(Methods, ThatAreNamedAfterAnOptimizerWantIt) {
  EXPECT_EQ(method_traits("dadam").usual_optimizer(), "adam");
  EXPECT_EQ(method_traits("accum-adam").usual_optimizer(), "accum-adam");
  EXPECT_EQ(method_traits("dpsgd").usual_optimizer(), "sgd");
  LocalCluster cluster(1);
  Quadratic q(0, 5);
  try {
    make_method("dadam", q.params, q.sgd, cluster.group(0), make_graph("ring", 1));
    ADD_FAILURE();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("this one is sgd; take dpsgd"), std::string::npos)
        << e.what();
  }
  for (const char* taken : {"adam", "adamw"})
    EXPECT_TRUE(method_traits("dadam").takes(taken) && !method_traits("accum-adam").takes(taken))
        << taken;
  for (const char* taken : {"accum-adam", "accum-adamw"})
    EXPECT_TRUE(method_traits("accum-adam").takes(taken) && !method_traits("dadam").takes(taken))
        << taken;
  for (const char* any : {"sgd", "adam", "accum-adamw"})
    EXPECT_TRUE(method_traits("dpsgd").takes(any) && method_traits("a2cid2").takes(any)) << any;
  nn::Adam plain(q.params, {});
  EXPECT_THROW(make_method("accum-adam", q.params, plain, cluster.group(0), make_graph("ring", 1)),
               ConfigError);
}

TEST(Methods, OnDirectedRoundsOnlySgpIsTaken) {
  LocalCluster cluster(4);
  EXPECT_THROW(on_workers(cluster, 4,
                          [&](int, Group& group) {
                            Quadratic q(0, 5);
                            make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", 4),
                                        options_of("one-peer-exp-directed", 4, 3));
                          }),
               ConfigError);
}

}  // namespace
}  // namespace gossamer::dist
