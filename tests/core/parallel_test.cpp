// parallel_for, and how many threads it uses.
#include "gossamer/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"

namespace gossamer {
namespace {

struct Threads {
  int before = compute_threads();
  explicit Threads(int n) { set_compute_threads(n); }
  ~Threads() { set_compute_threads(before); }
};

TEST(ParallelFor, VisitsEachIndexOnceForEverySizeGrainAndThreadCount) {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads use(threads);
    EXPECT_EQ(compute_threads(), threads);
    for (const i64 n : {0, 1, 2, 7, 100, 1001})
      for (const i64 grain : {1, 3, 50, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
        std::atomic<int> calls = 0;
        std::atomic<i64> shortest = n;
        parallel_for(n, grain, [&](i64 begin, i64 end) {
          ++calls;
          if (end - begin < shortest) shortest = end - begin;
          for (i64 i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const auto& v : visits)
          ASSERT_EQ(v, 1) << "n " << n << ", grain " << grain << ", threads " << threads;
        EXPECT_LE(calls, threads);
        EXPECT_GE(shortest, std::min(n, grain)) << "pieces are at least a grain long";
      }
  }
}

TEST(ParallelFor, SplitsTheSameWayEveryTime) {
  const Threads use(4);
  const auto split = [] {
    std::mutex mutex;
    std::vector<std::pair<i64, i64>> pieces;
    parallel_for(1003, 10, [&](i64 begin, i64 end) {
      const std::scoped_lock lock(mutex);
      pieces.emplace_back(begin, end);
    });
    std::sort(pieces.begin(), pieces.end());
    return pieces;
  };
  EXPECT_EQ(split(), split());
  EXPECT_EQ(split().size(), 4u);
}

TEST(ParallelFor, RethrowsWhatAPieceThrew) {
  const Threads use(4);
  for (const i64 bad : {0, 999})
    EXPECT_THROW(parallel_for(1000, 1,
                              [&](i64 begin, i64 end) {
                                check<DataError>(bad < begin || bad >= end, "piece ", begin);
                              }),
                 DataError);
}

TEST(ParallelFor, RunsInsideItselfWithoutMoreThreads) {
  const Threads use(4);
  std::atomic<i64> total = 0;
  parallel_for(8, 1, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) parallel_for(100, 1, [&](i64 b, i64 e) { total += e - b; });
  });
  EXPECT_EQ(total, 800);
}

TEST(ComputeThreads, RefuseZeroAndBelongToTheCallingThread) {
  EXPECT_THROW(set_compute_threads(0), ConfigError);
  EXPECT_THROW(set_compute_threads(-2), ConfigError);
  const Threads use(3);
  std::thread([] { set_compute_threads(1); }).join();
  EXPECT_EQ(compute_threads(), 3);
}

}  // namespace
}  // namespace gossamer
