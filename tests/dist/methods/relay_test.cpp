// RelaySGD: lost messages, and graphs that are no trees.
#include <algorithm>
#include <atomic>

#include <gtest/gtest.h>

#include "dist/methods/unlike_data.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

// After a lost message the sum of the round before stands in for its own, so the fixed point stays.
TEST(RelaySgd, RelayedSumsThatAreLostMoveNoFixedPoint) {
  InDouble all("relay-sgd", {}, 0, false);
  all.lose(.1f);
  all.run(4000);
  EXPECT_LT(root_mean_square(all.x()), 1e-9);
}

TEST(RelaySgd, RelayRefusesWhatIsNoTree) {
  const auto error = [](const std::string& graph, const std::string& rounds) {
    LocalCluster cluster(6);
    return error_of([&] {
      check_method("relay-sgd", "sgd", cluster.group(0), make_graph(graph, 6),
                   options_of(rounds, 6, 1));
    });
  };
  EXPECT_NE(error("ring", "")
                .find("sums go along a tree, and \"ring\" of 6 workers is none; take "
                      "the graph chain, star or tree"),
            std::string::npos)
      << error("ring", "");
  for (const char* rounds : {"one-peer-exp", "complete", "base:2", "one-peer-exp-directed"})
    EXPECT_NE(error("chain", rounds).find("sums go along a tree"), std::string::npos) << rounds;
  for (const char* graph : {"chain", "star", "tree"}) EXPECT_EQ(error(graph, ""), "no error");
  EXPECT_EQ(error("ring", "tree"), "no error");
}

}  // namespace
}  // namespace gossamer::dist
