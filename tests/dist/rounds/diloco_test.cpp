// DiLoCo and NoLoCo against the same formulas in double, their special cases, and resuming.
#include <cmath>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

constexpr int kDims = 12;
constexpr double kRate = 0.1;

struct Case {
  std::string method = "diloco";
  int n = 4, period = 3, fragments = 1;
  double rate = 0.7, momentum = 0.9;
  std::string payload = "f32";
  int delay = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.method << " " << c.fragments; }

MethodOptions options_for(const Case& c, int steps) {
  MethodOptions o = options_of("one-peer-exp", c.n, steps);
  o.settings.set("period", c.period);
  o.settings.set("fragments", c.fragments);
  o.settings.set("outer_rate", c.rate);
  o.settings.set("outer_momentum", c.momentum);
  o.payload = c.payload;
  o.settings.set("outer_delay", c.delay);
  o.settings.set("outer_alone", c.n == 1);
  return o;
}

double gradient_at(int worker, int step, int k) {
  Rng random(17, static_cast<std::uint64_t>(worker * 10007 + step * 101 + k));
  return random.normal();
}

// x of all workers, after every step: the loops of diloco.h in double.
std::vector<std::vector<double>> in_double(const Case& c, int steps) {
  const auto at = [](int worker, int k) { return static_cast<std::size_t>(worker * kDims + k); };
  const std::size_t all = at(c.n, 0);
  std::vector<double> x(all, 0.0), o = x, v = x, sent = x, mean = x;
  const auto rounds = c.n > 1 ? make_rounds("one-peer-exp", c.n) : nullptr;
  std::vector<std::vector<double>> out;
  i64 round = 0;
  for (int step = 1; step <= steps; ++step) {
    for (int i = 0; i < c.n; ++i)
      for (int k = 0; k < kDims; ++k) x[at(i, k)] -= kRate * gradient_at(i, step - 1, k);
    // f(i, k) for the elements k of fragment `part` of worker i
    const auto each = [&](int part, auto f) {
      const i64 size = Quadratic(0, kDims).params.size();  // of the block
      for (int k = 0; k < kDims; ++k)
        if (k >= size * part / c.fragments && k < size * (part + 1) / c.fragments)
          for (int i = 0; i < c.n; ++i) f(i, k);
    };
    const auto outer_step = [&](int part) {
      each(part, [&](int i, int k) {
        const double way = o[at(i, k)] - mean[at(i, k)];
        v[at(i, k)] = c.momentum * v[at(i, k)] + way;
        o[at(i, k)] -=
            c.rate * (c.method == "diloco" ? way + c.momentum * v[at(i, k)] : v[at(i, k)]);
        x[at(i, k)] = o[at(i, k)] + (x[at(i, k)] - sent[at(i, k)]);
      });
    };
    for (int f = 0; f < c.fragments; ++f) {
      const int due = c.period * (f + 1) / c.fragments;
      if (c.delay > 0 && step >= due + c.delay && (step - due - c.delay) % c.period == 0)
        outer_step(f);
    }
    for (int f = 0; f < c.fragments; ++f) {
      if ((step - 1) % c.period + 1 != c.period * (f + 1) / c.fragments) continue;
      const auto w = c.method == "noloco" && rounds
                         ? mixing_matrix(*rounds, round++)
                         : std::vector<double>(static_cast<std::size_t>(c.n * c.n), 1.0 / c.n);
      each(f, [&](int i, int k) {
        sent[at(i, k)] = x[at(i, k)];
        mean[at(i, k)] = 0;
        for (int j = 0; j < c.n; ++j)
          mean[at(i, k)] += w[static_cast<std::size_t>(i * c.n + j)] * x[at(j, k)];
      });
      if (c.delay == 0) outer_step(f);
    }
    out.push_back(x);
  }
  return out;
}

