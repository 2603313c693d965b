// The methods on workers in one process: they learn, agree, count right, and check what they are
// given.
#include <algorithm>

#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/nn/layers.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

struct Outcome {
  std::vector<float> x, mean, var;
  MethodStats stats;
  double seen = 0;
};

Outcome train(const std::string& name, int rank, Group& group, const MethodOptions& options,
              Pace& pace, float momentum) {
  const Pace::Leaves leaves{pace, rank};
  Quadratic q(rank, 40, momentum);
  auto method =
      make_method(name, q.params, q.sgd, group, make_graph("ring", group.size()), options);
  while (!method->done()) {
    q.gradient(0.01f);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    method->step(.02 * std::max(0.02, 1 - method->samples_seen() / options.total_samples));
    pace.step(rank);
  }
  pace.leaves(rank);
  method->finish();
  const auto copy = [](const Tensor& t) {
    return std::vector<float>(t.span<float>().begin(), t.span<float>().end());
  };
  return {copy(q.params.values()), copy(q.mean), copy(q.var), method->stats(),
          method->samples_seen()};
}

MethodOptions options_for(int n, int gradients_each, double rate = 1) {
  MethodOptions options;
  options.batch = 2;
  options.total_samples = 2.0 * n * gradients_each;
  options.seed = 3;
  options.rate = rate;
  return options;
}

class MethodsOnFourWorkers : public testing::TestWithParam<const char*> {};

TEST_P(MethodsOnFourWorkers, ReachTheMinimumOfTheSumAndEndWithOneModel) {
  LocalCluster cluster(4);
  std::vector<Outcome> outcomes(4);
  MethodOptions options = options_for(4, 400);
  // who waits for a core on a loaded machine is not lost
  options.exchange_least_s = options.exchange_timeout_s;
  Pace pace(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    outcomes[static_cast<std::size_t>(rank)] = train(GetParam(), rank, group, options, pace, .9f);
  });
  i64 gradients = 0, exchanges = 0;
  double seen = 0;
  for (const Outcome& o : outcomes) {
    gradients += o.stats.gradients;
    exchanges += o.stats.exchanges;
    seen += o.seen;
    EXPECT_EQ(o.x, outcomes[0].x);
    EXPECT_NEAR(o.seen, options.total_samples, 0.15 * options.total_samples);
    EXPECT_EQ(o.stats.failed, 0);
    EXPECT_EQ(o.stats.alive, 4);
    for (int k = 0; k < 40; ++k)
      EXPECT_NEAR(o.x[static_cast<std::size_t>(k)], 1.5 + 0.01 * k, 0.35) << "coordinate " << k;
    // T30, through the whole run: variances 1, means 0 to 3.
    EXPECT_FLOAT_EQ(o.mean[0], 1.5f);
    EXPECT_FLOAT_EQ(o.var[0], 2.25f);
  }
  // T25: however the progress was averaged, its sum is the number of gradients.
  EXPECT_NEAR(seen / (4 * 2), static_cast<double>(gradients),
              1e-6 * static_cast<double>(gradients));
  EXPECT_EQ(exchanges % 2, 0);
  if (std::string(GetParam()) != "allreduce") {  // how many, is a question of the load
    EXPECT_GT(exchanges, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, MethodsOnFourWorkers,
                         testing::Values("a2cid2", "adpsgd", "allreduce"),
                         [](const auto& test) { return std::string(test.param); });

// T27: alone, or with rate 0, nothing but the optimizer touches the parameters.
TEST(Methods, T27_OneWorkerIsThePlainOptimizerBitForBit) {
  for (const std::string& name : method_names())
    for (const double rate : {0.0, 1.0}) {
      if (method_optimizer(name) != "sgd") continue;  // dpsgd by another name
      Quadratic plain(1, 50, .9f), q(1, 50, .9f);
      LocalCluster cluster(1);
      auto method = make_method(name, q.params, q.sgd, cluster.group(0), make_graph("ring", 1),
                                options_for(1, 30, rate));
      EXPECT_TRUE(q.params.aliased());  // nothing runs beside the computation
      while (!method->done()) {
        plain.gradient(.1f), q.gradient(.1f);
        plain.sgd.step(.05f);
        method->step(.05);
        ASSERT_TRUE(std::ranges::equal(q.params.values().span<float>(),
                                       plain.params.values().span<float>()))
            << name;
      }
      for (const NamedTensor& s : method->state()) {
        EXPECT_EQ(s.name, name == "sgp" ? "push_sum.weight" : "acid.tilde");
        if (name == "sgp") {
          EXPECT_EQ(s.tensor.item(), 1);
        } else {
          EXPECT_TRUE(
              std::ranges::equal(s.tensor.span<float>(), plain.params.values().span<float>()));
        }
      }
      EXPECT_EQ(method->stats().gradients, 30);
      method->finish();
      EXPECT_TRUE(
          std::ranges::equal(q.params.values().span<float>(), plain.params.values().span<float>()))
          << name;
    }
}

TEST(Methods, T27_WithRate0WorkersTrainAloneUntilTheEnd) {
  LocalCluster cluster(2);
  std::atomic<std::int64_t> gradients = 0;
  on_workers(cluster, 2, [&](int rank, Group& group) {
    Quadratic alone(0, 20), q(0, 20);
    auto method =
        make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 2), options_for(2, 25, 0));
    while (!method->done()) {
      alone.gradient(), q.gradient();
      alone.sgd.step(.1f);
      method->step(.1);
    }
    EXPECT_TRUE(
        std::ranges::equal(q.params.values().span<float>(), alone.params.values().span<float>()))
        << rank;
    EXPECT_EQ(method->stats().exchanges, 0);
    gradients += method->stats().gradients;
  });
  EXPECT_GE(gradients, 2 * 25);  // shared as the workers' speeds have it
}

