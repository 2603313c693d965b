// Programs that call exit() while other threads compute.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gossamer::testing {

// `rounds` times a process of its own, whose threads call works[i](turn) for ever and whose main
// thread exits when each has returned `turns` times. None may end otherwise.
inline void expect_clean_exits(int rounds, int turns,
                               const std::vector<std::function<void(int)>>& works) {
  for (int round = 0; round < rounds; ++round) {
    std::fflush(nullptr);
    const pid_t id = fork();
    ASSERT_GE(id, 0);
    if (id == 0) {
      alarm(300);
      std::atomic<int> done{0};
      for (const auto& work : works)
        std::thread([&] {
          for (int turn = 0;; ++turn) {
            work(turn);
            if (turn + 1 == turns) ++done, done.notify_one();
          }
        }).detach();
      for (int n = done; n < static_cast<int>(works.size()); n = done) done.wait(n);
      std::exit(7);
    }
    int status = 0;
    ASSERT_EQ(waitpid(id, &status, 0), id);
    ASSERT_TRUE(WIFEXITED(status)) << "round " << round << ": signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 7) << "round " << round;
  }
}

}  // namespace gossamer::testing