// Trains steps [from, to) from `state` (of each worker: model, then state()), and returns the same
// of the end. look(rank, step, values) after each step.
using State = std::vector<std::vector<std::vector<float>>>;
State train(const Case& c, int from, int to, const State& state,
            const std::function<void(int, int, std::span<const float>)>& look) {
  LocalCluster cluster(c.n);
  State out(static_cast<std::size_t>(c.n));
  on_workers(cluster, c.n, [&](int rank, Group& group) {
    Quadratic q(0, kDims);
    MethodOptions options = options_for(c, to);
    options.start_samples = static_cast<double>(options.batch) * c.n * from;
    auto method =
        make_method(c.method, q.params, q.sgd, group, make_graph("complete", c.n), options);
    std::vector<Tensor> kept{q.params.values()};
    for (const NamedTensor& t : method->state()) kept.push_back(t.tensor);
    EXPECT_EQ(kept.size(), 4u + (c.payload == "int8" ? 1 : 0) + (c.delay > 0 ? 1 : 0));
    EXPECT_EQ(kept[1].shape(), kept[0].shape()) << "o starts as a copy of x";
    if (c.delay > 0) EXPECT_EQ(kept.back().shape(), kept[0].shape()) << "so does what was sent";
    for (std::size_t i = 2; i < kept.size() - (c.delay > 0 ? 1 : 0); ++i)
      EXPECT_NE(kept[i].shape(), kept[0].shape()) << "v, the error and what is uneven do not";
    for (std::size_t i = 0; from > 0 && i < kept.size(); ++i)
      std::ranges::copy(state[static_cast<std::size_t>(rank)][i], kept[i].span<float>().begin());
    group.collectives().barrier();
    for (int step = from; step < to; ++step) {
      for (int k = 0; k < kDims; ++k)
        q.params.grads().span<float>()[static_cast<std::size_t>(k)] =
            static_cast<float>(gradient_at(rank, step, k));
      method->step(kRate);
      if (look) look(rank, step, q.params.values().span<float>());
    }
    for (const Tensor& t : kept) out[static_cast<std::size_t>(rank)].push_back(copy(t));
    group.collectives().barrier();
  });
  return out;
}

class Diloco : public testing::TestWithParam<Case> {};

TEST_P(Diloco, IsItsFormulaInDouble) {
  const Case c = GetParam();
  constexpr int kSteps = 14;
  const auto want = in_double(c, kSteps);
  train(c, 0, kSteps, {}, [&](int rank, int step, std::span<const float> x) {
    for (int k = 0; k < kDims; ++k)
      EXPECT_NEAR(static_cast<double>(x[static_cast<std::size_t>(k)]),
                  want[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank * kDims + k)],
                  4e-6)
          << "worker " << rank << ", step " << step;
  });
}

TEST_P(Diloco, GoesOnFromItsStateBitForBit) {
  const Case c = GetParam();
  const State whole = train(c, 0, 14, {}, nullptr);
  for (const int stop : {2, 3, 7}) {
    const State kept = train(c, 0, stop, {}, nullptr);
    EXPECT_EQ(train(c, stop, 14, kept, nullptr), whole) << stop;
  }
}

// A death may leave workers that have taken an outer step and workers that have not. If all end
// before their next outer steps, a resumed run still takes the mean of what they have.
TEST(OuterSteps, AResumedRunMakesEvenWhatADeathLeftUneven) {
  for (const Case& c : {Case{.fragments = 3}, Case{.fragments = 2, .delay = 1}}) {
    State kept = train(c, 0, 7, {}, nullptr);
    constexpr std::size_t o = 1, v = 2, uneven = 3;
    kept[1][o][2] += 1, kept[1][v][2] -= 1;
    const auto are_equal = [&] {
      const State end = train(c, 7, 7 + 3 * c.period, kept, nullptr);
      for (const auto& worker : end)
        if (worker[o] != end[0][o] || worker[v] != end[0][v]) return false;
      return true;
    };
    EXPECT_EQ(kept[0][uneven], std::vector<float>(static_cast<std::size_t>(c.fragments)));
    EXPECT_FALSE(are_equal());
    for (auto& worker : kept) std::ranges::fill(worker[uneven], 1.f);
    EXPECT_TRUE(are_equal()) << c.delay;
  }
}

// What rounding left is a part of the state.
TEST(DilocoCoded, GoesOnFromItsStateBitForBit) {
  for (const Case& c :
       {Case{.n = 2, .payload = "int8"}, Case{.n = 2, .fragments = 2, .payload = "int8"},
        Case{.n = 2, .payload = "int8", .delay = 2},
        Case{.method = "noloco", .n = 2, .momentum = .5, .payload = "int8"}}) {
    const State whole = train(c, 0, 14, {}, nullptr);
    for (const int stop : {7, 10}) {
      State kept = train(c, 0, stop, {}, nullptr);
      EXPECT_EQ(train(c, stop, 14, kept, nullptr), whole) << c.method << " " << stop;
      for (auto& worker : kept) std::ranges::fill(worker[3], 0.0f);
      EXPECT_NE(train(c, stop, 14, kept, nullptr), whole) << "the error is of no use";
    }
  }
}