// T28: logistic regression in double precision; four workers with 8 samples each against one worker
// with all 32.
TEST(Methods, T28_AveragedGradientsAreTheGradientOfTheWholeBatch) {
  constexpr int kWorkers = 4, kSamples = 8, kDims = 5;
  const auto gradient = [](const std::vector<double>& w, int begin, int end) {
    std::vector<double> g(kDims, 0.0);
    for (int i = begin; i < end; ++i) {
      Rng random(5, static_cast<std::uint64_t>(i));
      std::vector<double> x;
      for (int k = 0; k < kDims; ++k) x.push_back(random.normal());
      const double label = random.below(2);
      double z = 0;
      for (int k = 0; k < kDims; ++k)
        z += w[static_cast<std::size_t>(k)] * x[static_cast<std::size_t>(k)];
      for (int k = 0; k < kDims; ++k)
        g[static_cast<std::size_t>(k)] +=
            (1 / (1 + std::exp(-z)) - label) * x[static_cast<std::size_t>(k)] / (end - begin);
    }
    return g;
  };
  std::vector<double> whole(kDims, .1);
  for (int step = 0; step < 50; ++step) {
    const auto g = gradient(whole, 0, kWorkers * kSamples);
    for (std::size_t k = 0; k < kDims; ++k) whole[k] -= .5 * g[k];
  }
  LocalCluster cluster(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    std::vector<double> w(kDims, .1);
    for (int step = 0; step < 50; ++step) {
      auto g = gradient(w, rank * kSamples, (rank + 1) * kSamples);
      group.collectives().all_reduce_sum(g);
      for (std::size_t k = 0; k < kDims; ++k) w[k] -= .5 * g[k] / kWorkers;
    }
    for (std::size_t k = 0; k < kDims; ++k) EXPECT_NEAR(w[k], whole[k], 1e-10);
  });
}

TEST(Methods, T28_AllReduceWithFourWorkersIsOneWorkerWithTheMeanGradient) {
  Quadratic whole(0, 30, .9f);
  for (std::size_t k = 0; k < 30; ++k) whole.target[k] = 1.5f + .01f * static_cast<float>(k);
  whole.params.values().slice(0, 30).fill(1.5f);  // workers begin at the mean of 0, 1, 2, 3
  for (int step = 0; step < 60; ++step) whole.gradient(), whole.sgd.step(.05f);
  LocalCluster cluster(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    Quadratic q(rank, 30, .9f);
    auto method =
        make_method("allreduce", q.params, q.sgd, group, make_graph("ring", 4), options_for(4, 60));
    while (!method->done()) q.gradient(), method->step(.05);
    EXPECT_EQ(method->samples_seen(), 4 * 2 * 60);
    for (std::size_t k = 0; k < 30; ++k)
      EXPECT_NEAR(q.params.values().span<float>()[k], whole.params.values().span<float>()[k], 1e-5);
    method->finish();
    EXPECT_EQ(method->stats().consensus_distance, 0);
  });
}

TEST(Methods, T30_BatchNormStatisticsAreThoseOfAllWorkersTogether) {
  LocalCluster cluster(2);
  on_workers(cluster, 2, [&](int rank, Group& group) {
    Quadratic q(2 * rank, 3);  // variances 1, 1; means 0, 2
    merge_batch_norm(q.params, group.collectives());
    EXPECT_FLOAT_EQ(q.mean.span<float>()[0], 1);
    EXPECT_FLOAT_EQ(q.var.span<float>()[3], 2);
  });
}

TEST(Methods, AllBeginAtTheMeanUnlessTheyResume) {
  for (const double start : {0.0, 100.0}) {
    LocalCluster cluster(3);
    on_workers(cluster, 3, [&](int rank, Group& group) {
      Quadratic q(rank, 4);
      MethodOptions options = options_for(3, 1000);
      options.start_samples = start;
      auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 3), options);
      method->quiesce([&] {
        EXPECT_FLOAT_EQ(q.params.compute_f32().span<float>()[0],
                        start == 0 ? 1 : static_cast<float>(rank));
      });
      EXPECT_NEAR(method->samples_seen(), start, 1e-9);
      group.collectives().barrier();
    });
  }
}

