// Synchronous methods when workers die, are late or leave.
#include <algorithm>
#include <thread>

#include <gmock/gmock.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

constexpr int kPeriod = 4;

struct Drill {
  std::string method, rounds;
  bool overlap = true;
  int n = 8, dies = 3, at = 20, steps = 60, delay = 0;

  // Workers wait for their neighbours only: so many steps may lie between two of them. No graph
  // here is wider than a chain.
  int apart() const {
    const int rounds = this->rounds == "chain" ? n - 1 : n / 2;
    const auto settings = method_settings(method);
    const bool has_period = std::ranges::any_of(
        settings, [](const NamedSetting& each) { return each.setting.name == "period"; });
    return rounds * (has_period ? kPeriod : 1);
  }
  // The budget is over when one has ended, and what each has done when the death was noticed counts
  // by its mean.
  int fewest_steps() const { return at + (steps - at) * n / (n - 1) - 2 * apart(); }
};

class SynchronousDrill : public testing::TestWithParam<Drill> {};

TEST_P(SynchronousDrill, ADeathOfOneInEightIsSurvived) {
  const Drill d = GetParam();
  LocalCluster cluster(d.n);
  std::vector<std::vector<float>> x(static_cast<std::size_t>(d.n));
  std::atomic<int> reports = 0;
  on_workers(cluster, d.n, [&](int rank, Group& group) {
    Quadratic q(rank, 40);
    MethodOptions options = options_of(d.rounds, d.n, d.steps, d.overlap);
    options.settings.set("period", kPeriod);
    options.settings.set("outer_momentum", 0.3);
    options.settings.set("outer_delay", d.delay);
    options.settings = options.settings.only(method_settings(d.method));
    options.on_fault = [&](const std::string& what, int peer) {
      reports += what == "dead" && peer == d.dies;
      EXPECT_NE(what, "exchange failed") << rank << " waited for " << peer << " until the deadline";
    };
    auto method = make_method(d.method, q.params, q.sgd, group, make_graph("ring", d.n), options);
    for (int step = 0; !method->done(); ++step) {
      if (rank == d.dies && step == d.at) return cluster.kill(rank);
      q.gradient(.01f);
      method->step(.1);
    }
    method->finish();
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
    EXPECT_EQ(method->stats().alive, d.n - 1);
    // Seven did what was left of the budget of eight.
    EXPECT_NEAR(method->samples_seen(), options.total_samples, 2.0 * d.n * kPeriod);
    EXPECT_GE(method->stats().gradients, d.fewest_steps());
  });
  EXPECT_EQ(reports, d.n - 1);
  double mean = 0;
  for (int i = 0; i < d.n; ++i)
    if (i != d.dies) mean += i / (d.n - 1.0);
  for (int i = 0; i < d.n; ++i) {
    if (i == d.dies) continue;
    EXPECT_EQ(x[static_cast<std::size_t>(i)], x[i == 0 ? 1 : 0]) << i;
    EXPECT_NEAR(static_cast<double>(x[static_cast<std::size_t>(i)][0]), mean, .25);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, SynchronousDrill,
    testing::Values(
        Drill{"dpsgd", "ring"}, Drill{"dpsgd", "", false},
        Drill{"dpsgd", "hypercube"} /* does not exist for seven */, Drill{"dpsgd", "one-peer-exp"},
        Drill{"sgp", "one-peer-exp-directed"}, Drill{"sgp", "one-peer-exp-directed", false},
        Drill{"local-sgd", "ring"}, Drill{"diloco", "ring"}, Drill{"noloco", "one-peer-exp"},
        Drill{.method = "diloco", .rounds = "ring", .delay = 2},
        Drill{.method = "noloco", .rounds = "one-peer-exp", .delay = 2}, Drill{"qg-dsgdm", "ring"},
        Drill{"exact-diffusion", ""}, Drill{"decentlam", "ring"}, Drill{"relay-sgd", "chain"},
        Drill{"relay-sgd", "star"}, Drill{"choco", "ring"}, Drill{"clipped-gossip", "ring"},
        Drill{"choco", "ring", false}, Drill{"gradient-tracking", "ring"},
        Drill{"gradient-tracking", "one-peer-exp", false}, Drill{"dpsgd", "base:2"},
        Drill{"dpsgd", "epidemic:2"}, Drill{"consensus-control", "ring"}),
    [](const auto& test) {
      std::string name = test.param.method + "_" + test.param.rounds +
                         (test.param.overlap ? "" : "_atc") +
                         (test.param.delay > 0 ? "_delay" : "");
      std::ranges::replace(name, '-', '_');
      std::ranges::replace(name, ':', '_');
      return name;
    });

TEST(SynchronousFaults, WorkersThatDieOneAfterAnotherLeaveOneThatTrainsOn) {
  LocalCluster cluster(3);
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(rank, 10);
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", 3),
                              options_of("ring", 3, 40));
    for (int step = 0; !method->done(); ++step) {
      if (rank > 0 && step == 5 * rank) return cluster.kill(rank);
      q.gradient();
      method->step(.1);
    }
    method->finish();
    EXPECT_EQ(method->stats().alive, 1);
    EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[0]), 0, .05);
  });
}