// Few workers send all their codes to all, more of them send parts, and then the means of parts:
// the bits are those of a sum in the order of ranks. 8 workers with 1,500 values have 6 parts.
TEST(DilocoCoded, MeansOfManyWorkersHaveTheBitsOfTheSumInOrder) {
  constexpr i64 kValues = 1500;
  for (const int n : {2, 5, 6, 8}) {
    Case c{.n = n, .period = 1, .rate = 1, .momentum = 0, .payload = "int8"};
    LocalCluster cluster(n);
    std::vector<Tensor> sent, ended;
    for (int i = 0; i < n; ++i) sent.push_back(Tensor::zeros({kValues}));
    ended.resize(static_cast<std::size_t>(n));
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(0, kValues);
      auto method = make_method("diloco", q.params, q.sgd, group, make_graph("complete", n),
                                options_for(c, 1));
      Tensor& own = sent[static_cast<std::size_t>(rank)];
      for (int k = 0; k < kValues; ++k) {
        const auto g = static_cast<float>(gradient_at(rank, 0, k));
        q.params.grads().as<float>()[k] = g;
        own.as<float>()[k] = -static_cast<float>(kRate) * g;
      }
      method->step(kRate);
      ended[static_cast<std::size_t>(rank)] = q.params.values().slice(0, kValues).clone();
      group.collectives().barrier();
    });
    Tensor mean = Tensor::zeros({kValues});
    for (const Tensor& values : sent) {
      Coded(Coding::int8, kValues).encode(values);  // they become what is decoded
      axpy(mean, 1, values);
    }
    scale(mean, 1 / static_cast<float>(n));
    for (const Tensor& x : ended)
      EXPECT_TRUE(std::ranges::equal(x.span<float>(), mean.span<float>())) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Diloco,
    testing::Values(Case{}, Case{.fragments = 3}, Case{.period = 5, .fragments = 2, .momentum = 0},
                    Case{.method = "noloco", .momentum = .5},
                    Case{.method = "noloco", .n = 5, .momentum = .5},
                    Case{.method = "noloco", .fragments = 3, .momentum = .5}, Case{.delay = 1},
                    Case{.delay = 2}, Case{.period = 4, .fragments = 2, .delay = 3},
                    Case{.method = "noloco", .n = 5, .momentum = .5, .delay = 2},
                    Case{.method = "noloco", .fragments = 3, .momentum = .5, .delay = 1},
                    Case{.n = 1}, Case{.n = 1, .fragments = 3}, Case{.n = 1, .delay = 2},
                    Case{.method = "noloco", .n = 1, .momentum = .5},
                    Case{.method = "noloco", .n = 1, .momentum = .5, .delay = 1}),
    [](const auto& test) {
      const Case& c = test.param;
      return c.method + "_" + std::to_string(c.n) + "_" + std::to_string(c.period) + "_" +
             std::to_string(c.fragments) + (c.delay > 0 ? "_delay_" + std::to_string(c.delay) : "");
    });

// MuLoCo: Muon for the own steps, which keeps its momentum over outer steps, and Nesterov's for the
// outer ones, with one worker as with several. Wanted: Muon alone, stepped from o for each worker,
// and the outer steps in double.
TEST(OuterSteps, WithMuonItIsMuLoCoWithOneWorkerToo) {
  constexpr int rows = 3, columns = 4, period = 3, steps = 12;
  constexpr double outer_rate = .7, momentum = .6;
  const auto gradient = [](FlatParams& params, int worker, int step) {
    const auto g = params.grads().span<float>();
    for (int k = 0; k < rows * columns; ++k)
      g[static_cast<std::size_t>(k)] = static_cast<float>(gradient_at(worker, step, k));
  };
  const auto start = [] { return Tensor::full({rows, columns}, .5f); };
  for (const int n : {1, 3}) {
    std::vector<double> o(rows * columns, .5), v(o.size());
    std::vector<std::unique_ptr<FlatParams>> own;
    std::vector<std::unique_ptr<Optimizer>> muons;
    for (int i = 0; i < n; ++i) {
      own.push_back(std::make_unique<FlatParams>(std::vector<NamedTensor>{{"w", start()}}));
      own.back()->settle_grads();
      muons.push_back(nn::make_optimizer("muon", *own.back()));
    }
    for (int step = 0; step < steps; ++step) {
      for (int i = 0; i < n; ++i) {
        const auto me = static_cast<std::size_t>(i);
        gradient(*own[me], i, step);
        muons[me]->step(.02f);
      }
      if ((step + 1) % period != 0) continue;
      for (std::size_t k = 0; k < o.size(); ++k) {
        double way = o[k];
        for (const auto& each : own)
          way -= static_cast<double>(each->values().span<float>()[k]) / n;
        v[k] = momentum * v[k] + way;
        o[k] -= outer_rate * (way + momentum * v[k]);
        for (const auto& each : own)
          Tensor(each->values()).span<float>()[k] = static_cast<float>(o[k]);
      }
    }
    LocalCluster cluster(n);
    on_workers(cluster, n, [&](int rank, Group& group) {
      FlatParams params({{"w", start()}});
      params.settle_grads();
      const auto muon = nn::make_optimizer("muon", params);
      const Case c{.n = n, .period = period, .rate = outer_rate, .momentum = momentum};
      const auto method = make_method("diloco", params, *muon, group, make_graph("complete", n),
                                      options_for(c, steps));
      for (int step = 0; step < steps; ++step) {
        gradient(params, rank, step);
        method->step(.02);
      }
      for (std::size_t k = 0; k < o.size(); ++k)
        EXPECT_NEAR(static_cast<double>(params.values().span<float>()[k]), o[k], 1e-5)
            << n << " workers";
      group.collectives().barrier();
    });
  }
}

