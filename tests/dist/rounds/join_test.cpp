// Workers that join others that train in rounds.
#include <gmock/gmock.h>

#include "dist/gossip/come_and_go.h"
#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

using testing::HasSubstr;

void expect_one_model(Training& t, const std::vector<int>& members) {
  for (const int rank : members) {
    EXPECT_EQ(t.worker(rank).stats.alive, std::ssize(members)) << rank;
    EXPECT_EQ(t.worker(rank).x, t.worker(members[0]).x) << rank;
  }
}

class JoinRounds : public testing::TestWithParam<const char*> {
 protected:
  void slow(Training& t, int us) {
    for (int rank = 0; rank < t.places(); ++rank) t.worker(rank).step_us = us;
  }
};

TEST_P(JoinRounds, AWorkerTakesAStateAndAllFinishTogether) {
  Training t(6, 900, GetParam(), "ring", Seconds(.3), 3);
  t.momentum = .5F;
  t.start();
  ASSERT_TRUE(t.reaches(.4));
  slow(t, 20000);
  t.restart(4);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 4) == 3; }));
  slow(t, 300);
  t.finish();
  expect_one_model(t, {0, 1, 2, 4});
  EXPECT_GE(t.worker(4).samples_at_start, .35 * t.options.total_samples);
  // the others tend to 1, the mean of 0, 1 and 2; its own start would be 4
  EXPECT_NEAR(t.worker(4).at_start[0], 1, 1.2);
  EXPECT_NE(t.worker(4).momentum_at_start, 0) << "of the worker that gave its state";
  EXPECT_GT(t.worker(4).gradients.at(0), 0);
  EXPECT_NEAR(t.gradients() / t.options.total_samples, 1, .02);
}

TEST_P(JoinRounds, OneBeginsAndOthersComeAtOnce) {
  Training t(4, 4000, GetParam(), "ring", Seconds(.3), 1);
  t.start();
  ASSERT_TRUE(t.reaches(.05));
  slow(t, 20000);
  for (const int rank : {1, 2, 3}) t.restart(rank);
  ASSERT_TRUE(t.until([&] {
    return t.count("joined", 1) > 0 && t.count("joined", 2) > 0 && t.count("joined", 3) > 0;
  }));
  slow(t, 200);
  t.finish();
  expect_one_model(t, {0, 1, 2, 3});
}

TEST_P(JoinRounds, WhoLeavesAndWhoDiesMakeRoomForOthers) {
  Training t(4, 2500, GetParam(), "ring", Seconds(.3), 3);
  t.start();
  ASSERT_TRUE(t.reaches(.1));
  t.leave(1);
  ASSERT_TRUE(t.until([&] { return t.count("left", 1) == 2; }));
  slow(t, 20000);
  t.restart(3);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 2; }));
  t.kill(3);
  ASSERT_TRUE(t.until([&] { return t.count("dead", 3) == 2; }));
  t.restart(3);
  ASSERT_TRUE(t.until([&] { return t.count("joined", 3) == 4; }));
  slow(t, 300);
  t.finish();
  expect_one_model(t, {0, 2, 3});
}

// It asks, and is gone before it is let in; the others lose it as any that dies in a collective.
TEST_P(JoinRounds, WhoDiesWhileItJoinsHoldsNobodyUp) {
  for (int time = 0; time < 8; ++time) {
    Training t(4, 400, GetParam(), "ring", Seconds(.3), 3);
    t.start();
    ASSERT_TRUE(t.reaches(.05));
    t.restart(3);
    std::this_thread::sleep_for(std::chrono::microseconds(400 * time * time));
    t.cluster.kill(3);
    t.finish();
    expect_one_model(t, {0, 1, 2});
  }
}

TEST_P(JoinRounds, AnotherRunIsRefusedWithWhatDiffers) {
  Training t(4, 4000, GetParam(), "ring", Seconds(.3), 3);
  t.start();
  ASSERT_TRUE(t.reaches(.02));
  {
    Group& group = t.cluster.revive(3);
    const auto refusal = [&](int dimensions, i64 period) {
      Quadratic q(2, dimensions);
      MethodOptions options = t.options;
      options.rejoin = true;
      options.settings.set("period", period);
      return error_of<DistError>(
          [&] { make_method(GetParam(), q.params, q.sgd, group, make_graph("ring", 4), options); });
    };
    EXPECT_THAT(refusal(41, 8), HasSubstr("has another model"));
    EXPECT_THAT(refusal(40, 9),
                HasSubstr("has another method, optimizer, setting of it or rate; "));
  }
  t.cluster.kill(3);
  t.finish();
  expect_one_model(t, {0, 1, 2});
}

TEST_P(JoinRounds, ManyComeAndGoInRandomOrder) {
  Training t(6, 1e9, GetParam(), "ring", Seconds(.5), 3);
  t.start();
  come_and_go(t, 6, 3, stress_events(12), 3, false);
}

INSTANTIATE_TEST_SUITE_P(Methods, JoinRounds, testing::Values("diloco", "noloco"),
                         [](const auto& test) { return word(test.param); });

TEST(JoinRoundsRefused, OtherMethodsSayWhichCan) {
  LocalCluster cluster(3, Seconds(.3), Seconds(30), 2);
  Group& group = cluster.revive(2);
  Quadratic q(2, 10);
  MethodOptions options;
  options.rejoin = true;
  EXPECT_THAT(error_of([&] {
                make_method("allreduce", q.params, q.sgd, group, make_graph("ring", 3), options);
              }),
              HasSubstr("nobody can join it; that is for a2cid2"));
}

}  // namespace
}  // namespace gossamer::dist
