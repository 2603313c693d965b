// The handshake with its quotas in virtual time: many workers, random compute times, message
// delays. Oracles T22 (quota) and T23.
#include <gtest/gtest.h>

#include "dist/gossip/virtual_network.h"
#include "gossamer/dist/gossip/handshake.h"

namespace gossamer::dist {
namespace {

VirtualNetwork::Make handshake(int n, double rate = 1, const std::string& quota = "poisson",
                               std::uint64_t seed = 11) {
  return [=](int self) { return std::make_unique<HandshakePolicy>(self, n, rate, quota, seed); };
}

double share(const Graph& g, int i) {
  double own = 0;
  for (const int j : g.neighbours(i)) own += g.rate(i, j);
  return own;
}

void expect_symmetric(const VirtualNetwork& net) {
  for (std::size_t i = 0; i < net.w.size(); ++i)
    // 1: begun, not ended
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_LE(std::abs(net.together[i][j] - net.together[j][i]), 1) << i << "-" << j;
  EXPECT_EQ(net.one_sided(), "");
}

TEST(PairingRates, T23_EveryWorkerGetsItsShareAndEveryEdgeToo) {
  for (const char* name : {"ring", "complete", "exponential"}) {
    const int n = 8;
    const Graph g = make_graph(name, n);
    VirtualNetwork net(g, handshake(n), std::vector<double>(n, 1.0), .05, 11);
    const double T = 6000;
    net.run(T);
    expect_symmetric(net);
    double repeats = 0, all = 0, uniform = 0;
    for (int i = 0; i < n; ++i) {
      EXPECT_NEAR(static_cast<double>(net.at(i).exchanges) / T, 1, .05) << name << " worker " << i;
      repeats += static_cast<double>(net.at(i).repeats),
          all += static_cast<double>(net.at(i).exchanges);
      uniform += 1.0 / static_cast<double>(g.neighbours(i).size()) / n;
    }
    const double sd = std::sqrt(1 / T);
    for (const Edge& e : g.edges)
      EXPECT_NEAR(static_cast<double>(net.edge(e.a, e.b)) / T, e.rate,
                  .02 * e.rate + 4 * sd * std::sqrt(e.rate))
          << name << " edge " << e.a << "-" << e.b;
    RecordProperty(std::string("repeats_") + name, std::to_string(repeats / all / uniform));
    // the same in each run; the published pairing: 10 on the complete graph (W8)
    EXPECT_LE(repeats / all, 1.2 * uniform) << name;
  }
}

TEST(PairingRates, T23_ASlowWorkerHoldsNobodyUp) {
  for (const char* name : {"ring", "complete", "star"}) {
    const Graph g = make_graph(name, 8);
    std::vector<double> speed(8, 1.0);
    speed[3] = 10;
    VirtualNetwork net(g, handshake(8), speed, .05, 12);
    const double T = 4000;
    net.run(T);
    expect_symmetric(net);
    for (int i = 0; i < 8; ++i) {
      // Its own starts per own gradient, and those of its neighbours that fall on it.
      double expected = share(g, i) / 2 / speed[static_cast<std::size_t>(i)];
      for (const int j : g.neighbours(i))
        expected += g.rate(i, j) / 2 / speed[static_cast<std::size_t>(j)];
      // Nobody draws the same partner twice running, so neighbours of the slow worker turn to it
      // more often than their rates say: the fewer neighbours, the more so.
      const double most = i != 3 ? .07 : name == std::string("ring") ? .3 : .2;
      EXPECT_NEAR(static_cast<double>(net.at(i).exchanges) / T, expected, most * expected)
          << name << " worker " << i;
      EXPECT_LE(net.at(i).waited, .01 * T) << name << " worker " << i;
    }
  }
}

TEST(PairingRates, WhenTransfersAreTheBottleneckPairsFormAsFastAsTheyCan) {
  // wants 4, a transfer lasts a gradient
  VirtualNetwork net(make_graph("complete", 8, 4), handshake(8, 4), std::vector<double>(8, 1.0),
                     1.0, 13);
  net.run(500);
  for (int i = 0; i < 8; ++i) {
    EXPECT_GT(net.at(i).exchanges, .8 * 500) << "worker " << i;
    EXPECT_GT(net.at(i).clock.count(), 200) << "training is held up for a gradient at most";
  }
}

// A ring of 16 that wants more exchanges than it can do: whoever ends one finds only the partner
// that it has just met. Without the rule 0.8 of the exchanges repeat.
TEST(PairingRates, UnderLoadPartnersVary) {
  VirtualNetwork net(make_graph("ring", 16, 2), handshake(16, 2), std::vector<double>(16, 1.0), .9,
                     21, .3);
  net.run(400);
  double repeats = 0, all = 0;
  for (int i = 0; i < 16; ++i)
    repeats += static_cast<double>(net.at(i).repeats),
        all += static_cast<double>(net.at(i).exchanges);
  EXPECT_LT(repeats / all, .35);
  EXPECT_GT(all / 16 / 400, .85) << "exchanges per gradient";
}

// Two workers whose third is frozen, but not dead yet: each has just met the other.
TEST(PairingRates, NobodyWaitsForEverForAnotherPartner) {
  VirtualNetwork net(make_graph("complete", 3), handshake(3), std::vector<double>(3, 1.0), .05, 22);
  net.pause(1, 100, 400);
  net.run(150);
  const i64 before = net.edge(0, 2);
  net.run(450);
  EXPECT_GT(net.edge(0, 2) - before, 80) << "exchanges in 300 gradients";
  for (const int i : {0, 2}) EXPECT_LT(net.at(i).waited, 30) << "worker " << i;
}

TEST(PairingRates, RatesBelowAndAboveOneAreMetByBothQuotas) {
  for (const std::string quota : {"poisson", "exact"})
    for (const double rate : {.25, .5, 2.0}) {
      VirtualNetwork net(make_graph("ring", 6, rate), handshake(6, rate, quota),
                         std::vector<double>(6, 1.0), .02, 14);
      const double T = 4000 / rate;
      net.run(T);
      expect_symmetric(net);
      for (int i = 0; i < 6; ++i)
        EXPECT_NEAR(static_cast<double>(net.at(i).exchanges) / T, rate,
                    (quota == "exact" ? .01 : .08) * rate)
            << quota << " at rate " << rate;
    }
}

// With the exact quota the number of exchanges follows the number of gradients; with Poisson it
// wanders off like the root of it.
TEST(PairingRates, TheExactQuotaIsExact) {
  VirtualNetwork net(make_graph("complete", 6), handshake(6, 1, "exact"),
                     std::vector<double>(6, 1.0), .02, 15);
  for (const double T : {50.0, 500.0, 2000.0}) {
    net.run(T);
    for (int i = 0; i < 6; ++i)
      EXPECT_NEAR(static_cast<double>(net.at(i).exchanges),
                  static_cast<double>(net.at(i).clock.count()), 3)
          << "worker " << i << " at " << T;
  }
}

// Counts the exchanges due in each of 14,000 gradients, the length of the run that T22 speaks of.
std::pair<double, double> mean_and_variance(Quota& quota, double* zeros) {
  const int n = 14000;
  double sum = 0, squares = 0;
  *zeros = 0;
  for (int k = 1; k <= n; ++k) {
    int due = 0;
    for (; quota.next() <= k; ++due) quota.exchanged(true);
    sum += due, squares += due * due, *zeros += due == 0;
  }
  *zeros /= n;
  return {sum / n, squares / n - sum / n * sum / n};
}

TEST(Quota, T22_ThePoissonQuotaIsPoissonPerGradient) {
  Quota quota("poisson", 5, 0);
  quota.set_share(2, 0);  // it starts half of its share: one per gradient
  double zeros = 0;
  const auto [mean, variance] = mean_and_variance(quota, &zeros);
  EXPECT_NEAR(mean, 1, .03);
  EXPECT_NEAR(variance, 1, .05);
  EXPECT_NEAR(zeros, .368, .015);
}

TEST(Quota, TheExactQuotaHasNoVarianceAndBelowOneItIsOneInSoMany) {
  double zeros = 0;
  Quota one("exact", 5, 0), quarter("exact", 5, 0);
  one.set_share(1, 0), quarter.set_share(.25, 0);
  auto [mean, variance] = mean_and_variance(one, &zeros);
  EXPECT_EQ(mean, 1);
  EXPECT_EQ(variance, 0);
  std::tie(mean, variance) = mean_and_variance(quarter, &zeros);
  EXPECT_EQ(mean, .25);
  EXPECT_EQ(zeros, .75);
}

TEST(Quota, IsSeededDropsWhatIsTooLateAndFollowsTheShare) {
  Quota a("poisson", 5, 0), b("poisson", 5, 0), c("poisson", 6, 0);
  for (Quota* q : {&a, &b, &c}) q->set_share(1, 0);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  const double hold = a.hold_at();
  for (int i = 0; i < 4; ++i) b.exchanged(true);
  EXPECT_EQ(b.next(), hold) << "the fifth that is due";
  a.drop(hold);
  EXPECT_GT(a.next(), hold);
  a.set_share(0, hold);
  EXPECT_EQ(a.next(), INFINITY);
  EXPECT_EQ(a.hold_at(), INFINITY);
  a.set_share(100, hold);
  EXPECT_LT(a.next(), hold + 1);
  EXPECT_THROW(Quota("fair", 0, 0), ConfigError);
}

}  // namespace
}  // namespace gossamer::dist
