// parallel_for, how many threads it uses, and how many it starts.
#include "gossamer/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/core/backend.h"
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

TEST(ParallelFor, RethrowsTheExceptionOfTheFirstPieceAfterAllHaveEnded) {
  const Threads use(4);
  std::atomic<int> ended = 0;
  try {
    parallel_for(4, 1, [&](i64 begin, i64) {
      ++ended;
      throw std::runtime_error(std::to_string(begin));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "0");
    EXPECT_EQ(ended, 4);
  }
}

// The pieces wait for one another, so they must run at the same time.
TEST(ParallelFor, RunsItsPiecesAtTheSameTimeOnDifferentThreads) {
  for (const int threads : {2, 4, 2, 3}) {
    const Threads use(threads);
    std::mutex mutex;
    std::condition_variable all;
    std::set<std::thread::id> ids;
    parallel_for(threads, 1, [&](i64, i64) {
      std::unique_lock lock(mutex);
      ids.insert(std::this_thread::get_id());
      all.notify_all();
      all.wait(lock, [&] { return static_cast<int>(ids.size()) == threads; });
    });
    EXPECT_EQ(ids.count(std::this_thread::get_id()), 1u) << "the caller has a piece";
  }
}

TEST(ParallelFor, TakesCallsOfManyThreadsAtOnceWhichNestThrowAndChangeTheirThreads) {
  std::vector<std::thread> callers;
  std::atomic<i64> wrong = 0;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&, c] {
      std::vector<i64> sums(16);
      for (int round = 0; round < 300; ++round) {
        const int threads = 1 + (c + round) % 5;
        set_compute_threads(threads);
        std::fill(sums.begin(), sums.end(), 0);
        const auto body = [&](i64 begin, i64 end) {
          for (i64 i = begin; i < end; ++i)
            parallel_for(10, 1, [&](i64 b, i64 e) { sums[static_cast<std::size_t>(i)] += e - b; });
          if (round % 7 == 0) throw std::runtime_error("planned");
        };
        try {
          parallel_for(16, 1, body);
          wrong += round % 7 == 0;
        } catch (const std::runtime_error&) {
          wrong += round % 7 != 0;
        }
        wrong += std::ranges::count(sums, 10) != 16;
      }
    });
  for (auto& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

// Names of the threads of this process, with those that may get signals.
struct TaskList {
  int compute = 0, others = 0, signalled = 0;
};
TaskList tasks() {
  TaskList out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "status");
    bool ours = false;
    for (std::string line; std::getline(in, line);) {
      if (line == "Name:\tgsm-compute") ours = true;
      if (ours && line.starts_with("SigBlk:"))
        out.signalled += (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) == 0;
    }
    ++(ours ? out.compute : out.others);
  }
  return out;
}

template <class Body>
int exit_code_of_child(Body&& body) {  // which begins without a pool
  const pid_t pid = fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void loop_on(int threads) {
  set_compute_threads(threads);
  std::atomic<i64> sum = 0;
  parallel_for(1000, 1, [&](i64 begin, i64 end) { sum += end - begin; });
  check<Error>(sum == 1000, "a loop lost pieces");
}

TEST(ComputePool, StartsThreadsOnDemandAndOnceForAllCallers) {
  EXPECT_EQ(exit_code_of_child([] {
              if (tasks().compute != 0) return 1;
              loop_on(1);
              if (tasks().compute != 0) return 2;
              loop_on(4);
              if (tasks().compute != 3) return 3;
              loop_on(3);
              for (int i = 0; i < 20; ++i) std::thread([] { loop_on(4); }).join();
              if (tasks().compute != 3) return 4;
              return tasks().signalled == 0 ? 0 : 5;
            }),
            0);
}

// The CPU engine's convolution and gemm run on our threads: a thread of OpenMP would be one of the
// others.
TEST(ComputePool, TheBackendsStartNoOtherThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan starts a thread of its own";
#endif
  EXPECT_EQ(exit_code_of_child([] {
              set_compute_threads(3);
              const int before = tasks().others;
              const Tensor x = Tensor::full({6, 16, 16, 16}, 1),
                           w = Tensor::full({32, 3, 3, 16}, 1), a = Tensor::full({256, 256}, 1);
              Tensor c = Tensor::empty({256, 256}), y = Tensor::empty({6, 8, 8, 32}),
                     dx = Tensor::empty(x.shape()), dw = Tensor::empty(w.shape());
              const ConvGeometry g{6, 16, 16, 16, 32, 3, 3, 8, 8, 2, 1, 1, 1};
              Backend& cpu = backend(Device{});
              cpu.gemm(false, true, a, a, c, false);
              cpu.conv(g, x, w, y);
              cpu.conv_dx(g, y, w, dx);
              cpu.conv_dw(g, x, y, dw);
              if (c.as<float>()[0] != 256) return 1;
              return tasks().others == before ? 0 : 2;
            }),
            0);
}

TEST(ComputePool, AForkedChildHasThreadsOfItsOwn) {
  loop_on(4);
  EXPECT_EQ(exit_code_of_child([] {
              loop_on(4);
              return tasks().compute == 3 ? exit_code_of_child([] {
                loop_on(2);
                return tasks().compute == 1 ? 0 : 1;
              })
                                          : 2;
            }),
            0);
  loop_on(4);
}

TEST(ComputePool, AChildMayBeForkedWhileOtherThreadsCompute) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan loses count of the threads of such children";
#endif
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) loop_on(3);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(exit_code_of_child([] { return loop_on(3), 0; }), 0);
  stop = true;
  other.join();
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
