// The methods on workers in one process: they learn, agree, count right, and check what they are
// given.
#include <algorithm>

#include <gmock/gmock.h>

#include "dist/workers.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/nn/layers.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

using ::testing::HasSubstr;

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
                         testing::Values("a2cid2", "adpsgd", "async-tracking", "allreduce"),
                         [](const auto& test) { return word(test.param); });

// T27: alone, or with rate 0, nothing but the optimizer touches the parameters.
TEST(Methods, T27_OneWorkerIsThePlainOptimizerBitForBit) {
  for (const std::string& name : method_names())
    for (const double rate : {0.0, 1.0}) {
      if (method_traits(name).usual_optimizer() != "sgd") continue;  // dpsgd by another name
      if (name == "qg-dsgdm") continue;  // its momentum is another one, alone too
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
        if (s.name == "push_sum.weight") {
          EXPECT_EQ(s.tensor.item(), 1);
        } else if (s.name == "d2.correction") {
          EXPECT_EQ(squared_norm(s.tensor.reshape({-1})), 0);
        } else if (s.name.starts_with("tracking.")) {  // the gradient itself
          EXPECT_TRUE(
              std::ranges::equal(s.tensor.span<float>(), plain.params.grads().span<float>()));
        } else if (s.name == "acid.tilde") {
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

TEST(Methods, DisagreementNamesTheWorkersTheOptionAndBothValues) {
  struct Job {
    std::string name = "adpsgd", parameter = "x";
    int dims = 5;
    MethodOptions options;
    Graph graph = make_graph("ring", 3);
  };
  const auto start = [](const std::function<void(int, Job&)>& change) {
    LocalCluster cluster(3);
    return error_of([&] {
      on_workers(cluster, 3, [&](int rank, Group& group) {
        Job job;
        change(rank, job);
        FlatParams params({{job.parameter, Tensor::zeros({job.dims})}});
        nn::Sgd sgd(params, {});
        make_method(job.name, params, sgd, group, job.graph, job.options);
      });
    });
  };
  const auto text = [](int one, int other, const std::string& difference) {
    return "workers " + std::to_string(one) + " and " + std::to_string(other) +
           " do not agree on " + difference + "; start all workers with the same";
  };
  const auto expect = [&](const char* difference, const std::function<void(Job&)>& change) {
    EXPECT_EQ(start([&](int rank, Job& job) {
                if (rank == 1) change(job);
              }),
              text(0, 1, difference));
  };
  expect("the model: 5 parameters and 6 parameters", [](Job& job) { ++job.dims; });
  expect("the model: 5 parameters and 5 parameters, of other names or shapes",
         [](Job& job) { job.parameter = "y"; });
  expect("the method: adpsgd and a2cid2", [](Job& job) { job.name = "a2cid2"; });
  expect("batch: 1 and 7", [](Job& job) { job.options.batch = 7; });
  expect("rate: 1 and 0.3333333333333333", [](Job& job) { job.options.rate = 1 / 3.0; });
  expect("the graph: ring and star", [](Job& job) { job.graph = make_graph("star", 3); });
  expect("the graph: ring and ring, with other edges or rates",
         [](Job& job) { job.graph.edges.pop_back(); });
  expect("payload: f32 and int8", [](Job& job) { job.options.payload = "int8"; });
  expect("total_samples (in C: total_steps): 0 and 1000000",
         [](Job& job) { job.options.total_samples = 1e6; });
  const auto setting = [&](const char* method, const char* difference, const Settings& other) {
    EXPECT_EQ(start([&](int rank, Job& job) {
                job.name = method;
                if (rank == 1) job.options.settings = other;
              }),
              text(0, 1, difference));
  };
  setting("diloco", "period: 8 and 300000", Settings().set("period", 300000));
  setting("diloco", "outer_momentum: auto and 0.25", Settings().set("outer_momentum", .25));
  setting("dpsgd", "overlap: true and false", Settings().set("overlap", false));
  setting("consensus-control", "control.fractions: [0.25] and [0.5]",
          Settings().set("control.fractions", std::vector<double>{.5}));
  expect("pairing: handshake and schedule", [](Job& job) { job.options.pairing = "schedule"; });
  EXPECT_EQ(start([](int rank, Job& job) {
              job.options.pairing = "schedule";
              job.options.seed = ~std::uint64_t{0} - static_cast<unsigned>(rank == 2);
            }),
            text(0, 2, "seed: 18446744073709551615 and 18446744073709551614"));
  // Of what is longer than a message may be, the end is shown.
  const std::string folder(300, 'f');
  EXPECT_EQ(start([&](int rank, Job& job) {
              job.graph.name = folder + (rank == 2 ? "/other" : "/ring");
              if (rank == 2) job.graph.edges.pop_back();
            }),
            text(0, 2,
                 "the graph: ..." + folder.substr(0, 112) + "/ring and ..." +
                     folder.substr(0, 111) + "/other"));
}

// Before anything is sent: nobody waits for the other worker, which is not there.
TEST(Methods, BadOptionsAreRefusedWithTheReason) {
  LocalCluster cluster(2);
  Group& group = cluster.group(0);
  Quadratic q(0, 5);
  const auto make = [&](const std::string& name, const Graph& g, const MethodOptions& o) {
    const std::string error = error_of([&] { check_method(name, "sgd", group, g, o); });
    EXPECT_EQ(error, error_of([&] { make_method(name, q.params, q.sgd, group, g, o); }));
    return error;
  };
  EXPECT_THAT(make("a2cid", make_graph("ring", 2), {}),
              HasSubstr("a2cid2, accum-adam, adpsgd, allreduce"));
  EXPECT_THAT(make("a2cid2", make_graph("ring", 3), {}), HasSubstr("for 3 workers, there are 2"));
  EXPECT_THAT(make("a2cid2", {"ring", 2, {{1, 0}}}, {}), HasSubstr("edge 1-0"));
  EXPECT_THAT(make("dadam", make_graph("ring", 2), {}), HasSubstr("this one is sgd; take dpsgd"));
  const auto expect = [&](const char* name, const char* error,
                          const std::function<void(MethodOptions&)>& set) {
    MethodOptions options;
    set(options);
    EXPECT_THAT(make(name, make_graph("ring", 2), options), HasSubstr(error)) << name;
  };
  expect("a2cid2", "rate -1", [](auto& o) { o.rate = -1; });
  expect("a2cid2", "rate 1e+09; it must be 0 to 1000", [](auto& o) { o.rate = 1e9; });
  expect("a2cid2", "batch 0", [](auto& o) { o.batch = 0; });
  expect("a2cid2", "min_workers is 3, and the group has 2", [](auto& o) { o.min_workers = 3; });
  expect("adpsgd", "one of handshake, schedule, rounds", [](auto& o) { o.pairing = "none"; });
  expect("adpsgd", "one of poisson, exact", [](auto& o) { o.quota = "none"; });
  expect("adpsgd", "known are: f32, bf16, int8", [](auto& o) { o.payload = "int4"; });
  expect("allreduce",
         "f32 for allreduce, relay-sgd, choco, clipped-gossip, local-sgd and sparse-loco",
         [](auto& o) { o.payload = "bf16"; });
  for (const char* name : {"dpsgd", "allreduce"})
    expect(name, "wire f16 is for gossip", [](auto& o) { o.wire = DType::f16; });
  expect("dpsgd", "are for a2cid2, adpsgd and async-tracking", [](auto& o) { o.replay = "x"; });
  expect("dpsgd", "none can be started again", [](auto& o) { o.rejoin = true; });
  expect("dpsgd", "consensus_factor 2; it must be",
         [](auto& o) { o.settings.set("consensus_factor", 2); });
  expect("dpsgd", "bucket_mb 0", [](auto& o) { o.settings.set("bucket_mb", 0); });
  expect("dpsgd", "has no setting period", [](auto& o) { o.settings.set("period", 2); });
  expect("dpsgd", "one-peer-exp, one-peer-exp-directed", [](auto& o) { o.rounds = "ring-match"; });
  expect("dpsgd", "can't fill nodes of 3", [](auto& o) { o.rounds = "aer:3"; });
  expect("noloco", "only sgp keeps", [](auto& o) { o.rounds = "one-peer-exp-directed"; });
  expect("local-sgd", "period 0", [](auto& o) { o.settings.set("period", 0); });
  for (const char* outer : {"diloco", "noloco"}) {
    expect(outer, "period 0", [](auto& o) { o.settings.set("period", 0); });
    expect(outer, "fragments 9; it must be 1 to period, 8",
           [](auto& o) { o.settings.set("fragments", 9); });
    expect(outer, "outer_delay 8; it must be 0, or below period, 8",
           [](auto& o) { o.settings.set("outer_delay", 8); });
    expect(outer, "outer_rate 0", [](auto& o) { o.settings.set("outer_rate", 0); });
    expect(outer, "outer_momentum 1", [](auto& o) { o.settings.set("outer_momentum", 1); });
  }
  expect("consensus-control", "it can: dpsgd, sgp, local-sgd",
         [](auto& o) { o.settings.set("control.method", "a2cid2"); });
  expect("consensus-control", "factor 0", [](auto& o) { o.settings.set("control.factor", 0); });
}

// As the README writes it, with a net: nothing but make_method says that exchanges run beside the
// computation.
TEST(Methods, TheDecentralizedLoopNeedsNoPreparation) {
  for (const std::string& name : method_names()) {
    if (method_traits(name).usual_optimizer() != "sgd" || name == "consensus-control") continue;
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
      EXPECT_EQ(params.aliased(), method_traits(name).synchronous);
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
