// Graphs: shapes, constants (oracle T6), healing, errors.
#include "gossamer/dist/graph/graph.h"

#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"

namespace gossamer::dist {
namespace {

template <class F>
std::string text(F f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

struct Row {
  const char* graph;
  int n;
  double chi1, chi2, eta, alpha_tilde;
};

// The table of docs: rate 1.
const Row rows[] = {{"complete", 4, .75, .75, .66667, .5},
                    {"complete", 8, .875, .875, .57143, .5},
                    {"complete", 16, .9375, .9375, .53333, .5},
                    {"complete", 32, .96875, .96875, .51613, .5},
                    {"complete", 64, .984375, .984375, .50794, .5},
                    {"ring", 4, 1.0, .75, .577350, .57735},
                    {"ring", 8, 3.41421, .875, .289281, .98767},
                    {"ring", 16, 13.13707, .9375, .142474, 1.87169},
                    {"ring", 32, 52.04343, .96875, .070418, 3.66477},
                    {"ring", 64, 207.67253, .98438, .034970, 7.26238},
                    {"exponential", 4, 1.0, .83333, .547723, .54772},
                    {"exponential", 8, 1.5, .96371, .415864, .62380},
                    {"exponential", 16, 2.0, 1.00966, .351858, .70372},
                    {"exponential", 32, 2.5, 1.02294, .312662, .78166},
                    {"exponential", 64, 3.0, 1.02408, .285262, .85578},
                    {"hypercube", 16, 2, .9375, .365148, .73030},
                    {"hypercube", 64, 3, .98438, .290957, .87287},
                    {"star", 4, 1.5, .75, .471405, .70711},
                    {"star", 16, 1.875, .9375, .377124, .70711},
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
        const GraphConstants one = constants(make_graph(name, n)),
                             k = constants(make_graph(name, n, r));
        EXPECT_NEAR(k.chi2, (n - 1) / (n * r), 1e-12) << name << n;
        EXPECT_NEAR(k.chi1, one.chi1 / r, 1e-10 * one.chi1) << name << n;
        EXPECT_NEAR(k.eta, one.eta * r, 1e-10) << name << n;
        EXPECT_NEAR(k.alpha_tilde, one.alpha_tilde, 1e-10) << name << n;
      }
}

TEST(Graph, EcosystemTable_ConstantsOfLargeRingsAndStarsAndOneExchangeAtATime) {
  EXPECT_NEAR(constants(make_graph("ring", 1024)).chi1, 53121.6, 0.05);
  EXPECT_NEAR(constants(make_graph("ring", 1024)).chi2, .99902, 1e-5);
  // The hub of a star does n/2 exchanges per unit of time. If it can do only one, chi1 is n - 1.
  for (const int n : {4, 16, 64}) {
    const Graph star = make_graph("star", n);
    double hub = 0;
    for (const Edge& e : star.edges) hub += e.rate;
    EXPECT_NEAR(hub, n / 2.0, 1e-12);
    EXPECT_NEAR(constants(star).chi1 * hub, n - 1, 1e-9) << n;
  }
}

// The same number of exchanges on every edge. Ours gives n/2 apart, which is two of the offsets in
// one, twice the rate of the others, as the published code does (T6).
TEST(Graph, EcosystemTable_ConstantsWithTheSameRateOnAllEdges) {
  const struct {
    const char* graph;
    int n;
    double chi1, chi2, root;
  } table[] = {
      {"ring", 16, 13.137, .9375, 3.509},         {"ring", 64, 207.67, .98438, 14.298},
      {"ring", 1024, 53121.6, .99902, 230.37},    {"star", 16, 1.875, .9375, 1.326},
      {"star", 64, 1.969, .984, 1.392},           {"star", 1024, 1.998, .999, 1.413},
      {"exponential", 16, 1.75, .957, 1.294},     {"exponential", 64, 2.75, 1.0007, 1.659},
      {"exponential", 1024, 4.75, 1.0047, 2.185}, {"complete", 16, .9375, .9375, .9375},
      {"complete", 64, .98438, .98438, .98438},   {"complete", 1024, .99902, .99902, .99902}};
  for (const auto& row : table) {
    Graph g = make_graph(row.graph, row.n);
    for (Edge& e : g.edges) e.rate = row.n / 2.0 / static_cast<double>(g.edges.size());
    const GraphConstants k = constants(g);
    EXPECT_NEAR(k.chi1, row.chi1, 6e-4 + 2e-5 * row.chi1) << row.graph << row.n;
    EXPECT_NEAR(k.chi2, row.chi2, 6e-4) << row.graph << row.n;
    EXPECT_NEAR(std::sqrt(k.chi1 * k.chi2), row.root, 6e-4 + 2e-5 * row.root) << row.graph << row.n;
  }
}

TEST(Graph, EveryGraphIsValidOrSaysWhichSizesAreAndHasTheSameBudget) {
  for (const std::string& name : graph_names())
    for (int n = 1; n <= 70; ++n) {
      SCOPED_TRACE(name + " " + std::to_string(n));
      const std::string error = text([&] { validate(make_graph(name, n, 1.5)); });
      if ((name == "hypercube" || name == "aer") && (n & (n - 1)))
        EXPECT_NE(error.find("must be a power of two ("), std::string::npos) << error;
      else if (name == "torus" && error != "no error")
        EXPECT_NE(error.find(" can, or use ring"), std::string::npos) << error;
      else
        EXPECT_EQ(error, "no error");
      if (error != "no error") continue;
      const Graph g = make_graph(name, n, 1.5);
      double total = 0;
      for (const Edge& e : g.edges) total += e.rate;
      if (n == 1) continue;
      EXPECT_NEAR(total, 1.5 * n / 2, 1e-12 * n);
      EXPECT_GT(constants(g).eta, 0);
    }
}

TEST(Graph, RandomRegularGraphsAreRegularConnectedAndTheSameForAll) {
  for (int n = 2; n <= 70; ++n)
    for (const int degree : {1, 2, 3, 4, 5, 8, n - 1}) {
      const std::string name = "random-regular:" + std::to_string(degree);
      const std::string error = text([&] { make_graph(name, n); });
      const bool possible = degree < n && n * degree % 2 == 0 && (degree > 1 || n == 2);
      ASSERT_EQ(error == "no error", possible) << name << " " << n << ": " << error;
      if (!possible) continue;
      const Graph g = make_graph(name, n), again = make_graph(name, n);
      ASSERT_NO_THROW(validate(g));
      ASSERT_EQ(g.edges.size(), static_cast<std::size_t>(n * degree / 2)) << name << " " << n;
      for (int i = 0; i < n; ++i) {
        ASSERT_EQ(g.neighbours(i).size(), static_cast<std::size_t>(degree)) << name << " " << n;
        ASSERT_EQ(g.neighbours(i), again.neighbours(i));
      }
    }
  bool different = false;
  for (int i = 0; i < 32; ++i)
    different |= make_graph("random-regular:3:1", 32).neighbours(i) !=
                 make_graph("random-regular:3:2", 32).neighbours(i);
  EXPECT_TRUE(different);
  // an expander; the ring has 207
  EXPECT_LT(constants(make_graph("random-regular:4", 64)).chi1, 10);
  EXPECT_NE(text([] { make_graph("random-regular:3", 9); }).find("must be even"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("random-regular:9", 8); }).find("only 7 others"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("random-regular:1", 8); }).find("2 neighbours are the least"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("random-regular:4x", 8); }).find("\"4x\" is not a whole number"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("random-regular:4:", 8); }).find("not a whole number"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("ring:4", 8); }).find("takes nothing behind a colon"),
            std::string::npos);
}

