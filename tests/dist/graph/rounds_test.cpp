// Rounds: every name and size, oracles T16 to T18, and the checks before the start.
#include "gossamer/dist/graph/rounds.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "gossamer/dist/graph/linear_algebra.h"
#include "gossamer/dist/graph/theory.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

Square matrix(const Rounds& rounds, i64 k) {
  Square w(rounds.workers());
  w.values = mixing_matrix(rounds, k);
  return w;
}

Square product(const Rounds& rounds, i64 count) {  // of rounds 0 … count-1
  Square p(rounds.workers());
  for (int i = 0; i < p.n; ++i) p(i, i) = 1;
  for (i64 k = 0; k < count; ++k) p = multiply(matrix(rounds, k), p);
  return p;
}

double farthest_from_mean(const Square& p) {  // max |entry - 1/n|
  double most = 0;
  for (const double v : p.values) most = std::max(most, std::abs(v - 1.0 / p.n));
  return most;
}

double largest_singular_value(const Square& p) {  // on what sums to 0
  Square d = p;
  for (double& v : d.values) v -= 1.0 / p.n;
  Square t(p.n);
  for (int i = 0; i < p.n; ++i)
    for (int j = 0; j < p.n; ++j) t(i, j) = d(j, i);
  return std::sqrt(std::max(0.0, symmetric_eigenvalues(multiply(t, d)).back()));
}

std::vector<int> workers_of(const std::vector<Neighbour>& list) {
  std::vector<int> out;
  for (const Neighbour& n : list) out.push_back(n.worker);
  return out;
}

std::vector<int> partners(const Rounds& rounds, i64 k) {  // of a matching; -1: left out
  std::vector<int> out;
  for (int i = 0; i < rounds.workers(); ++i) {
    const Round r = rounds.round(i, k);
    out.push_back(r.in.empty() ? -1 : r.in[0].worker);
  }
  return out;
}

TEST(Rounds, EveryNameAndSizeIsValidOrSaysWhichSizesAre) {
  for (const std::string& name : rounds_names())
    for (int n = 1; n <= 70; ++n) {
      SCOPED_TRACE(name + " " + std::to_string(n));
      const bool power = (n & (n - 1)) == 0;
      std::string error = error_of([&] { validate(*make_rounds(name, n)); });
      if ((name == "hypercube" || name == "aer") && !power)
        EXPECT_NE(error.find("must be a power of two ("), std::string::npos) << error;
      else if (name == "torus" && error != "no error")
        EXPECT_NE(error.find(" can, or use ring"), std::string::npos) << error;
      else
        EXPECT_EQ(error, "no error");
      if (error != "no error") continue;
      const auto rounds = make_rounds(name, n);
      EXPECT_EQ(rounds->name(), name);
      EXPECT_EQ(rounds->workers(), n);
      EXPECT_EQ(rounds->directed(), name == "one-peer-exp-directed");
      // it does repeat
      for (const i64 k : {i64{0}, rounds->period() - 1, rounds->period() / 2})
        for (const int i : {0, n / 2, n - 1})
          EXPECT_EQ(rounds->round(i, k).out, rounds->round(i, k + 3 * rounds->period()).out);
    }
}

// Takezawa et al. (2023): the numbers of rounds that their published code needs.
TEST(Rounds, BaseGraphsReachTheMeanOfAnyNumberWithFewNeighbours) {
  const int sizes[] = {3, 5, 6, 7, 8, 10, 12, 16, 24, 25, 32};
  const int published[][11] = {{3, 5, 4, 5, 3, 6, 5, 4, 6, 9, 5},
                               {1, 3, 2, 4, 3, 4, 3, 4, 4, 6, 5},
                               {1, 3, 2, 3, 2, 4, 2, 2, 3, 5, 3},
                               {1, 1, 2, 3, 2, 2, 2, 2, 3, 2, 3}};
  for (int k = 1; k <= 4; ++k)
    for (std::size_t i = 0; i < std::size(sizes); ++i)
      EXPECT_EQ(make_rounds("base:" + std::to_string(k), sizes[i])->period(), published[k - 1][i])
          << k << " " << sizes[i];
  for (const int k : {1, 2, 3, 5, 9})
    for (int n = 1; n <= 69; ++n) {
      SCOPED_TRACE(std::to_string(n) + " workers, at most " + std::to_string(k));
      const auto rounds = make_rounds("base:" + std::to_string(k), n);
      EXPECT_NO_THROW(validate(*rounds));
      EXPECT_LT(farthest_from_mean(product(*rounds, rounds->period())), 1e-14);
      for (i64 r = 0; r < rounds->period(); ++r)
        for (int i = 0; i < n; ++i) EXPECT_LE(rounds->round(i, r).in.size(), std::size_t(k));
    }
}

