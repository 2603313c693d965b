// Spectra against the tables: how fast rounds mix, and the exact exponents of pairwise gossip.
#include "gossamer/dist/graph/theory.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/sparse_laplacian.h"
#include "gossamer/dist/graph/translation.h"

namespace gossamer::dist {
namespace {

TEST(Spectrum, EcosystemTable_SecondEigenvalueAndRoundsToAMillionth) {
  struct Row {
    const char* graph;
    int n;
    double rho;
    i64 rounds;
  };
  const Row rows[] = {{"ring", 8, .80474, 64},
                      {"ring", 16, .94925, 266},
                      {"ring", 64, .99679, 4297},
                      {"ring", 256, .999799, 68800},
                      {"ring", 1024, .99998745, 1100848},
                      {"torus", 8, .5, 20},
                      {"torus", 16, .6, 28},
                      {"torus", 64, .88284, 111},
                      {"torus", 256, .96955, 447},
                      {"torus", 1024, .99231, 1791},
                      {"star", 8, .875, 104},
                      {"star", 16, .9375, 215},
                      {"star", 64, .98438, 878},
                      {"star", 256, .99609, 3530},
                      {"star", 1024, .99902, 14141},
                      {"exponential", 8, .33333, 13},
                      {"exponential", 16, .5, 20},
                      {"exponential", 64, .66667, 35},
                      {"exponential", 256, .75, 49},
                      {"exponential", 1024, .8, 62},
                      {"hypercube", 8, .5, 20},
                      {"hypercube", 16, .6, 28},
                      {"hypercube", 64, .71429, 42},
                      {"hypercube", 256, .77778, 55},
                      {"hypercube", 1024, .81818, 69},
                      {"complete", 8, 0, 1},
                      {"complete", 16, 0, 1},
                      {"complete", 64, 0, 1},
                      {"complete", 1024, 0, 1}};
  for (const Row& row : rows) {
    const Mixing m = *mixing(*make_rounds(row.graph, row.n));
    EXPECT_NEAR(m.rho, row.rho,
                row.rho > .9999   ? 6e-9
                : row.rho > .9997 ? 6e-7
                                  : 6e-6)
        << row.graph << row.n;
    EXPECT_EQ(m.rounds, row.rounds) << row.graph << row.n;
  }
  for (const int n : {8, 64})
    EXPECT_NEAR(mixing(*make_rounds("ring", n))->gap, 1 - (1 + 2 * std::cos(2 * M_PI / n)) / 3,
                1e-12);
  for (const int n : {8, 64}) EXPECT_NEAR(mixing(*make_rounds("star", n))->gap, 1.0 / n, 1e-12);
}

TEST(Spectrum, T26_EigenvaluesAndNoiseOfDecentralisedSgdOnARing) {
  struct Row {
    int n;
    double lambda2, awc, atc;
  };
  for (const Row& row : {Row{8, .80474, 1.3862, .5112},
                         {16, .94925, 2.4096, 1.4721},
                         {32, .98719, 4.4213, 3.4525},
                         {64, .99679, 8.4272, 7.4428}}) {
    const auto ring = make_rounds("ring", row.n);
    EXPECT_NEAR(mixing_eigenvalues(*ring)[0], 1, 1e-12);
    EXPECT_NEAR(mixing_eigenvalues(*ring)[1], row.lambda2, 6e-6) << row.n;
    EXPECT_NEAR(noise_distance(*ring, false), row.awc, 6e-5) << row.n;
    EXPECT_NEAR(noise_distance(*ring, true), row.atc, 6e-5) << row.n;
  }
  EXPECT_THROW(mixing_eigenvalues(*make_rounds("ring-matching", 8)), ConfigError);
}

TEST(Spectrum, ExponentsOfPairwiseGossipEqualTheTable) {
  struct Row {
    const char* graph;
    int n;
    double plain, a2cid2;
  };
  const Row rows[] = {{"ring", 4, .6096, .6145},         {"ring", 8, .26806, .35986},
                      {"ring", 16, .07535, .19855},      {"ring", 32, .01919, .10683},
                      {"ring", 64, .004815, .056702},    {"exponential", 4, .6250, .6281},
                      {"exponential", 8, .5054, .5178},  {"exponential", 16, .4370, .4674},
                      {"exponential", 32, .3780, .4381}, {"exponential", 64, .3254, .4179}};
  for (const Row& row : rows) {
    const Graph g = make_graph(row.graph, row.n);
    const GraphConstants k = constants(g);
    const double digit = row.plain < .01 ? 6e-7 : row.plain < .3 ? 6e-6 : 6e-5;
    EXPECT_NEAR(*decay_exponent(g, 0, .5, .5), row.plain, digit) << row.graph << row.n;
    EXPECT_NEAR(*decay_exponent(g, k.eta, k.alpha, k.alpha_tilde), row.a2cid2, digit)
        << row.graph << row.n;
  }
}

TEST(Spectrum, T13_TheCompleteGraphHasItsClosedFormWithAndWithoutTheTwin) {
  for (const int n : {2, 4, 8, 16, 64}) {
    const Graph g = make_graph("complete", n);
    const GraphConstants k = constants(g);
    EXPECT_NEAR(*decay_exponent(g, 0, .5, .5), n / (2.0 * (n - 1)), 1e-9) << n;
    EXPECT_NEAR(*decay_exponent(g, k.eta, k.alpha, k.alpha_tilde), n / (2.0 * (n - 1)), 1e-9) << n;
  }
}

TEST(Spectrum, T14_AnEtaThatIsTooLargeForTheRealRateDiverges) {
  const Graph ring = make_graph("ring", 64), half = make_graph("ring", 64, 0.5);
  const GraphConstants k = constants(ring);
  EXPECT_NEAR(*decay_exponent(ring, 2 * k.eta, .5, k.alpha_tilde), -.0886, 6e-5);
  EXPECT_NEAR(*decay_exponent(half, k.eta, .5, k.alpha_tilde), -.0443, 6e-5);
  EXPECT_NEAR(*decay_exponent(half, k.eta / 2, .5, k.alpha_tilde), .0284, 6e-5);
  EXPECT_NEAR(*decay_exponent(half, 0, .5, .5), .0024, 6e-5);
  EXPECT_NEAR(*decay_exponent(ring, .85 * k.eta, .5, k.alpha_tilde), .0592, 6e-5);
  // It may grow fast, and all of it is proportional to the rates.
  EXPECT_NEAR(*decay_exponent(ring, 10 * k.eta, .5, k.alpha_tilde), -1.366, 1e-3);
  for (const double rate : {1e-8, 0.1, 10.0}) {
    const Graph g = make_graph("ring", 64, rate);
    for (const double scale : {1.0, 10.0})
      EXPECT_NEAR(*decay_exponent(g, scale * rate * k.eta, .5, k.alpha_tilde) / rate,
                  *decay_exponent(ring, scale * k.eta, .5, k.alpha_tilde), 1e-9)
          << rate << " " << scale;
  }
}

// The same graph with its workers in another order has no translation that Translation would find.
Graph shuffled(Graph g) {
  std::vector<int> place(static_cast<std::size_t>(g.n));
  for (int i = 0; i < g.n; ++i) place[static_cast<std::size_t>(i)] = i;
  Rng random(5);
  for (std::size_t i = place.size() - 1; i > 0; --i)
    std::swap(place[i], place[random.below(static_cast<std::uint32_t>(i + 1))]);
  for (Edge& e : g.edges) {
    const int a = place[static_cast<std::size_t>(e.a)], b = place[static_cast<std::size_t>(e.b)];
    e.a = std::min(a, b), e.b = std::max(a, b);
  }
  return g;
}

TEST(Spectrum, FourierAndTheGeneralWayAgree) {
  for (const char* name : {"ring", "exponential", "hypercube", "torus"}) {
    const Graph g = make_graph(name, 16), other = shuffled(g);
    ASSERT_TRUE(Translation::of(g)) << name;
    ASSERT_FALSE(Translation::of(other)) << name;
    const GraphConstants k = constants(g), l = constants(other);
    EXPECT_NEAR(k.chi1, l.chi1, 1e-9) << name;
    EXPECT_NEAR(k.chi2, l.chi2, 1e-9) << name;
    const std::vector<double> fourier = laplacian_eigenvalues(g),
                              dense = laplacian_eigenvalues(other);
    for (std::size_t i = 0; i < fourier.size(); ++i)
      EXPECT_NEAR(fourier[i], dense[i], 1e-12) << name;
    EXPECT_NEAR(*decay_exponent(g, 0, .5, .5), *decay_exponent(other, 0, .5, .5), 1e-9) << name;
  }
  const Graph ring = make_graph("ring", 8), other = shuffled(ring);
  const GraphConstants k = constants(ring);
  EXPECT_NEAR(*decay_exponent(ring, k.eta, .5, k.alpha_tilde),
              *decay_exponent(other, k.eta, .5, k.alpha_tilde), 1e-9);
}

TEST(Spectrum, ExponentsLieAboveTheGuaranteeAndAreUnknownWhereTheyTakeTooLong) {
  for (const char* name : {"star", "chain", "tree", "random-regular:3"}) {
    const Graph g = make_graph(name, 12);
    const GraphConstants k = constants(g);
    EXPECT_GE(*decay_exponent(g, 0, .5, .5), 0.5 / k.chi1 - 1e-12) << name;
    EXPECT_GE(*decay_exponent(g, k.eta, .5, k.alpha_tilde), k.eta) << name;
  }
  EXPECT_FALSE(decay_exponent(make_graph("star", 64), 0, .5, .5));
  EXPECT_FALSE(decay_exponent(make_graph("ring", 2048), .1, .5, .5));
}

TEST(Spectrum, ConstantsOfThousandsOfWorkersAreClosedForms) {
  const GraphConstants ring = constants(make_graph("ring", 1024)),
                       large = constants(make_graph("ring", 4096)),
                       cube = constants(make_graph("hypercube", 4096));
  EXPECT_NEAR(ring.chi1, 53121.6, 0.05);
  EXPECT_NEAR(ring.chi2, .99902, 1e-5);
  EXPECT_NEAR(large.chi1, 1 / (2 * std::pow(std::sin(M_PI / 4096), 2)), 1e-3);
  EXPECT_NEAR(large.chi2, 4095.0 / 4096, 1e-9);
  EXPECT_NEAR(cube.chi1, 6, 1e-9);
  EXPECT_NEAR(cube.chi2, 4095.0 / 4096, 1e-9);
}

TEST(Spectrum, EliminationAndTheDenseWayAgree) {
  for (const char* name :
       {"star", "chain", "tree", "random-regular:3", "random-regular:7", "torus", "complete"}) {
    Graph g = make_graph(name, 48);
    double rate = 0.3;
    for (Edge& e : g.edges) e.rate = rate = std::fmod(rate * 7.1 + 0.1, 2.0) + 0.05;
    const std::vector<double> dense = symmetric_eigenvalues(laplacian(g));
    const SparseLaplacian sparse(g);
    EXPECT_NEAR(sparse.smallest_positive(), dense[1], 1e-11) << name;
    EXPECT_NEAR(sparse.largest(), dense.back(), 1e-11) << name;
    double resistance = 0;  // with worker 0 grounded
    Square grounded(g.n - 1);
    for (int i = 1; i < g.n; ++i)
      for (int j = 1; j < g.n; ++j) grounded(i - 1, j - 1) = laplacian(g)(i, j);
    const LinearSystem system(grounded);
    for (const Edge& e : g.edges) {
      std::vector<double> current(static_cast<std::size_t>(g.n - 1));
      if (e.a > 0) current[static_cast<std::size_t>(e.a - 1)] = 1;
      current[static_cast<std::size_t>(e.b - 1)] = -1;
      const std::vector<double> potential = system.solve(current);
      resistance =
          std::max(resistance, (e.a > 0 ? potential[static_cast<std::size_t>(e.a - 1)] : 0) -
                                   potential[static_cast<std::size_t>(e.b - 1)]);
    }
    EXPECT_NEAR(sparse.largest_resistance(), resistance, 1e-10) << name;
  }
}

TEST(Spectrum, StarsAndTreesOfThousandsAreClosedFormsToo) {
  const GraphConstants star = constants(make_graph("star", 4096)),
                       chain = constants(make_graph("chain", 1000));
  EXPECT_NEAR(star.chi1, 2 * 4095.0 / 4096, 1e-9);
  EXPECT_NEAR(star.chi2, 4095.0 / 4096, 1e-9);
  EXPECT_NEAR(chain.chi1, 999.0 / 500 / (2 - 2 * std::cos(M_PI / 1000)), 1e-4);
  EXPECT_NEAR(mixing(*make_rounds("star", 4096))->gap, 1.0 / 4096, 1e-12);
  EXPECT_NEAR(mixing(*make_rounds("chain", 1000))->gap, (2 - 2 * std::cos(M_PI / 1000)) / 3, 1e-9);
}

TEST(Spectrum, EigenvaluesAndLinearSystemsOfARandomMatrix) {
  constexpr int n = 40;
  Rng random(3);
  // mirror * D * mirror has the eigenvalues of D
  Square a(n), mirror(n), scaled(n);
  double length = 0;
  std::vector<double> v(n);
  for (double& x : v) x = random.normal(), length += x * x;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      mirror(i, j) =
          (i == j) - 2 * v[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(j)] / length;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) scaled(i, j) = (i * i % 17 - 5) * mirror(i, j);
  std::vector<double> expected;
  for (int i = 0; i < n; ++i) expected.push_back(i * i % 17 - 5);
  std::ranges::sort(expected);
  const std::vector<double> found = symmetric_eigenvalues(multiply(mirror, scaled));
  for (std::size_t k = 0; k < n; ++k) EXPECT_NEAR(found[k], expected[k], 1e-12 * n);
  for (double& x : a.values) x = random.normal();
  std::vector<double> b(n);
  for (double& entry : b) entry = random.normal();
  const std::vector<double> x = LinearSystem(a).solve(b);
  for (int i = 0; i < n; ++i) {
    double product = 0;
    for (int j = 0; j < n; ++j) product += a(i, j) * x[static_cast<std::size_t>(j)];
    EXPECT_NEAR(product, b[static_cast<std::size_t>(i)], 1e-10);
  }
  EXPECT_THROW(LinearSystem(Square(3)), Error);
}

}  // namespace
}  // namespace gossamer::dist