TEST(Graph, AnAlternatingExpRingJoinsNodesAsAHypercube) {
  const Graph g = make_graph("aer:2", 16);  // 8 nodes of 2
  EXPECT_EQ(g.neighbours(0), (std::vector<int>{1, 2, 3, 4, 5, 8, 9}));
  EXPECT_NEAR(g.rate(0, 1), 9 * g.rate(0, 2), 1e-12);  // 3 log2(8) times as often
  EXPECT_EQ(make_graph("aer", 16, 1, 2).neighbours(5), g.neighbours(5));
  EXPECT_EQ(make_graph("aer", 8).neighbours(5), make_graph("hypercube", 8).neighbours(5));
  EXPECT_EQ(make_graph("aer:4", 4).neighbours(0), (std::vector<int>{1, 2, 3}));
  EXPECT_NE(text([] { make_graph("aer:3", 8); }).find("multiple of 3"), std::string::npos);
  EXPECT_NE(text([] { make_graph("aer:0", 8); }).find("at least 1"), std::string::npos);
}

TEST(Graph, AFileGivesEdgesAndRelativeRates) {
  const Graph g = parse_graph(
      "# a triangle with a tail\n0 1 2.5 # twice as often\r\n\n 2\t1 1.25\n0 2 1.25\n3 0 1.25",
      "net.txt", 4, 2);
  EXPECT_NO_THROW(validate(g));
  EXPECT_EQ(g.name, "file:net.txt");
  EXPECT_EQ(g.neighbours(0), (std::vector<int>{1, 2, 3}));
  // 2 * 4 / 2 exchanges, two fifths of them here
  EXPECT_NEAR(g.rate(0, 1), 4 * 2.0 / 5, 1e-12);
  EXPECT_NEAR(g.rate(1, 2), 4 * 1.0 / 5, 1e-12);
  const auto error = [](const char* content, int n = 3) {
    return text([&] { parse_graph(content, "net.txt", n); });
  };
  EXPECT_EQ(error("", 1), "no error");
  EXPECT_NE(error("0 1\n1 2 x\n").find("net.txt, line 2: rate \"x\""), std::string::npos);
  EXPECT_NE(error("0 1\n\n1 3\n").find("net.txt, line 3: worker 3; there are 0 to 2"),
            std::string::npos);
  EXPECT_NE(error("0 1\n-1 2").find("worker -1"), std::string::npos);
  EXPECT_NE(error("0 1\n1 0 2\n1 2").find("line 2: the edge 1-0 stands in line 1 already"),
            std::string::npos);
  EXPECT_NE(error("1 1").find("its own neighbour"), std::string::npos);
  EXPECT_NE(error("0 1 1 1").find("\"0 1 1 1\" is not \"worker worker [rate]\""),
            std::string::npos);
  EXPECT_NE(error("0").find("is not"), std::string::npos);
  EXPECT_NE(error("0 99999999999999999999").find("is not"), std::string::npos);
  for (const char* rate : {"0 1 0", "0 1 -1", "0 1 inf", "0 1 nan", "0 1 1e999"})
    EXPECT_NE(error(rate).find("a number from 1e-6 to 1e6"), std::string::npos) << rate;
  EXPECT_NE(error("0 1").find("no path leads from worker 0 to worker 2"), std::string::npos);
  EXPECT_NE(text([] { make_graph("file:no/such/file", 3); }).find("no/such/file: it can't be read"),
            std::string::npos);
  EXPECT_NE(text([] { make_graph("file:.", 3); }).find("can't be read"), std::string::npos);
  EXPECT_NE(text([] { make_graph("file", 3); }).find("file:PATH"), std::string::npos);
}

