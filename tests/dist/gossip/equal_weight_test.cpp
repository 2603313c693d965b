// Steps weighted by min r / r_i: what is measured, what all know of all, and where workers of
// unlike data and unlike speed end.
#include "gossamer/dist/gossip/equal_weight.h"

#include <numeric>

#include <gtest/gtest.h>

#include "dist/gossip/speeds.h"
#include "dist/gossip/training.h"

namespace gossamer::dist {
namespace {

TEST(StepTime, FollowsASpeedAndAPauseAtMostDoublesIt) {
  StepTime t;
  EXPECT_EQ(t.seconds(), 0);
  double now = 100;
  const auto steps = [&](int count, double each) {
    for (; count > 0; --count) t.step(now += each);
  };
  steps(1, 0);
  EXPECT_EQ(t.seconds(), 0);
  EXPECT_FALSE(t.is_news());
  steps(1, .2);
  EXPECT_NEAR(t.seconds(), .2, 1e-12);
  EXPECT_TRUE(t.is_news());
  EXPECT_FALSE(t.is_news());
  steps(100, .2);
  EXPECT_FALSE(t.is_news());
  steps(1, 1000);
  EXPECT_NEAR(t.seconds(), .4, .004);
  EXPECT_TRUE(t.is_news());
  steps(400, .2);
  EXPECT_NEAR(t.seconds(), .2, .001);
  steps(400, 2);  // slower from now on
  EXPECT_NEAR(t.seconds(), 2, .01);
  EXPECT_TRUE(t.is_news());
  EXPECT_EQ(t.said(), t.seconds());
}

// The weights of a worker sum to the time that it took, whatever its steps are like.
TEST(StepTime, OfAllStepsIsTheTimeThatTheyTook) {
  StepTime t;
  Rng random(3, 0);
  double now = 0, sum = 0, began = 0;
  for (int k = 0; k < 4000; ++k) {
    t.step(now += .1 * std::exp(.3 * random.normal()));
    if (k == 999) began = now;
    if (k >= 1000) sum += t.seconds();
  }
  EXPECT_NEAR(sum / (now - began), 1, .01);
}

TEST(StepTimes, TheSlowestMemberTakesWholeSteps) {
  StepTimes all(3);
  EXPECT_EQ(all.weight(.1), 1);  // nothing is known
  all.said(0, .1);
  all.said(1, .4);
  EXPECT_DOUBLE_EQ(all.weight(.1), .25);
  EXPECT_DOUBLE_EQ(all.weight(.4), 1);
  EXPECT_EQ(all.weight(0), 1);  // own steps are not known yet
  all.said(2, std::nan(""));
  all.said(2, -1);
  EXPECT_DOUBLE_EQ(all.weight(.1), .25);
  all.lost(1);
  EXPECT_DOUBLE_EQ(all.weight(.1), 1);
  all.said(1, .8);  // heard before it is a member again
  EXPECT_DOUBLE_EQ(all.weight(.1), 1);
  all.joined(1);
  EXPECT_DOUBLE_EQ(all.weight(.1), .125);
  all.lost(1);
  all.lost(2);
  EXPECT_EQ(all.weight(.05), 1);  // alone: the plain optimizer's step
}

constexpr int kWorkers = 4;  // the last one is the slow one

// Where x rests for f_i = |x - i|^2 / 2: the mean over the workers, and over the second half of the
// run. Speeds are measured by the clock, so on a busy machine x is elsewhere for a while.
double train(const char* method, bool equal_weight, double momentum) {
  LocalCluster cluster(kWorkers);
  Speeds speeds(kWorkers, kWorkers - 1);
  std::vector<double> at(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(rank, 4, static_cast<float>(momentum));
    std::ranges::fill(q.target, static_cast<float>(rank));
    std::ranges::fill(q.params.values().span<float>(), 4.f);
    q.params.refresh();
    MethodOptions options;
    options.seed = 5;
    options.total_samples = 12000;
    double sum = 0, steps = 0;
    options.settings.set("equal_weight", equal_weight);
    auto run = make_method(method, q.params, q.sgd, group, make_graph("ring", kWorkers), options);
    {
      const Speeds::Leaves leaves{speeds, rank};
      while (!run->done()) {
        q.gradient();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        speeds.step(rank);
        run->step(.02 * (1 - momentum));
        if (run->samples_seen() < options.total_samples / 2) continue;
        run->read_model([&] { sum += q.params.values().span<float>()[0]; });
        ++steps;
      }
    }
    run->finish();
    at[static_cast<std::size_t>(rank)] = sum / steps;
  });
  return std::accumulate(at.begin(), at.end(), 0.) / kWorkers;
}

TEST(EqualWeight, WorkersEndAtTheMeanAndNotWhereTheFastOnesWin) {
  constexpr double kBySpeed = (0 + 1 + 2 + 3 * .1) / 3.1;  // sum r_i i / sum r_i
  for (const auto& [method, momentum] : {std::pair("a2cid2", 0.), {"a2cid2", .9}, {"adpsgd", .9}}) {
    SCOPED_TRACE(testing::Message() << method << ", momentum " << momentum);
    EXPECT_NEAR(train(method, false, momentum), kBySpeed, .15);
    EXPECT_NEAR(train(method, true, momentum), 1.5, .15);
  }
}

}  // namespace
}  // namespace gossamer::dist
