// A method that is only here, added as methods/README.md says: what its formula alone gives it.
#include <gtest/gtest.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

struct BurstsOptions : PeriodOptions {
  i64 burst = 2;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    PeriodOptions::visit(self, f);
    f(self.burst, Setting{.name = "burst",
                          .about = "bursts: rounds after each {period} steps, 1 to 8",
                          .range = Range::from_to(1, 8),
                          .unit = "rounds"});
  }
};

class Bursts final : public RoundFormula {
 public:
  explicit Bursts(const BurstsOptions& own) : own_(own) {}
  void step(RoundWorker& worker, i64 k) const override {
    worker.update();
    if ((k + 1) % own_.period != 0) return;
    for (i64 round = 0; round < own_.burst; ++round) worker.mix();
  }

 private:
  const BurstsOptions own_;
};

MethodRow bursts_row() {
  return row_of_formula<BurstsOptions>(
      {.name = "bursts", .controllable = true},
      [](const BurstsOptions& own) { return std::make_unique<Bursts>(own); });
}

constexpr int kDims = 6;
using Values = std::vector<std::vector<float>>;  // of each worker

std::unique_ptr<Method> bursts(Quadratic& q, Group& group, MethodOptions options, i64 period,
                               i64 burst) {
  options.settings.set("period", period).set("burst", burst);
  return bursts_row().make({q.params, q.sgd, group, make_graph("ring", group.size()), options});
}

// Steps from … to - 1, beginning with these values.
Values trained(i64 period, i64 burst, int from, int to, const Values& begin) {
  const auto n = static_cast<int>(begin.size());
  Values out(begin.size());
  LocalCluster cluster(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    const auto me = static_cast<std::size_t>(rank);
    Quadratic q(rank, kDims);
    std::ranges::copy(begin[me], q.params.values().span<float>().begin());
    q.params.refresh();
    MethodOptions options = options_of("ring-matching", n, 100);
    options.start_samples = static_cast<double>(options.batch) * n * from;
    const auto method = bursts(q, group, options, period, burst);
    for (int step = from; step < to; ++step) {
      q.gradient();
      method->step(.1);
    }
    out[me] = copy(q.params.values());
    group.collectives().barrier();
  });
  return out;
}

// One round is not like the next, and a step may have any number of them.
TEST(NewMethods, GoOnWithTheRoundAfterThoseOfTheStepsBefore) {
  constexpr int steps = 9;
  Values start;
  for (int i = 0; i < 4; ++i) start.emplace_back(kDims, static_cast<float>(i * i));
  for (const auto& [period, burst] : {std::pair<i64, i64>{1, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 3}}) {
    const Values whole = trained(period, burst, 0, steps, start);
    for (const int stop : {1, 3, 4, 5, 6})
      EXPECT_EQ(trained(period, burst, stop, steps, trained(period, burst, 0, stop, start)), whole)
          << burst << " rounds in " << period << " steps, after step " << stop;
  }
}

TEST(NewMethods, LoseAWorkerBetweenTwoRoundsOfAStep) {
  constexpr int n = 5, dies = 3, steps = 60;
  LocalCluster cluster(n);
  Values x(n);
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, kDims);
    MethodOptions options = options_of("ring", n, steps);
    int exchanges = 0;
    options.on_exchange = [&](const ExchangeRecord&) {  // the second of three rounds
      if (rank != dies || ++exchanges < 2 * (3 * 8 + 1) + 1) return;
      cluster.kill(rank);
      throw DistError("killed");
    };
    const auto method = bursts(q, group, options, 1, 3);
    while (!method->done()) {
      q.gradient();
      method->step(.1);
    }
    method->finish();
    EXPECT_EQ(method->stats().alive, n - 1);
    x[static_cast<std::size_t>(rank)] = copy(q.params.values());
  });
  EXPECT_TRUE(x[dies].empty());
  for (int i = 0; i < n; ++i) {
    if (i == dies) continue;
    EXPECT_EQ(x[static_cast<std::size_t>(i)], x[0]) << i;
    EXPECT_NEAR(static_cast<double>(x[static_cast<std::size_t>(i)][0]), (0 + 1 + 2 + 4) / 4., .1);
  }
}

}  // namespace
}  // namespace gossamer::dist