TEST(Graph, AFileOfNoiseIsAnErrorAndNothingElse) {
  Rng random(7);
  const std::string_view alphabet = "0123456789 \n\t-+.eE#xi\0\xff";
  int accepted = 0;
  for (int k = 0; k < 20000; ++k) {
    std::string content;
    for (std::uint32_t i = random.below(40); i > 0; --i)
      content += alphabet[random.below(static_cast<std::uint32_t>(alphabet.size()))];
    try {
      validate(parse_graph(content, "noise", 2));
      ++accepted;
    } catch (const ConfigError&) {
    }
  }
  EXPECT_LT(accepted, 20000);
}

TEST(Graph, ShapesAreAsTheirNamesSay) {
  EXPECT_EQ(make_graph("ring", 5).neighbours(0), (std::vector<int>{1, 4}));
  EXPECT_EQ(make_graph("chain", 5).neighbours(0), (std::vector<int>{1}));
  EXPECT_EQ(make_graph("star", 5).neighbours(0), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(make_graph("hypercube", 8).neighbours(5), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(make_graph("torus", 12).neighbours(0), (std::vector<int>{1, 3, 4, 8}));
  EXPECT_EQ(make_graph("tree", 12).neighbours(1), (std::vector<int>{0, 3, 4}));
  EXPECT_EQ(make_graph("exponential", 8).neighbours(0), (std::vector<int>{1, 2, 4, 6, 7}));
  const Graph e = make_graph("exponential", 8);
  EXPECT_NEAR(e.rate(0, 4), 2 * e.rate(0, 1), 1e-12);
  EXPECT_EQ(e.rate(0, 3), 0);
}

TEST(Graph, ErrorsNameTheGraphAndWhatItCanHave) {
  EXPECT_NE(text([] { make_graph("rign", 4); }).find("ring"), std::string::npos);
  EXPECT_NE(text([] { make_graph("hypercube", 12); }).find("8 or 16"), std::string::npos);
  EXPECT_NE(text([] { make_graph("torus", 7); }).find("8 can"), std::string::npos);
  EXPECT_NE(text([] { make_graph("ring", 0); }).find("0 workers"), std::string::npos);
  EXPECT_NE(text([] {
              validate({"mine", 4, {{0, 1, 1}, {2, 3, 1}}});
            }).find("no path"),
            std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 2, {{1, 1, 1}}}); }).find("1-1"), std::string::npos);
  EXPECT_NE(text([] { validate({"mine", 2, {{0, 1, -1}}}); }).find("rate"), std::string::npos);
  EXPECT_NE(text([] {
              validate({"mine", 2, {{0, 1, 1}, {0, 1, 1}}});
            }).find("twice"),
            std::string::npos);
  EXPECT_NE(text([] {
              constants({"mine", 4, {{0, 1, 1}, {2, 3, 1}}});
            }).find("2 pieces"),
            std::string::npos);
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
        for (int i = 0; i < n; ++i)
          EXPECT_EQ(g.neighbours(i).empty(), dead[static_cast<std::size_t>(i)])
              << name << n << " worker " << i;
      }
}

}  // namespace
}  // namespace gossamer::dist