// The workers' models are the outer model of all, moved by the steps since it was sent.
TEST(OuterSteps, WithADelayAllOuterModelsHaveTheSameBits) {
  const Case c{.n = 5, .period = 4, .fragments = 2, .delay = 2};
  const State end = train(c, 0, 11, {}, nullptr);
  for (int rank = 1; rank < c.n; ++rank) {
    EXPECT_EQ(end[static_cast<std::size_t>(rank)][1], end[0][1]) << "o of worker " << rank;
    EXPECT_EQ(end[static_cast<std::size_t>(rank)][2], end[0][2]) << "v of worker " << rank;
    EXPECT_NE(end[static_cast<std::size_t>(rank)][0], end[0][0]) << "x of worker " << rank;
  }
}

// An outer step at each own step, rate 1, no momentum.
TEST(OuterSteps, WithoutAnOuterOptimizerItIsPlainAveraging) {
  for (const char* method : {"diloco", "noloco"}) {
    const Case c{.method = method, .period = 1, .rate = 1, .momentum = 0};
    const auto rounds = make_rounds("one-peer-exp", c.n);
    std::vector<double> x(static_cast<std::size_t>(c.n), 0.0);
    std::vector<std::vector<double>> want;
    for (int step = 0; step < 8; ++step) {
      for (int i = 0; i < c.n; ++i)
        x[static_cast<std::size_t>(i)] -= kRate * gradient_at(i, step, 0);
      const auto before = x;
      const auto w = mixing_matrix(*rounds, step);
      for (int i = 0; i < c.n; ++i) {
        double sum = 0;
        for (int j = 0; j < c.n; ++j)
          sum += (c.method == "diloco" ? 1.0 / c.n : w[static_cast<std::size_t>(i * c.n + j)]) *
                 before[static_cast<std::size_t>(j)];
        x[static_cast<std::size_t>(i)] = sum;
      }
      want.push_back(x);
    }
    train(c, 0, 8, {}, [&](int rank, int step, std::span<const float> values) {
      EXPECT_NEAR(static_cast<double>(values[0]),
                  want[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)], 1e-6)
          << method;
    });
  }
}

TEST(OuterSteps, SaysWhatItsOptionsMayBe) {
  const auto error = [](const std::function<void(MethodOptions&)>& set) {
    return error_of([&] {
      LocalCluster cluster(1);
      Quadratic q(0, 5);
      MethodOptions options;
      set(options);
      make_method("diloco", q.params, q.sgd, cluster.group(0), make_graph("ring", 1), options);
    });
  };
  EXPECT_NE(error([](auto& o) {
              o.settings.set("period", 2).set("fragments", 3);
            }).find("fragments 3; it must be 1 to period, 2"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) {
              o.settings.set("period", 3).set("outer_delay", 3);
            }).find("outer_delay 3; it must be 0, or below period, 3"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.settings.set("period", 0); }).find("period 0"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.settings.set("outer_momentum", 1); }).find("outer_momentum 1"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.payload = "int4"; }).find("known are: f32, bf16, int8"),
            std::string::npos);
}

}  // namespace
}  // namespace gossamer::dist
