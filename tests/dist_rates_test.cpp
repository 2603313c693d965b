// Pairing in virtual time: many workers, random compute times, real message delays. Oracle T23.
#include <gtest/gtest.h>

#include <queue>

#include "gossamer/core/random.h"
#include "gossamer/dist/graph.h"
#include "gossamer/dist/pairing.h"

namespace gossamer::dist {
namespace {

struct Network {
  struct What { double t; int kind, who, peer; Message message; std::uint32_t tag; };      // kind 0: message, 1: clock due, 2: exchange done, 3: time-out
  struct Later { bool operator()(const What& a, const What& b) const { return a.t > b.t; } };

  Network(const Graph& graph, std::vector<double> seconds_per_gradient, double exchange_s, std::uint64_t seed)
      : g(graph), speed(std::move(seconds_per_gradient)), exchange_time(exchange_s), random(seed) {
    const auto n = static_cast<std::size_t>(g.n);
    owed.assign(n, 0), busy.assign(n, false), last.assign(n, -1), repeats.assign(n, 0);
    together.assign(n, std::vector<int>(n, 0));
    for (int i = 0; i < g.n; ++i) {
      std::map<int, double> rates;
      for (int j = 0; j < g.n; ++j)
        if (j != i) rates[j] = g.rate(i, j);
      w.emplace_back(i, rates, [this](std::span<const double> r) {
        double total = 0;
        for (const double x : r) total += x;
        double ticket = random.uniform53() * total;
        for (std::size_t k = 0; k + 1 < r.size(); ++k)
          if ((ticket -= r[k]) < 0) return k;
        return r.size() - 1;
      });
    }
    for (int i = 0; i < g.n; ++i) {
      w[static_cast<std::size_t>(i)].open();
      settle(i);
      plan(i);
    }
  }
  void plan(int i) {      // Poisson, half of the worker's share per own gradient
    double share = 0;
    for (int j = 0; j < g.n; ++j) share += j == i ? 0 : g.rate(i, j);
    events.push({now + random.exponential() * 2 / share * speed[static_cast<std::size_t>(i)], 1, i, -1, {}, 0});
  }
  void settle(int i) {
    const auto k = static_cast<std::size_t>(i);
    if (owed[k] > 0 && !w[k].wanting()) w[k].due();
    for (auto& [to, m] : w[k].take_messages()) {
      double& newest = arrival[{i, to}];      // delays are random, but messages of one link do not overtake each other
      newest = std::max(newest + 1e-9, now + 1e-3 * (1 + random.uniform53()));
      events.push({newest, 0, to, i, m, 0});
    }
    if (w[k].state() == Pairing::State::proposing) events.push({now + .2, 3, i, -1, {}, w[k].session()});
    if (w[k].state() == Pairing::State::exchanging && !busy[k]) {
      busy[k] = true;
      if (w[k].initiated()) --owed[k];
      const int p = w[k].partner();
      if (i < p) ++together[k][static_cast<std::size_t>(p)];
      repeats[k] += last[k] == p;
      last[k] = p;
      events.push({now + exchange_time, 2, i, -1, {}, 0});
    }
  }
  void run(double until) {
    while (!events.empty() && events.top().t < until) {
      const What e = events.top();
      events.pop();
      now = e.t;
      const auto k = static_cast<std::size_t>(e.who);
      if (e.kind == 0) w[k].receive(e.peer, e.message);
      if (e.kind == 1) ++owed[k], plan(e.who);
      if (e.kind == 2) busy[k] = false, w[k].exchange_done(), w[k].open();
      if (e.kind == 3 && w[k].state() == Pairing::State::proposing && w[k].session() == e.tag) w[k].time_out(), ++time_outs;
      settle(e.who);
    }
  }
  int exchanges(int i) const {
    int sum = 0;
    for (int j = 0; j < g.n; ++j) sum += together[static_cast<std::size_t>(std::min(i, j))][static_cast<std::size_t>(std::max(i, j))];
    return sum;
  }

  Graph g;
  std::vector<double> speed;
  double exchange_time, now = 0;
  Rng random;
  std::vector<Pairing> w;
  std::priority_queue<What, std::vector<What>, Later> events;
  std::map<std::pair<int, int>, double> arrival;
  std::vector<int> owed, last, repeats;
  std::vector<bool> busy;
  std::vector<std::vector<int>> together;
  int time_outs = 0;
};

TEST(PairingRates, T23_EveryWorkerGetsItsShareAndEveryEdgeToo) {
  for (const char* name : {"ring", "complete", "exponential"}) {
    const int n = 8;
    const Graph g = make_graph(name, n);
    std::vector<double> speed;
    Rng random(4);
    for (int i = 0; i < n; ++i) speed.push_back(1 + .02 * random.normal());
    Network net(g, speed, .05, 11);
    const double T = 6000;
    net.run(T);
    for (int i = 0; i < n; ++i) EXPECT_NEAR(net.exchanges(i) / T, 1, .05) << name << " worker " << i;
    for (const Edge& e : g.edges) {
      const double rate = net.together[static_cast<std::size_t>(e.a)][static_cast<std::size_t>(e.b)] / T;
      EXPECT_NEAR(rate, e.rate, .25 * e.rate) << name << " edge " << e.a << "-" << e.b;      // skipping the last partner evens rates out
    }
    double repeats = 0, all = 0, uniform = 0;
    for (int i = 0; i < n; ++i) {
      repeats += net.repeats[static_cast<std::size_t>(i)], all += net.exchanges(i);
      uniform += 1.0 / static_cast<double>(g.neighbours(i).size()) / n;
    }
    EXPECT_LE(repeats / all, 1.5 * uniform) << name;
    EXPECT_EQ(net.time_outs, 0) << name;
  }
}

TEST(PairingRates, T23_ASlowWorkerHoldsNobodyUp) {
  for (const char* name : {"ring", "complete", "star"}) {
    const Graph g = make_graph(name, 8);
    std::vector<double> speed(8, 1.0);
    speed[3] = 10;
    Network net(g, speed, .05, 12);
    const double T = 4000;
    net.run(T);
    const auto start_share = [&](int i) {
      double own = 0;
      for (const int j : g.neighbours(i)) own += g.rate(i, j);
      return own / 2;
    };
    for (int i = 0; i < 8; ++i) {
      // Its own starts per own gradient, and those of its neighbours that fall on it.
      double expected = start_share(i) / speed[static_cast<std::size_t>(i)];
      for (const int j : g.neighbours(i)) expected += g.rate(i, j) / 2 / speed[static_cast<std::size_t>(j)];
      EXPECT_NEAR(net.exchanges(i) / T, expected, .15 * expected) << name << " worker " << i;
      EXPECT_LE(net.owed[static_cast<std::size_t>(i)], 4) << name << " worker " << i;
    }
  }
}

TEST(PairingRates, WhenTransfersAreTheBottleneckPairsFormAsFastAsTheyCan) {
  Network net(make_graph("complete", 8, 4), std::vector<double>(8, 1.0), 1.0, 13);      // wants 4, a transfer lasts a gradient
  net.run(500);
  for (int i = 0; i < 8; ++i) EXPECT_GT(net.exchanges(i), .8 * 500) << "worker " << i;
}

}  // namespace
}  // namespace gossamer::dist
