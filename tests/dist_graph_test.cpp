// Graphs: shapes, constants (oracle T6), healing, errors.
#include "gossamer/dist/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

struct Row { const char* graph; int n; double chi1, chi2, eta, alpha_tilde; };

// The table of docs: rate 1.
const Row rows[] = {
    {"complete", 4, .75, .75, .66667, .5},          {"complete", 8, .875, .875, .57143, .5},
    {"complete", 16, .9375, .9375, .53333, .5},     {"complete", 32, .96875, .96875, .51613, .5},
    {"complete", 64, .984375, .984375, .50794, .5},
    {"ring", 4, 1.0, .75, .577350, .57735},         {"ring", 8, 3.41421, .875, .289281, .98767},
    {"ring", 16, 13.13707, .9375, .142474, 1.87169},{"ring", 32, 52.04343, .96875, .070418, 3.66477},
    {"ring", 64, 207.67253, .98438, .034970, 7.26238},
    {"exponential", 4, 1.0, .83333, .547723, .54772},   {"exponential", 8, 1.5, .96371, .415864, .62380},
    {"exponential", 16, 2.0, 1.00966, .351858, .70372}, {"exponential", 32, 2.5, 1.02294, .312662, .78166},
    {"exponential", 64, 3.0, 1.02408, .285262, .85578},
    {"hypercube", 16, 2, .9375, .365148, .73030},   {"hypercube", 64, 3, .98438, .290957, .87287},
    {"star", 4, 1.5, .75, .471405, .70711},         {"star", 16, 1.875, .9375, .377124, .70711},
    {"star", 64, 1.96875, .98438, .359165, .70711}};

TEST(Graph, T6_ConstantsEqualTheTable) {
  for (const Row& row : rows) {
    const GraphConstants k = constants(make_graph(row.graph, row.n));
    EXPECT_NEAR(k.chi1, row.chi1, 1e-5) << row.graph << row.n;
    EXPECT_NEAR(k.chi2, row.chi2, 1e-5) << row.graph << row.n;
    EXPECT_NEAR(k.eta, row.eta, 1e-5) << row.graph << row.n;
    EXPECT_NEAR(k.alpha_tilde, row.alpha_tilde, 1e-5) << row.graph << row.n;
    EXPECT_EQ(k.alpha, 0.5);
  }
}

TEST(Graph, T6_EdgeTransitiveGraphsHaveFostersChi2AndTheRateOnlyScalesEta) {
  for (const char* name : {"ring", "complete", "hypercube"})
    for (const int n : {4, 8, 16})
      for (const double r : {1.0, 2.0, 0.5}) {
        const GraphConstants one = constants(make_graph(name, n)), k = constants(make_graph(name, n, r));
        EXPECT_NEAR(k.chi2, (n - 1) / (n * r), 1e-12) << name << n;
        EXPECT_NEAR(k.chi1, one.chi1 / r, 1e-10 * one.chi1) << name << n;
        EXPECT_NEAR(k.eta, one.eta * r, 1e-10) << name << n;
        EXPECT_NEAR(k.alpha_tilde, one.alpha_tilde, 1e-10) << name << n;
      }
}

TEST(Graph, EveryGraphIsValidForTheSizesItTakesAndHasTheSameBudget) {
  for (const std::string& name : graph_names())
    for (const int n : {1, 2, 3, 4, 6, 8, 9, 12, 16, 27, 32}) {
      if (name == "hypercube" && (n & (n - 1))) continue;
      const Graph g = make_graph(name, n, 1.5);
      EXPECT_NO_THROW(validate(g)) << name << n;
      double total = 0;
      for (const Edge& e : g.edges) total += e.rate;
      if (n == 1) continue;
      EXPECT_NEAR(total, 1.5 * n / 2, 1e-12) << name << n;
      EXPECT_GT(constants(g).eta, 0) << name << n;
    }
}

TEST(Graph, ShapesAreAsTheirNamesSay) {
  EXPECT_EQ(make_graph("ring", 5).neighbours(0), (std::vector<int>{1, 4}));
  EXPECT_EQ(make_graph("chain", 5).neighbours(0), (std::vector<int>{1}));
  EXPECT_EQ(make_graph("star", 5).neighbours(0), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(make_graph("hypercube", 8).neighbours(5), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(make_graph("torus", 12).neighbours(0), (std::vector<int>{1, 3, 4, 8}));
  EXPECT_EQ(make_graph("exponential", 8).neighbours(0), (std::vector<int>{1, 2, 4, 6, 7}));
  const Graph e = make_graph("exponential", 8);
  EXPECT_NEAR(e.rate(0, 4), 2 * e.rate(0, 1), 1e-12);
  EXPECT_EQ(e.rate(0, 3), 0);
}

TEST(Graph, ErrorsNameTheGraphAndWhatItCanHave) {
  const auto text = [](auto f) {
    try {
      f();
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(text([] { make_graph("rign", 4); }).find("ring"), std::string::npos);
  EXPECT_NE(text([] { make_graph("hypercube", 12); }).find("8 or 16"), std::string::npos);
  EXPECT_NE(text([] { make_graph("torus", 7); }).find("8 can"), std::string::npos);
  EXPECT_NE(text([] { make_graph("ring", 0); }).find("0 workers"), std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 4, {{0, 1, 1}, {2, 3, 1}}}); }).find("no path"), std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 2, {{1, 1, 1}}}); }).find("1-1"), std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 2, {{0, 1, -1}}}); }).find("rate"), std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 2, {{0, 1, 1}, {0, 1, 1}}}); }).find("twice"), std::string::npos);
  EXPECT_NE(text([] { constants({"mine", 4, {{0, 1, 1}, {2, 3, 1}}}); }).find("2 pieces"), std::string::npos);
}

TEST(Graph, ARingClosesWhenAWorkerDies) {
  const Graph g = heal(make_graph("ring", 5), {false, false, true, false, false});
  EXPECT_EQ(g.neighbours(1), (std::vector<int>{0, 3}));
  EXPECT_TRUE(g.neighbours(2).empty());
  const GraphConstants healed = constants(g), ring = constants(make_graph("ring", 4));
  EXPECT_NEAR(healed.chi1, ring.chi1, 1e-9);
  EXPECT_NEAR(healed.eta, ring.eta, 1e-9);
}

TEST(Graph, WhatIsLeftStaysConnectedWhoeverDies) {
  for (const std::string& name : graph_names())
    for (const int n : {4, 8, 16})
      for (unsigned gone = 0; gone < (1u << std::min(n, 8)) - 1; ++gone) {
        std::vector<bool> dead(static_cast<std::size_t>(n));
        int alive = n;
        for (int i = 0; i < std::min(n, 8); ++i)
          if (gone >> i & 1) dead[static_cast<std::size_t>(i)] = true, --alive;
        const Graph g = heal(make_graph(name, n), dead);
        double total = 0;
        for (const Edge& e : g.edges) {
          total += e.rate;
          EXPECT_FALSE(dead[static_cast<std::size_t>(e.a)] || dead[static_cast<std::size_t>(e.b)]);
        }
        if (alive < 2) continue;
        ASSERT_NO_THROW(constants(g)) << name << n << " without mask " << gone;
        EXPECT_NEAR(total, alive / 2.0, 1e-9) << name << n;
        for (int i = 0; i < n; ++i) EXPECT_EQ(g.neighbours(i).empty(), dead[static_cast<std::size_t>(i)]) << name << n << " worker " << i;
      }
}

}  // namespace
}  // namespace gossamer::dist
