// WaitBudget: a stop of the process does not use up the time of a wait.
#include "gossamer/dist/time.h"

#include <gtest/gtest.h>

namespace gossamer::dist {
namespace {

TEST(WaitBudget, EndsWhenItsTimeWasWaited) {
  WaitBudget budget(2.5);
  EXPECT_EQ(budget.turn(), 1);
  budget.waited(1);
  budget.waited(1);
  EXPECT_EQ(budget.turn(), .5);
  EXPECT_FALSE(budget.over());
  budget.waited(.5);
  EXPECT_TRUE(budget.over());
}

// A worker that was stopped for a minute has lost one turn, not all its budget.
TEST(WaitBudget, ATimeInWhichTheProcessStoodStillCountsAsOneTurn) {
  WaitBudget budget(30);
  budget.waited(60);
  EXPECT_FALSE(budget.over());
  EXPECT_EQ(budget.turn(), 1);
}

}  // namespace
}  // namespace gossamer::dist
