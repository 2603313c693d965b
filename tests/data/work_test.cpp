// Several threads that work through samples.
#include "gossamer/data/work.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer::data {
namespace {

// Those behind a wrong sample fail at once, it takes its time.
TEST(ForEachSample, TheErrorIsThatOfTheFirstSampleThatHasOne) {
  for (int run = 0; run < 100; ++run) {
    std::atomic<int> before{0}, failed{0};
    const std::string error = error_of([&] {
      for_each_sample(
          0, 1000, 4,
          [&](i64 i, std::vector<std::byte>&) {
            if (i < 40) ++before;
            if (i < 40) return;
            for (int turn = 0; i == 40 && failed == 0 && turn < 1000; ++turn)
              std::this_thread::yield();
            ++failed;
            fail<Error>("sample ", i);
          },
          [](i64) { return true; });
    });
    EXPECT_EQ(error, "sample 40");
    EXPECT_EQ(before, 40);
  }
}

TEST(ForEachSample, EndsEarlyWhereItIsToldTo) {
  std::atomic<i64> done{0};
  EXPECT_FALSE(for_each_sample(
      0, i64{1} << 40, 2, [&](i64, std::vector<std::byte>&) { ++done; },
      [](i64 so_far) { return so_far == 0; }));
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace gossamer::data
