// Patience: a stop of the process does not use up the time of a wait.
#include "gossamer/dist/time.h"

#include <gtest/gtest.h>

namespace gossamer::dist {
namespace {

TEST(Patience, EndsWhenItsTimeWasWaited) {
  Patience patience(2.5);
  EXPECT_EQ(patience.turn(), 1);
  patience.waited(1);
  patience.waited(1);
  EXPECT_EQ(patience.turn(), .5);
  EXPECT_FALSE(patience.over());
  patience.waited(.5);
  EXPECT_TRUE(patience.over());
}

// A worker that was stopped for a minute has lost one turn, not all its patience.
TEST(Patience, ATimeInWhichTheProcessStoodStillCountsAsOneTurn) {
  Patience patience(30);
  patience.waited(60);
  EXPECT_FALSE(patience.over());
  EXPECT_EQ(patience.turn(), 1);
}

}  // namespace
}  // namespace gossamer::dist
