// A job beside the training: it is never waited for but where that is said, and how it ended is
// told once.
#include "gossamer/apps/train/background_job.h"

#include <latch>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

namespace gossamer::apps {
namespace {

TEST(BackgroundJob, StartReturnsWhileTheJobWaits) {
  std::latch go(1);
  bool done = false;
  BackgroundJob job;
  EXPECT_FALSE(job.busy());
  job.start([&] {
    go.wait();
    done = true;
  });
  EXPECT_TRUE(job.busy());
  EXPECT_FALSE(job.ends_within(std::chrono::milliseconds(1)));
  EXPECT_EQ(job.ended(), std::nullopt);
  go.count_down();
  EXPECT_TRUE(job.ends_within(std::chrono::minutes(1)));
  job.wait();
  EXPECT_TRUE(done);
  EXPECT_FALSE(job.busy());
  EXPECT_EQ(job.ended(), "");
  EXPECT_EQ(job.ended(), std::nullopt) << "told once";
}

TEST(BackgroundJob, WhatItThrewIsTold) {
  BackgroundJob job;
  job.start([] { throw std::runtime_error("no space left"); });
  job.wait();
  EXPECT_EQ(job.ended(), "no space left");
  job.start([] {});
  job.wait();
  EXPECT_EQ(job.ended(), "") << "of the job before";
}

TEST(BackgroundJob, TheNextJobAndTheEndWaitForTheOneBefore) {
  std::latch go(1);
  int order = 0, first = 0, second = 0;
  {
    BackgroundJob job;
    job.start([&] {
      go.wait();
      first = ++order;
    });
    std::thread opens([&] { go.count_down(); });
    job.start([&] { second = ++order; });
    opens.join();
  }
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(BackgroundJob, WhatTheJobHoldsIsGoneWhenItIsNotBusy) {
  auto memory = std::make_shared<int>(1);
  const std::weak_ptr<int> held = memory;
  BackgroundJob job;
  job.start([memory = std::move(memory)] {});
  while (job.busy()) std::this_thread::yield();
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace gossamer::apps