TEST(Methods, DisagreementNamesTheWorkerAndTheDifference) {
  const auto start =
      [](const std::function<void(int, std::string&, int&, MethodOptions&, std::string&)>& change) {
        LocalCluster cluster(3);
        return error_of([&] {
          on_workers(cluster, 3, [&](int rank, Group& group) {
            std::string name = "adpsgd", graph = "ring";
            int dims = 5;
            MethodOptions options = options_for(3, 10);
            change(rank, name, dims, options, graph);
            Quadratic q(rank, dims);
            make_method(name, q.params, q.sgd, group, make_graph(graph, 3), options);
          });
        });
      };
  EXPECT_NE(start([](int rank, std::string&, int& dims, MethodOptions&, std::string&) {
              dims += rank == 2;
            }).find("0 and 2 do not agree on the model"),
            std::string::npos);
  EXPECT_NE(start([](int rank, std::string& name, int&, MethodOptions&, std::string&) {
              if (rank == 1) name = "a2cid2";
            }).find("0 and 1 do not agree on the method"),
            std::string::npos);
  EXPECT_NE(start([](int rank, std::string&, int&, MethodOptions& o, std::string&) {
              if (rank == 1) o.batch = 7;
            }).find("batch size"),
            std::string::npos);
  EXPECT_NE(start([](int rank, std::string&, int&, MethodOptions&, std::string& g) {
              if (rank == 1) g = "chain";
            }).find("graph"),
            std::string::npos);
  EXPECT_NE(start([](int rank, std::string&, int&, MethodOptions& o, std::string&) {
              if (rank == 1) o.control.fractions = {0.5};
            }).find("consensus control"),
            std::string::npos);
}

TEST(Methods, BadOptionsAreRefusedWithTheReason) {
  LocalCluster cluster(2);
  Quadratic q(0, 5);
  const auto make = [&](const std::string& name, const Graph& g, const MethodOptions& o) {
    return error_of([&] { make_method(name, q.params, q.sgd, cluster.group(0), g, o); });
  };
  EXPECT_NE(make("a2cid", make_graph("ring", 2), {}).find("a2cid2, accum-adam, adpsgd, allreduce"),
            std::string::npos);
  EXPECT_NE(make("a2cid2", make_graph("ring", 3), {}).find("for 3 workers, there are 2"),
            std::string::npos);
  MethodOptions negative;
  negative.rate = -1;
  EXPECT_NE(make("a2cid2", make_graph("ring", 2), negative).find("rate -1"), std::string::npos);
}

// As the README writes it, with a net: nothing but make_method says that exchanges run beside the
// computation.
TEST(Methods, TheDecentralizedLoopNeedsNoPreparation) {
  for (const std::string& name : method_names()) {
    if (method_optimizer(name) != "sgd" || name == "consensus-control") continue;
    SCOPED_TRACE(name);
    LocalCluster cluster(2);
    std::vector<std::vector<float>> x(2);
    on_workers(cluster, 2, [&](int rank, Group& group) {
      nn::Linear net(4, 2);
      FlatParams params(net.parameters(), net.buffers());
      nn::Sgd optimizer(params, {.momentum = .9f});
      MethodOptions options;
      options.total_samples = 2 * 40;
      auto method =
          make_method(name, params, optimizer, group, make_graph("ring", group.size()), options);
      EXPECT_EQ(params.aliased(), name != "a2cid2" && name != "adpsgd");
      const Tensor images = Tensor::full({3, 4}, static_cast<float>(rank + 1)),
                   labels = Tensor::zeros({3}, DType::i32);
      double first = 0, last = 0;
      while (!method->done()) {
        const Tensor loss = cross_entropy(net(images), labels);
        params.zero_grad();
        loss.backward();
        method->step(.05);
        last = loss.item();
        if (first == 0) first = last;
      }
      method->finish();
      EXPECT_LT(last, first);
      const auto values = params.values().span<float>();
      x[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    });
    EXPECT_EQ(x[0], x[1]);
  }
}

TEST(Methods, GradientsAreClippedToTheNorm) {
  Quadratic q(3, 4);
  LocalCluster cluster(1);
  MethodOptions options;
  options.clip_norm = .5;
  auto method =
      make_method("allreduce", q.params, q.sgd, cluster.group(0), make_graph("ring", 1), options);
  std::ranges::fill(q.params.grads().span<float>().first(4), 10.0f);
  method->step(1);
  for (std::size_t k = 0; k < 4; ++k)
    EXPECT_NEAR(q.params.values().span<float>()[k], 3 - .25, 1e-6);
}

}  // namespace
}  // namespace gossamer::dist