TEST(SynchronousFaults, TooFewWorkersAreAnError) {
  LocalCluster cluster(3);
  std::atomic<int> errors = 0;
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(rank, 10);
    MethodOptions options = options_of("ring", 3, 100);
    options.min_workers = 3;
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", 3), options);
    try {
      for (int step = 0; !method->done(); ++step) {
        if (rank == 2 && step == 5) return cluster.kill(rank);
        q.gradient();
        method->step(.1);
      }
    } catch (const DistError& e) {
      EXPECT_NE(std::string(e.what()).find("at least 3"), std::string::npos);
      EXPECT_LT(method->stats().alive, 3);  // the other one may have ended by now
      ++errors;
    }
  });
  EXPECT_EQ(errors, 2);
}

// Neighbours go past a worker that is late, and then all begin their rounds anew together with it.
TEST(SynchronousFaults, ALateWorkerIsLeftOutOfTheRoundAndTakesPartAgain) {
  LocalCluster cluster(4);
  std::vector<std::vector<float>> x(4);
  std::atomic<i64> failed = 0;
  on_workers(cluster, 4, [&](int rank, Group& group) {
    Quadratic q(rank, 20);
    MethodOptions options = options_of("ring", 4, 60);
    options.exchange_timeout_s = .15;
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", 4), options);
    for (int step = 0; !method->done(); ++step) {
      if (rank == 1 && step == 20) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      q.gradient();
      method->step(.1);
    }
    method->finish();
    failed += method->stats().failed;
    EXPECT_EQ(method->stats().alive, 4);
    EXPECT_GT(method->stats().exchanges, 60);
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
  });
  EXPECT_GT(failed, 0);
  for (const auto& each : x) {
    EXPECT_EQ(each, x[0]);
    EXPECT_NEAR(static_cast<double>(each[0]), 1.5, .1);
  }
}

class Ends : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, Ends,
                         testing::Values("allreduce", "dpsgd", "local-sgd", "diloco", "noloco",
                                         "sparse-loco"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// The deadline of collectives is not that of the end.
TEST_P(Ends, WaitForAWorkerThatComesLate) {
  LocalCluster cluster(3, Seconds(1000), Seconds(4));
  std::vector<std::vector<float>> x(3);
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(rank, 20);
    MethodOptions options = options_of("", 3, 8);
    options.settings.set("period", kPeriod);
    options.settings = options.settings.only(method_settings(GetParam()));
    auto method =
        make_method(GetParam(), q.params, q.sgd, group, make_graph("complete", 3), options);
    for (int step = 0; step < 8; ++step) q.gradient(), method->step(.1);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5500));
    method->finish();
    EXPECT_EQ(method->stats().alive, 3);
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
  });
  for (const auto& each : x) EXPECT_EQ(each, x[0]);
}

TEST_P(Ends, NameAWorkerThatNeverComesAtTheirOwnDeadline) {
  LocalCluster cluster(3, Seconds(1000), Seconds(4));
  std::atomic<int> told = 0;
  on_workers(cluster, 3, [&](int rank, Group& group) {
    Quadratic q(rank, 20);
    MethodOptions options = options_of("", 3, 0);
    options.settings.set("period", kPeriod);
    options.settings = options.settings.only(method_settings(GetParam()));
    options.finish_timeout_s = 1;
    auto method =
        make_method(GetParam(), q.params, q.sgd, group, make_graph("complete", 3), options);
    if (rank < 2) {
      const std::string error = error_of([&] { method->finish(); });
      EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("did not stop within 1 s"),
                                        testing::ContainsRegex("worker\\(s\\) [012, ]*2")));
      ++told;
    } else {
      while (told < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

TEST(SynchronousFaults, AWorkerThatLeavesWithoutFinishingIsMissedOnce) {
  LocalCluster cluster(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    Quadratic q(rank, 20);
    auto method = make_method("dpsgd", q.params, q.sgd, group, make_graph("ring", 4),
                              options_of("ring", 4, 40));
    for (int step = 0; !method->done(); ++step) {
      if (rank == 2 && step == 10) return;
      q.gradient();
      method->step(.1);
    }
    method->finish();
    EXPECT_EQ(method->stats().alive, 3);
  });
}

}  // namespace
}  // namespace gossamer::dist
