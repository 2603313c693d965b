// Workers that come to a run in places that were free, and workers that leave it.
#include <algorithm>

#include <gmock/gmock.h>

#include "dist/gossip/come_and_go.h"
#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist {
namespace {

std::vector<int> peers_of(const MethodStats& stats) {
  std::vector<int> peers;
  for (const EdgeStats& e : stats.edges)
    if (e.exchanges > 0) peers.push_back(e.peer);
  return peers;
}

void expect_one_model(Training& t, const std::vector<int>& members) {
  for (const int rank : members) {
    EXPECT_EQ(t.worker(rank).stats.alive, std::ssize(members)) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(members[0]).x) << rank;
  }
}

class Join : public testing::TestWithParam<const char*> {};

TEST_P(Join, AWorkerTakesAFreePlaceAndAStateAndAllFinishTogether) {
  Training t(6, 900, GetParam(), "ring", Seconds(.3), 3);
  t.momentum = .5F;
  t.start();
  ASSERT_TRUE(t.reaches(.4));
  for (const int rank : {0, 1, 2}) t.worker(rank).step_us = 20000;
  t.restart(4);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 4) == 3; }));
  for (const int rank : {0, 1, 2, 4}) t.worker(rank).step_us = 1000;
  t.finish();
  EXPECT_GE(t.worker(4).samples_at_start, .35 * t.options.total_samples);
  // the others tend to 1, the mean of 0, 1 and 2; its own start would be 4
  EXPECT_NEAR(t.worker(4).at_start[0], 1, 1);
  EXPECT_NE(t.worker(4).momentum_at_start, 0) << "of the worker that gave its state";
  EXPECT_GT(t.worker(4).gradients.at(0), 0);
  expect_one_model(t, {0, 1, 2, 4});
  // the ring of those that live: 0, 1, 2, 4
  EXPECT_THAT(peers_of(t.worker(4).stats), testing::ElementsAre(0, 2));
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}
INSTANTIATE_TEST_SUITE_P(Methods, Join, testing::Values("a2cid2", "adpsgd", "async-tracking"),
                         [](const auto& test) { return word(test.param); });

TEST(Join, OneWorkerBeginsAndOthersComeAtOnce) {
  Training t(4, 3000, "a2cid2", "complete", Seconds(.3), 1);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.worker(0).step_us = 20000;
  for (const int rank : {1, 2, 3}) t.restart(rank);
  // each sees some of the others come, and some were there before it
  ASSERT_TRUE(t.until([&] {
    return t.count("joined", 1) > 0 && t.count("joined", 2) > 0 && t.count("joined", 3) > 0;
  }));
  ASSERT_TRUE(t.each_steps(3));
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  expect_one_model(t, {0, 1, 2, 3});
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Join, WhoLeavesMakesRoomForAnother) {
  Training t(4, 2500, "a2cid2", "ring", Seconds(.3), 3);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.leave(1);
  ASSERT_TRUE(t.until([&] { return t.count("left", 1) == 2; }));
  EXPECT_EQ(t.count("dead", 1), 0);
  ASSERT_TRUE(t.reaches(.2));
  for (const int rank : {0, 2}) t.worker(rank).step_us = 20000;
  t.restart(3);
  t.restart(1);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 1) > 1 && t.count("joined", 3) > 1; }));
  ASSERT_TRUE(t.each_steps(3));
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  expect_one_model(t, {0, 1, 2, 3});
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .1);
}

TEST(Join, IfTheNeighbourDiesThatGivesItsStateAnotherIsAsked) {
  Training t(4, 1200, "a2cid2", "ring", Seconds(.3), 3);
  t.start();
  ASSERT_TRUE(t.reaches(.15));
  // Their training stands still, so none can give; the first that is asked is killed meanwhile.
  for (const int rank : {0, 1, 2}) t.worker(rank).frozen = true;
  t.restart(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  t.cluster.kill(0);
  for (const int rank : {0, 1, 2}) t.worker(rank).frozen = false;
  t.finish();
  expect_one_model(t, {1, 2, 3});
}

// Who joins is a member for all or for none: it takes part in the end of all that live.
TEST(Join, ACutBetweenANewWorkerAndAnotherHealsWithoutTwoHalves) {
  Training t(5, 2500, "a2cid2", "complete", Seconds(.3), 4);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  for (int rank = 0; rank < 4; ++rank) t.worker(rank).step_us = 20000;
  for (const int other : {2, 3}) t.cluster.cut(4, other);
  t.restart(4);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 4) == 2; }));
  for (const int other : {2, 3}) t.cluster.mend(4, other);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 4) == 4; }));
  for (int rank = 0; rank < 5; ++rank) t.worker(rank).step_us = 300;
  t.finish();
  expect_one_model(t, {0, 1, 2, 3, 4});
}

