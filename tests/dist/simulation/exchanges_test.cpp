// Exchanges until agreement, against exact numbers of rounds and the powers of n that theory gives.
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/consensus.h"

namespace gossamer::dist {
namespace {

TEST(Exchanges, SynchronousRoundsAreAsManyAsTheSecondEigenvalueSays) {
  const struct {
    const char* graph;
    int n;
    double rounds;
  } rows[] = {{"ring", 8, 64},   {"ring", 16, 266}, {"ring", 64, 4297}, {"star", 8, 104},
              {"star", 16, 215}, {"star", 64, 878}, {"complete", 16, 1}};
  for (const auto& row : rows)
    EXPECT_EQ(count_exchanges(row.graph, row.n, 1).rounds, row.rounds) << row.graph << " " << row.n;
}

TEST(Exchanges, CountsGrowWithThePowersOfTheTheory) {
  const struct {
    const char* graph;
    double synchronous, accelerated, a2cid2;
  } rows[] = {{"star", 2, 1.5, 1}, {"ring", 3, 2, 2}, {"complete", 2, 2, 1}};
  for (const auto& row : rows) {
    std::vector<double> n, synchronous, accelerated, a2cid2;
    for (const int size : {16, 32, 64, 128}) {
      const ExchangeCount r = count_exchanges(row.graph, size, 4);
      n.push_back(size), synchronous.push_back(r.synchronous), accelerated.push_back(r.accelerated),
          a2cid2.push_back(r.a2cid2);
    }
    EXPECT_NEAR(fitted_power(n, synchronous), row.synchronous, .15) << row.graph;
    EXPECT_NEAR(fitted_power(n, accelerated), row.accelerated, .15) << row.graph;
    EXPECT_NEAR(fitted_power(n, a2cid2), row.a2cid2, .15) << row.graph;
  }
}

TEST(Exchanges, AHubThatCanDoOneAtATimeSlowsDownTheStar) {
  const ExchangeCount r = count_exchanges("star", 32, 4);
  // the free hub does n/2 exchanges a unit of time
  EXPECT_NEAR(r.time_limited / r.time, 16, 1e-9);
  SimulationOptions o;
  o.graph = "star";
  o.workers = 32;
  o.rate_is_limit = true;
  EXPECT_NEAR(plan_simulation(o).constants.chi1, 31, 1e-6);
  EXPECT_THROW(count_exchanges("torus", 16), ConfigError);
}

}  // namespace
}  // namespace gossamer::dist