// The weights of the published code, as pairs; what is left of 1 is a worker's own.
TEST(Rounds, BaseGraphsHaveThePublishedWeights) {
  struct Weight {
    int a, b;
    double weight;
  };
  const auto expect = [](const std::string& name, int n,
                         const std::vector<std::vector<Weight>>& wanted) {
    const auto rounds = make_rounds(name, n);
    ASSERT_EQ(rounds->period(), static_cast<i64>(wanted.size()));
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      Square w(n);
      for (int i = 0; i < n; ++i) w(i, i) = 1;
      for (const auto& [a, b, weight] : wanted[r]) {
        w(a, b) += weight, w(b, a) += weight;
        w(a, a) -= weight, w(b, b) -= weight;
      }
      const Square ours = matrix(*rounds, static_cast<i64>(r));
      for (std::size_t i = 0; i < w.values.size(); ++i)
        EXPECT_NEAR(ours.values[i], w.values[i], 1e-15) << name << " round " << r;
    }
  };
  const auto third = [](int a, int b, int c) {
    return std::vector<Weight>{{a, b, 1. / 3}, {a, c, 1. / 3}, {b, c, 1. / 3}};
  };
  const auto both = [](std::vector<Weight> a, const std::vector<Weight>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  expect("base:1", 5,
         {{{0, 1, .5}, {2, 3, .5}},
          {{0, 2, .5}, {1, 3, .5}},
          {{0, 1, .5}, {3, 4, .8}},
          {{0, 1, .5}, {2, 3, .5}},
          {{0, 2, .5}, {1, 3, .5}}});
  expect("base", 6,
         {{{0, 1, .5}, {3, 4, .5}},
          {{1, 2, 2. / 3}, {4, 5, 2. / 3}},
          {{0, 1, .5}, {3, 4, .5}},
          {{0, 3, .5}, {1, 4, .5}, {2, 5, .5}}});
  expect("base:2", 7,
         {{{0, 1, .5}, {2, 3, .5}, {4, 5, .5}},
          both(third(0, 2, 4), third(1, 3, 5)),
          both(third(0, 1, 3), {{2, 6, 3. / 7}, {5, 6, 3. / 7}}),
          both(third(0, 1, 2), third(3, 4, 5))});
}

// Of all ways to draw S neighbours, the mean of what a round leaves: (1 - S/(n-1))/(S+1).
TEST(Rounds, EpidemicRoundsShrinkTheDistanceAsTheTheorySays) {
  const std::tuple<int, int, double> rows[] = {{4, 2, .111111111},
                                               {5, 2, .166666667},
                                               {16, 4, .146666667},
                                               {16, 5, .111111111},
                                               {96, 7, .115789474}};
  for (const auto& [n, degree, wanted] : rows) {
    const auto rounds = make_rounds("epidemic:" + std::to_string(degree) + ":3", n);
    EXPECT_NO_THROW(validate(*rounds));
    double left = 0, start = 0;
    for (int i = 0; i < n; ++i) start += (i - (n - 1) / 2.) * (i - (n - 1) / 2.);
    for (i64 k = 0; k < rounds->period(); ++k)
      for (int i = 0; i < n; ++i) {
        const Round r = rounds->round(i, k);
        ASSERT_EQ(r.in.size(), std::size_t(degree));
        double x = r.own * (i - (n - 1) / 2.);
        for (const Neighbour& other : r.in) x += other.weight * (other.worker - (n - 1) / 2.);
        left += x * x;
      }
    // The standard error of the mean of 1,024 rounds is below 3 % for each of these.
    EXPECT_NEAR(left / start / static_cast<double>(rounds->period()), wanted, .1 * wanted)
        << n << " " << degree;
  }
  // another seed, other rounds; the same seed, the same for every worker that asks
  EXPECT_NE(make_rounds("epidemic:2", 16)->round(0, 0),
            make_rounds("epidemic:2:1", 16)->round(0, 0));
  EXPECT_EQ(make_rounds("epidemic:2", 16)->round(5, 7), make_rounds("epidemic", 16)->round(5, 7));
  EXPECT_NE(error_of([] { make_rounds("epidemic:3", 5); }).find("must be even"), std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("epidemic:5", 5); }).find("only 4 others"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("base:0", 5); }).find("at least 1"), std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("base:x", 5); }).find("base:2"), std::string::npos);
}