// It finds workers that have met and have not begun: they do not wait for it where they begin.
TEST(Join, WhoComesBeforeTheOthersHaveBegunWaitsForThem) {
  Training t(4, 600, "a2cid2", "ring", Seconds(.3), 3);
  t.restart(3);
  t.start();
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 3; }));
  t.finish();
  expect_one_model(t, {0, 1, 2, 3});
}

TEST(Join, ManyComeAndGoInRandomOrder) {
  Training t(8, 1e9, "a2cid2", "exponential", Seconds(.5), 4);
  t.options.rate = 2;
  t.start();
  come_and_go(t, 8, 4, stress_events(25), 7);
}

Graph ring_of(const std::vector<bool>& gone) {
  return graph_of_living(make_graph("ring", static_cast<int>(gone.size())), gone);
}

TEST(GraphOfLiving, IsTheGraphOfThatNameOverThoseThatLive) {
  const Graph g = ring_of({false, true, false, false, true, false});
  EXPECT_EQ(g.n, 6);
  EXPECT_EQ(g.neighbours(0), (std::vector{2, 5}));
  EXPECT_EQ(g.neighbours(3), (std::vector{2, 5}));
  for (const char* name : {"ring", "exponential", "complete", "torus", "star", "tree"}) {
    std::vector<bool> gone(16, true);
    std::fill_n(gone.begin() + 3, 9, false);
    const Graph nine = graph_of_living(make_graph(name, 16, 3), gone),
                alone = make_graph(name, 9, 3);
    ASSERT_EQ(nine.edges.size(), alone.edges.size()) << name;
    for (std::size_t e = 0; e < alone.edges.size(); ++e) {
      EXPECT_EQ(nine.edges[e].a, alone.edges[e].a + 3) << name;
      EXPECT_EQ(nine.edges[e].b, alone.edges[e].b + 3) << name;
      EXPECT_NEAR(nine.edges[e].rate, alone.edges[e].rate, 1e-12) << name;
    }
    EXPECT_NEAR(constants(nine).chi1, constants(alone).chi1, 1e-9) << name;
  }
}

TEST(GraphOfLiving, IsHealedWhereThatNameHasNoGraphOfSoMany) {
  std::vector<bool> gone(16, true);
  std::fill_n(gone.begin(), 5, false);
  const Graph five = graph_of_living(make_graph("hypercube", 16), gone);
  std::vector<bool> three(8, false);
  std::fill_n(three.begin() + 5, 3, true);
  const Graph healed = heal(make_graph("hypercube", 8), three);
  ASSERT_EQ(five.edges.size(), healed.edges.size());
  double rates = 0;
  for (const Edge& e : five.edges) {
    EXPECT_LT(e.b, 5);
    rates += e.rate;
  }
  EXPECT_NEAR(rates, 2.5, 1e-12);  // one exchange of each in a unit of time
  for (int a = 0; a < 5; ++a) EXPECT_FALSE(five.neighbours(a).empty()) << a;
}

TEST(GraphOfLiving, OfAFileIsTheFilesHealed) {
  const Graph all = parse_graph("0 1\n1 2\n2 3\n3 0\n", "four.txt", 4);
  const Graph left = graph_of_living(all, {false, true, false, false});
  EXPECT_EQ(left.neighbours(0), (std::vector{2, 3}));
}

TEST(GraphOfLiving, OfOneOrOfAllIsItself) {
  EXPECT_TRUE(ring_of({true, false, true}).edges.empty());
  EXPECT_EQ(ring_of({false, false, false}).edges.size(), 3u);
}

}  // namespace
}  // namespace gossamer::dist
