// What can be seen of a run: rates of each edge, staleness, the clocks of other machines, the exact
// consensus distance.
#include <map>

#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/clock_offset.h"
#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/local/local_cluster.h"

namespace gossamer::dist {
namespace {

ExchangeRecord exchange_with(int peer, i64 staleness = 0, double distance = 1, bool ok = true) {
  return {.peer = peer,
          .session = 1,
          .time = 0,
          .distance = distance,
          .seconds = 0.5,
          .staleness = staleness,
          .ok = ok};
}

TEST(EdgeStatistics, SumsExchangesByPeerAndKeepsFailuresApart) {
  EdgeStatistics s;
  s.add(exchange_with(5, 2, 3));
  s.add(exchange_with(1));
  s.add(exchange_with(5, 4, 5));
  s.add(exchange_with(5, 100, 100, false));
  ASSERT_EQ(s.edges().size(), 2u);
  EXPECT_EQ(s.edges()[0].peer, 1);
  const EdgeStats& e = s.edges()[1];
  EXPECT_EQ(e.peer, 5);
  EXPECT_EQ(e.exchanges, 2);
  EXPECT_EQ(e.failed, 1);
  EXPECT_EQ(e.staleness_sum, 6);
  EXPECT_EQ(e.staleness_max, 4);
  EXPECT_EQ(e.distance_sum, 8);
  EXPECT_EQ(e.seconds, 1.5);
}

// The table of a graph whose edges did `count(a, b)` exchanges, each worker `gradients` gradients.
RealisedRates rates_of(int n, const std::map<std::pair<int, int>, i64>& counts,
                       const std::vector<double>& gradients) {
  std::vector<double> table;
  int rows = 0;
  std::vector<std::vector<EdgeStats>> own(static_cast<std::size_t>(n));
  for (const auto& [ends, count] : counts)
    for (const auto& [self, peer] : {ends, std::pair(ends.second, ends.first)}) {
      own[static_cast<std::size_t>(self)].push_back(
          {.peer = peer,
           .exchanges = count,
           .failed = 0,
           .staleness_sum = 2 * count,
           .staleness_max = 3,
           .distance_sum = 0.5 * static_cast<double>(count),
           .seconds = static_cast<double>(count)});
      rows = std::max(rows, static_cast<int>(own[static_cast<std::size_t>(self)].size()));
    }
  for (int w = 0; w < n; ++w) {
    const auto part = edge_table(own[static_cast<std::size_t>(w)], w, n, rows);
    if (table.empty()) table.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) table[i] += part[i];
  }
  return realised_rates(table, rows, gradients);
}

// On a graph that did exactly what was asked of it, the constants of the realised rates are those
// of the graph.
TEST(RealisedRates, HaveTheGraphsOwnConstantsWhenEverythingHappenedAsAsked) {
  for (const char* name : {"ring", "complete", "star"}) {
    const Graph g = make_graph(name, 8);
    std::map<std::pair<int, int>, i64> counts;
    for (const Edge& e : g.edges)
      counts[{e.a, e.b}] = static_cast<i64>(std::llround(e.rate * 2800));
    const RealisedRates r = rates_of(8, counts, std::vector<double>(8, 2800));
    ASSERT_TRUE(r.constants);
    EXPECT_NEAR(r.constants->chi1, constants(g).chi1, 1e-9) << name;
    EXPECT_NEAR(r.constants->chi2, constants(g).chi2, 1e-9) << name;
    EXPECT_EQ(r.time, 2800);
    EXPECT_EQ(r.asymmetry, 0);
    EXPECT_EQ(r.staleness_mean, 2);
    EXPECT_EQ(r.staleness_max, 3);
    for (const RealisedEdge& e : r.edges) {
      EXPECT_NEAR(e.rate, g.rate(e.a, e.b), 1e-9);
      EXPECT_EQ(e.distance_mean, 0.5);
      EXPECT_EQ(e.seconds_mean, 1);
    }
  }
}

TEST(RealisedRates, HalfTheExchangesDoubleBothConstants) {
  std::map<std::pair<int, int>, i64> all, half;
  for (int i = 0; i < 6; ++i) all[{std::min(i, (i + 1) % 6), std::max(i, (i + 1) % 6)}] = 100;
  for (auto [ends, count] : all) half[ends] = count / 2;
  const std::vector<double> gradients(6, 200);
  const auto a = rates_of(6, all, gradients), b = rates_of(6, half, gradients);
  EXPECT_NEAR(b.constants->chi1, 2 * a.constants->chi1, 1e-9);
  EXPECT_NEAR(b.constants->chi2, 2 * a.constants->chi2, 1e-9);
}

// Time is counted in mean gradient durations: workers of different speed see the same rate of their
// edge.
TEST(RealisedRates, AreTheSameFromBothEndsWhateverTheirSpeed) {
  const RealisedRates r = rates_of(2, {{{0, 1}, 60}}, {100, 20});
  EXPECT_EQ(r.time, 60);
  ASSERT_EQ(r.edges.size(), 1u);
  EXPECT_EQ(r.edges[0].rate, 1);
}

TEST(RealisedRates, ShowWhenTheTwoEndsCountedDifferently) {
  const auto table = [](i64 from_0, i64 from_1) {
    auto t = edge_table({{.peer = 1, .exchanges = from_0}}, 0, 2, 1);
    const auto u = edge_table({{.peer = 0, .exchanges = from_1}}, 1, 2, 1);
    for (std::size_t i = 0; i < t.size(); ++i) t[i] += u[i];
    return t;
  };
  const std::vector<double> both{10, 10}, one{10, 0};
  EXPECT_EQ(realised_rates(table(7, 5), 1, both).asymmetry, 2);
  EXPECT_EQ(realised_rates(table(7, 5), 1, both).edges[0].rate, 0.6);
  const RealisedRates dead =
      realised_rates(edge_table({{.peer = 1, .exchanges = 7}}, 0, 2, 1), 1, one);
  EXPECT_EQ(dead.asymmetry, 0) << "a worker whose numbers are lost says nothing";
  EXPECT_EQ(dead.edges[0].rate, 0.7);
}

TEST(RealisedRates, HaveNoConstantsWhereTheEdgesUsedFallApart) {
  EXPECT_FALSE(rates_of(4, {{{0, 1}, 10}, {{2, 3}, 10}}, {10, 10, 10, 10}).constants);
  EXPECT_TRUE(rates_of(4, {{{0, 1}, 10}, {{1, 2}, 10}, {{2, 3}, 10}}, {10, 10, 10, 10}).constants);
  EXPECT_FALSE(rates_of(4, {}, {10, 10, 10, 10}).constants);
}

// --- clocks

// Two clocks and a wire between them: the peer's is `offset` ahead and runs `drift` faster,
// messages take delays of choice.
struct TwoClocks {
  double offset_us, drift = 0;
  ClockOffset here{}, there{};
  double peer_time(double t) const { return t * (1 + drift) + offset_us; }
  // A heartbeat each way around our time t.
  void beat(double t, double delay_there, double delay_back, double pause = 100) {
    const ClockStamps out = here.stamps(t);
    there.heard(out, peer_time(t + delay_there));
    const double back = t + delay_there + pause;
    here.heard(there.stamps(peer_time(back)), back + delay_back);
  }
};

TEST(ClockOffset, IsExactWhenBothWaysTakeEquallyLong) {
  TwoClocks c{.offset_us = 3.7e9};
  EXPECT_FALSE(c.here.at(0));
  c.beat(1e6, 40, 40);
  const auto e = c.here.at(1e6);
  ASSERT_TRUE(e);
  EXPECT_NEAR(e->offset_us, 3.7e9, 1e-3);
  EXPECT_NEAR(e->error_us, 40, 0.1);
}

TEST(ClockOffset, IsNeverWrongByMoreThanItSays) {
  Rng random(3, 1);
  TwoClocks c{.offset_us = -5.5e6, .drift = 5e-6};
  for (int i = 1; i <= 400; ++i)
    c.beat(2.5e5 * i, 20 + 2000 * random.exponential(), 20 + 2000 * random.exponential());
  for (double t = 1e6; t < 1e8; t += 1e6) {
    const auto e = c.here.at(t);
    ASSERT_TRUE(e);
    EXPECT_LE(std::abs(e->offset_us - (c.peer_time(t) - t)), e->error_us + 1) << t;
    EXPECT_LT(e->error_us, 1000) << "the quickest of many round trips";
  }
}

TEST(ClockOffset, BelievesTheQuickestRoundTripNotTheLast) {
  TwoClocks c{.offset_us = 1000};
  c.beat(1e6, 10, 10);
  for (int i = 2; i < 40; ++i) c.beat(1e6 * i, 50000, 10);
  EXPECT_NEAR(c.here.at(2e6)->offset_us, 1000, 20);
}

TEST(ClockOffset, FollowsAClockThatDrifts) {
  TwoClocks c{.offset_us = 0, .drift = 10e-6};
  // over an hour: 40 ms apart at the end
  for (int i = 1; i < 4000; ++i) c.beat(1e6 * i, 30, 30);
  EXPECT_NEAR(c.here.at(3.9e9)->offset_us, 39000, 700);
  EXPECT_NEAR(c.here.at(1e7)->offset_us, 100, 700);
}

TEST(ClockOffset, LeavesOutStampsThatMakeNoSense) {
  ClockOffset o;
  o.heard({.sent = NAN, .echo = 1, .heard = 1}, 10);
  o.heard({.sent = 5, .echo = 20, .heard = 4}, 10);  // echoes what we have not sent yet
  o.heard({.sent = 5, .echo = 2, .heard = 6}, 10);   // heard after it was sent back
  // was on the way for longer than it took
  o.heard({.sent = 500, .echo = 5, .heard = 4}, 10);
  EXPECT_FALSE(o.at(10));
  TwoClocks c{.offset_us = 7};
  c.beat(1e6, 5, 5);
  c.here.forget();
  EXPECT_FALSE(c.here.at(1e6));
}

// --- with workers

TEST(Observe, TheExactConsensusDistanceIsThatOfTheModels) {
  LocalCluster cluster(4);
  on_workers(cluster, 4, [&](int rank, Group& group) {
    // Models r, r, r …: mean 1.5, squared distances 2.25, .25, .25, 2.25 per element.
    const Tensor model = Tensor::full({64}, static_cast<float>(rank));
    EXPECT_NEAR(exact_consensus_distance(model.clone(), group.collectives()), std::sqrt(64 * 1.25),
                1e-5);
    EXPECT_EQ(model.as<float>()[3], static_cast<float>(rank));
  });
}

// Both ends of an edge count the same exchanges; what they counted is what the method did.
TEST(Observe, GossipCountsItsEdges) {
  constexpr int n = 4;
  constexpr int kSteps = 120;
  LocalCluster cluster(n);
  std::vector<MethodStats> stats(n);
  std::atomic<i64> records = 0, negative = 0;
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, 32);
    MethodOptions options;
    options.total_samples = n * kSteps;
    options.on_exchange = [&](const ExchangeRecord& r) {
      ++records;
      if (r.staleness < 0 || r.seconds < 0 || !(r.distance >= 0) || r.peer < 0) ++negative;
    };
    const auto method =
        make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", n), options);
    while (!method->done()) {
      q.gradient(0.1f);
      method->step(0.05);
      std::this_thread::sleep_for(std::chrono::microseconds(2000));
    }
    method->finish();
    stats[static_cast<std::size_t>(rank)] = method->stats();
  });
  i64 all = 0;
  for (int a = 0; a < n; ++a) {
    i64 own = 0;
    for (const EdgeStats& e : stats[static_cast<std::size_t>(a)].edges) {
      own += e.exchanges;
      all += e.exchanges + e.failed;
      EXPECT_TRUE(e.peer == (a + 1) % n || e.peer == (a + n - 1) % n) << a << " - " << e.peer;
      for (const EdgeStats& back : stats[static_cast<std::size_t>(e.peer)].edges)
        if (back.peer == a) EXPECT_EQ(back.exchanges, e.exchanges) << a << " - " << e.peer;
    }
    EXPECT_EQ(own, stats[static_cast<std::size_t>(a)].exchanges);
  }
  EXPECT_GT(all, 0);
  EXPECT_EQ(records, all);
  EXPECT_EQ(negative, 0);
}

}  // namespace
}  // namespace gossamer::dist
