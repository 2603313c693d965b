// Ranking by noisy times: a wrong first impression is put right, what does not run is left out.
#include "gossamer/core/cuda/rank_by_time.h"

#include <vector>

#include <gtest/gtest.h>

namespace gossamer {
namespace {

std::vector<std::size_t> order_of(const std::vector<Ranked>& ranked) {
  std::vector<std::size_t> order;
  for (const Ranked& r : ranked) order.push_back(r.candidate);
  return order;
}

TEST(Rank, OrdersByMedianAndLeavesOutWhatDoesNotRun) {
  const std::vector<double> times{30, 0, 10, 20};
  const auto ranked = rank_by_time(times.size(), [&](std::size_t i) { return times[i]; });
  EXPECT_EQ(order_of(ranked), (std::vector<std::size_t>{2, 3, 0}));
  EXPECT_EQ(ranked[0].microseconds, 10);
  EXPECT_TRUE(rank_by_time(3, [](std::size_t) { return 0.0; }).empty());
  EXPECT_TRUE(rank_by_time(0, [](std::size_t) { return 1.0; }).empty());
}

// Its times would be zero, so that it came first.
TEST(Rank, LeavesOutWhatRunsNoMoreInTheFinal) {
  std::vector<int> calls(3, 0);
  const auto time = [&](std::size_t i) { return ++calls[i] > 3 && i == 1 ? 0.0 : 10.0 + i; };
  EXPECT_EQ(order_of(rank_by_time(3, time)), (std::vector<std::size_t>{0, 2}));
}

// The first candidates are timed while clocks rise, and look slower than they are.
TEST(Rank, TheBestFiveAreTimedAgainInTurn) {
  int calls = 0;
  const auto time = [&](std::size_t i) {
    const double clocks = calls++ < 6 ? 1.5 : 1.0;
    return clocks * (100 + static_cast<double>(i));
  };
  const auto ranked = rank_by_time(8, time);
  EXPECT_EQ(ranked.size(), 8u);
  EXPECT_EQ(ranked[0].microseconds, 102) << "candidates 0 and 1 lost their place among the best";
  EXPECT_EQ(order_of(ranked), (std::vector<std::size_t>{2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(calls, 8 * 3 + 5 * 15);
}

TEST(Rank, OneSlowRunDoesNotDecide) {
  int calls = 0;
  const auto time = [&](std::size_t i) {
    return (calls++ % 7 == 3 ? 10.0 : 1.0) * (i == 1 ? 50.0 : 60.0);
  };
  EXPECT_EQ(rank_by_time(3, time)[0].candidate, 1u);
}

TEST(Rank, ASlowCandidateIsTimedOnce) {
  std::vector<int> calls(2, 0);
  (void)rank_by_time(2, [&](std::size_t i) { return ++calls[i], i == 0 ? 10.0 : 21.0; });
  EXPECT_EQ(calls, (std::vector<int>{3 + 15, 1 + 15}));
}

}  // namespace
}  // namespace gossamer