TEST(Rounds, MetropolisWeightsAreThoseOfTheDegrees) {
  const Round ring = make_rounds("ring", 8)->round(0, 5);
  EXPECT_NEAR(ring.own, 1.0 / 3, 1e-15);
  ASSERT_EQ(workers_of(ring.out), (std::vector<int>{1, 7}));
  EXPECT_EQ(ring.out, ring.in);
  EXPECT_NEAR(ring.in[0].weight, 1.0 / 3, 1e-15);
  const auto star = make_rounds("star", 5);
  EXPECT_NEAR(star->round(0, 0).own, 0.2, 1e-15);
  EXPECT_NEAR(star->round(3, 0).own, 0.8, 1e-15);
  EXPECT_NEAR(star->round(3, 0).in[0].weight, 0.2, 1e-15);
  EXPECT_NEAR(make_rounds("complete", 8)->round(3, 0).own, 0.125, 1e-15);
  // A healed graph: the dead keep what they have, and nobody waits for them.
  const auto healed = make_rounds(heal(make_graph("ring", 5), {false, true, false, false, false}));
  EXPECT_NO_THROW(validate(*healed));
  EXPECT_EQ(healed->round(1, 0).own, 1);
  EXPECT_EQ(workers_of(healed->round(0, 0).out), (std::vector<int>{2, 4}));
}

TEST(Rounds, T16_TwoRoundsOfOddAndEvenPairsOnARing) {
  const std::pair<int, double> rows[] = {
      {4, 0}, {8, .5}, {16, .853553}, {32, .961940}, {64, .990393}};
  for (const auto& [n, radius] : rows) {
    const auto rounds = make_rounds("ring-matching", n);
    EXPECT_EQ(rounds->period(), 2);
    const double rho = mixing(*rounds)->rho;
    EXPECT_NEAR(rho * rho, radius, 1e-6) << n;
    if (n > 4) {
      EXPECT_NEAR(rho, std::cos(2 * M_PI / n), 1e-9) << n;
    }
  }
  EXPECT_EQ(partners(*make_rounds("ring-matching", 6), 0), (std::vector<int>{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(partners(*make_rounds("ring-matching", 6), 1), (std::vector<int>{5, 2, 1, 4, 3, 0}));
}

TEST(Rounds, AnOddRingLeavesOutEachInTurnAndUsesNoEdgeTwiceInARow) {
  for (const int n : {3, 5, 9, 13}) {
    const auto rounds = make_rounds("ring-matching", n);
    std::set<int> left_out;
    for (i64 k = 0; k < n; ++k) {
      const std::vector<int> now = partners(*rounds, k), next = partners(*rounds, k + 1);
      EXPECT_EQ(std::ranges::count(now, -1), 1);
      left_out.insert(static_cast<int>(std::ranges::find(now, -1) - now.begin()));
      for (int i = 0; i < n; ++i) {
        const int j = now[static_cast<std::size_t>(i)];
        if (j < 0) continue;
        EXPECT_TRUE((i + 1) % n == j || (j + 1) % n == i) << n;
        EXPECT_NE(j, next[static_cast<std::size_t>(i)]) << n;
      }
    }
    EXPECT_EQ(left_out.size(), static_cast<std::size_t>(n));
  }
}

TEST(Rounds, T17_OnePeerXorReachesTheMeanAfterLog2Rounds) {
  for (const int n : {2, 4, 8, 16, 64}) {
    const auto rounds = make_rounds("one-peer-exp", n);
    const int q = static_cast<int>(std::log2(n));
    EXPECT_EQ(rounds->period(), q);
    EXPECT_LT(farthest_from_mean(product(*rounds, q)), 1e-15) << n;
    if (q > 1) {
      EXPECT_GT(farthest_from_mean(product(*rounds, q - 1)), 0.9 / n) << n;
    }
    EXPECT_EQ(mixing(*rounds)->rounds, q) << n;
    EXPECT_EQ(mixing(*rounds)->rho, 0) << n;
  }
}

TEST(Rounds, T17_OnePeerXorOfOtherSizesLeavesOutEverybodyEquallyOften) {
  for (const int n : {3, 5, 6, 12, 33}) {
    const auto rounds = make_rounds("one-peer-exp", n);
    std::vector<int> left_out(static_cast<std::size_t>(n));
    for (i64 k = 0; k < rounds->period(); ++k) {
      const std::vector<int> now = partners(*rounds, k);
      for (int i = 0; i < n; ++i)
        left_out[static_cast<std::size_t>(i)] += now[static_cast<std::size_t>(i)] < 0;
    }
    EXPECT_EQ(std::ranges::max(left_out), std::ranges::min(left_out)) << n;
    // as an expander, not as a ring
    EXPECT_LT(mixing(*rounds)->rho, n == 3 ? 0.71 : 0.64) << n;
  }
}

TEST(Rounds, T17_DirectedPushSumIsExactOnlyForPowersOfTwo) {
  const auto after_log2 = [](int n) {
    return farthest_from_mean(product(*make_rounds("one-peer-exp-directed", n),
                                      static_cast<i64>(std::ceil(std::log2(n)))));
  };
  for (const int n : {2, 4, 8, 64}) EXPECT_LT(after_log2(n), 1e-15) << n;
  EXPECT_NEAR(after_log2(6), .083333, 1e-6);
  EXPECT_NEAR(after_log2(12), .041667, 1e-6);
  for (const int n : {3, 5, 7, 24, 63}) EXPECT_GT(after_log2(n), 1e-3) << n;
  const Round r = make_rounds("one-peer-exp-directed", 6)->round(1, 1);
  EXPECT_EQ(r.own, .5);
  EXPECT_EQ(r.in[0].worker, 5);
  EXPECT_EQ(r.out, (std::vector<Neighbour>{{3, .5}}));
}

TEST(Rounds, EcosystemTable_TheDirectedOnePeerRoundsOfTwelveAreFarFromTheMean) {
  // x_i <- (x_i + x_{i+2^t})/2, n = 12: 2e-1 of the length is left after 4 rounds, 7e-3 after 12.
  const auto rounds = make_rounds("one-peer-exp-directed", 12);
  EXPECT_NEAR(largest_singular_value(product(*rounds, 4)), 0.2, 0.06);
  EXPECT_LT(largest_singular_value(product(*rounds, 12)), 0.02);
  EXPECT_GT(largest_singular_value(product(*rounds, 12)), 0.002);
}

TEST(Rounds, T18_AlternatingExpRingReachesTheMeanAndSharesTheNetwork) {
  for (const auto& [nodes, inside] : {std::pair{2, 3}, {4, 4}, {8, 2}, {16, 1}}) {
    const auto rounds = make_rounds("aer", nodes * inside, inside);
    const i64 period = 2 * static_cast<i64>(std::log2(nodes));
    EXPECT_EQ(rounds->period(), period);
    EXPECT_LT(farthest_from_mean(product(*rounds, period)), 1e-15) << nodes;
    for (i64 k = 0; k < period; ++k) {
      std::set<std::pair<int, int>> between;  // pairs of nodes that use the network
      for (int i = 0; i < nodes * inside; ++i)
        for (const Neighbour& other : rounds->round(i, k).in)
          if (other.worker / inside != i / inside)
            between.insert(std::minmax({i / inside, other.worker / inside}));
      EXPECT_EQ(between.size(),
                nodes == 2 ? static_cast<std::size_t>(k % 2) : static_cast<std::size_t>(nodes / 4))
          << nodes << " nodes, round " << k;
    }
  }
  const auto rounds = make_rounds("aer", 16, 4);  // N = 4, L = 4
  const double sigma[] = {1, 1, .7071, 0};
  for (int k = 0; k < 4; ++k)
    EXPECT_NEAR(largest_singular_value(product(*rounds, k + 1)), sigma[k], 1e-4) << k;
  EXPECT_EQ(make_rounds("aer:4", 16)->round(5, 2).out, rounds->round(5, 2).out);
  EXPECT_EQ(make_rounds("aer", 6, 6)->period(), 1);  // one node: its mean
}

TEST(Rounds, T26_ConsensusDistanceIsBoundedByNeighboursDifferences) {
  // Xi <= Theta / (1 - lambda2), with equality on the slowest mode of the ring.
  for (const auto& [n, factor] : {std::pair{8, 5.12}, {16, 19.71}, {32, 78.07}, {64, 311.5}}) {
    const auto rounds = make_rounds("ring", n);
    const double lambda2 = mixing_eigenvalues(*rounds)[1];
    EXPECT_NEAR(1 / (1 - lambda2), factor, 6e-3 * factor / 5) << n;
    const auto distances = [&, count = n](const auto& x) {
      double xi = 0, theta = 0, mean = 0;
      for (int i = 0; i < count; ++i) mean += x(i) / count;
      for (int i = 0; i < count; ++i) {
        const Round r = rounds->round(i, 0);
        double mixed = r.own * x(i);
        for (const Neighbour& other : r.in) mixed += other.weight * x(other.worker);
        xi += (x(i) - mean) * (x(i) - mean) / count,
            theta += (mixed - x(i)) * (mixed - x(i)) / count;
      }
      return std::pair{std::sqrt(xi), std::sqrt(theta)};
    };
    const auto [slow_xi, slow_theta] =
        distances([count = n](int i) { return std::cos(2 * M_PI * i / count); });
    EXPECT_NEAR(slow_xi, slow_theta / (1 - lambda2), 1e-9);
    const auto [xi, theta] = distances([](int i) { return std::sin(3.0 * i * i + 1); });
    EXPECT_LT(xi, theta / (1 - lambda2));
  }
}

// Rounds of one's own, to break them.
struct Own : Rounds {
  std::vector<Round> rounds;
  bool one_way = false;
  std::string own_name = "own";
  const std::string& name() const override { return own_name; }
  int workers() const override { return static_cast<int>(rounds.size()); }
  i64 period() const override { return 1; }
  bool directed() const override { return one_way; }
  Round round(int worker, i64) const override { return rounds[static_cast<std::size_t>(worker)]; }
};

TEST(Rounds, ValidateNamesRoundAndWorkers) {
  const auto error = [](std::vector<Round> list, bool directed = false) {
    Own own;
    own.rounds = std::move(list), own.one_way = directed;
    return error_of([&] { validate(own); });
  };
  const Round idle, with0{.5, {{0, .5}}, {{0, .5}}}, with1{.5, {{1, .5}}, {{1, .5}}};
  EXPECT_EQ(error({with1, with0}), "no error");
  EXPECT_NE(
      error({with1, idle}).find("round 0: worker 0 waits for worker 1, which sends it nothing"),
      std::string::npos);
  EXPECT_NE(error({with1, {1, {}, {{0, .5}}}}).find("do not weigh each other equally"),
            std::string::npos);
  EXPECT_NE(error({{.5, {{1, .5}}, {}}, {1, {}, {{0, .5}}}}, true)
                .find("worker 0's value counts 0.5 times"),
            std::string::npos);
  EXPECT_NE(error({idle, {1, {}, {{0, .5}}}}).find("1 values are sent, but 0 waited for"),
            std::string::npos);
  EXPECT_NE(error({{.4, {{1, .5}}, {{1, .5}}}, with0}).find("weights of worker 0 sum to 0.9"),
            std::string::npos);
  EXPECT_NE(error({{.6, {{1, .5}}, {{1, .4}}}, with0}, true)
                .find("worker 1 takes 0.5 of worker 0's value, which gives it 0.4"),
            std::string::npos);
  EXPECT_NE(error({{.5, {{7, .5}}, {{1, .5}}}, with0}).find("takes from worker 7"),
            std::string::npos);
  EXPECT_NE(error({{.5, {{0, .5}}, {{0, .5}}}, with0}).find("takes from worker 0"),
            std::string::npos);
  EXPECT_NE(error({{1.5, {{1, -.5}}, {{1, -.5}}}, {1.5, {{0, -.5}}, {{0, -.5}}}})
                .find("must be positive"),
            std::string::npos);
}

TEST(Rounds, ErrorsListTheNamesAndTheSizes) {
  const std::string unknown = error_of([] { make_rounds("one-pear-exp", 4); });
  for (const char* name :
       {"one-peer-exp", "ring-matching", "random-regular:D", "file:PATH", "hypercube", "base:K"})
    EXPECT_NE(unknown.find(name), std::string::npos) << unknown;
  EXPECT_NE(error_of([] { make_rounds("aer", 12, 5); }).find("multiple of 5"), std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("aer:2", 12); }).find("4 or 8"), std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("ring-matching", 0); }).find("0 workers"), std::string::npos);
  EXPECT_NE(error_of([] { make_rounds("ring", 4)->round(4, 0); }).find("worker 4"),
            std::string::npos);
}

TEST(Rounds, FourThousandWorkersAreNoTrouble) {
  for (const char* name :
       {"ring", "hypercube", "one-peer-exp", "one-peer-exp-directed", "ring-matching", "aer:8",
        "random-regular:4", "tree", "base:2", "epidemic:4"})
    EXPECT_NO_THROW(validate(*make_rounds(name, 4096))) << name;
  EXPECT_EQ(make_rounds("complete", 4096)->round(17, 0).in.size(), 4095u);
  EXPECT_EQ(mixing(*make_rounds("one-peer-exp", 4096))->rounds, 12);
}

}  // namespace
}  // namespace gossamer::dist
