// The caching allocator of device memory, with a device that only counts: stream order, other
// streams, splitting, giving back. And what the GPU's interface says where there is no GPU.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cuda_pool.h"
#include "gossamer/core/error.h"
#include "gossamer/core/tensor.h"

namespace gossamer::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Hands out addresses that are never read; marks pass when the test says so.
class FakeSystem : public PoolSystem {
 public:
  std::size_t limit = ~std::size_t{0}, total = 0, calls = 0, marks = 0;
  std::set<std::uintptr_t> passed_marks;
  std::map<char*, std::size_t> segments;

  void* allocate(std::size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    if (total + bytes > limit) return nullptr;
    ++calls;
    total += bytes;
    char* const data = next_;
    next_ += bytes + 4 * kMiB;  // a gap: neighbours of two segments never touch
    segments[data] = bytes;
    return data;
  }
  void free(void* segment) override {
    const std::scoped_lock lock(mutex_);
    const auto it = segments.find(static_cast<char*>(segment));
    ASSERT_NE(it, segments.end()) << "freed what was never given, or twice";
    total -= it->second;
    segments.erase(it);
  }
  void* mark(void*) override { return reinterpret_cast<void*>(++marks); }
  bool passed(void* mark) override {
    return passed_marks.contains(reinterpret_cast<std::uintptr_t>(mark));
  }
  void drop(void*) override { ++dropped; }
  std::size_t dropped = 0;

 private:
  std::mutex mutex_;
  char* next_ = reinterpret_cast<char*>(std::uintptr_t{1} << 32);
};

int stream_a, stream_b;
void* const A = &stream_a;
void* const B = &stream_b;

TEST(CachingPool, GivesMemoryBackAtOnceToTheSameStreamOnly) {
  FakeSystem system;
  CachingPool pool(system);
  void* const first = pool.take(40 * kMiB, A);
  pool.give(first);
  void* const other = pool.take(40 * kMiB, B);
  EXPECT_NE(other, first) << "stream B may not write what stream A may still read";
  EXPECT_EQ(pool.take(40 * kMiB, A), first);
  EXPECT_EQ(system.calls, 2u);
  pool.give(first);
  pool.give(other);
}

TEST(CachingPool, WaitsForWhatAnotherStreamStillDoesWithIt) {
  FakeSystem system;
  CachingPool pool(system);
  void* const data = pool.take(40 * kMiB, A);
  EXPECT_TRUE(pool.used_on(static_cast<char*>(data) + 1000, B)) << "an address inside counts";
  pool.give(data);
  void* const second = pool.take(40 * kMiB, A);
  EXPECT_NE(second, data) << "B is not done";
  system.passed_marks.insert(1);
  EXPECT_EQ(pool.take(40 * kMiB, A), data);
  EXPECT_EQ(system.dropped, 1u);
  int elsewhere = 0;
  EXPECT_FALSE(pool.used_on(&elsewhere, B));
  pool.give(data);
  pool.give(second);
}

TEST(CachingPool, UseOnTheOwnStreamNeedsNoMark) {
  FakeSystem system;
  CachingPool pool(system);
  void* const data = pool.take(1000, A);
  EXPECT_TRUE(pool.used_on(data, A));
  EXPECT_EQ(system.marks, 0u);
  pool.give(data);
  EXPECT_EQ(pool.take(1000, A), data);
  pool.give(data);
}

TEST(CachingPool, CutsSegmentsAndJoinsThePiecesAgain) {
  FakeSystem system;
  CachingPool pool(system);
  std::vector<void*> pieces;
  for (int i = 0; i < 8; ++i) pieces.push_back(pool.take(4 * kMiB, A));
  EXPECT_EQ(system.calls, 1u) << "eight times 4 MiB are one segment of 32";
  for (std::size_t i = 1; i < pieces.size(); ++i)
    EXPECT_EQ(static_cast<char*>(pieces[i]) - static_cast<char*>(pieces[i - 1]),
              std::ptrdiff_t(4 * kMiB));
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4}) pool.give(pieces[static_cast<std::size_t>(i)]);
  EXPECT_EQ(pool.largest_free(), 32 * kMiB);
  EXPECT_EQ(pool.stats().cached, 32 * kMiB);
  pool.release();
  EXPECT_EQ(system.total, 0u);
  EXPECT_EQ(pool.stats().cached, 0u);
}

TEST(CachingPool, DoesNotCutALargePieceForSomethingMuchSmaller) {
  FakeSystem system;
  CachingPool pool(system);
  void* const large = pool.take(400 * kMiB, A);
  pool.give(large);
  void* const small = pool.take(20 * kMiB, A);
  EXPECT_NE(small, large);
  EXPECT_EQ(pool.take(300 * kMiB, A), large);
  pool.give(small);
  pool.give(large);
}

TEST(CachingPool, GivesItsCacheBackBeforeItSaysThatThereIsNoMemory) {
  FakeSystem system;
  system.limit = 100 * kMiB;
  CachingPool pool(system);
  void* const a = pool.take(60 * kMiB, A);
  pool.give(a);
  void* const b = pool.take(90 * kMiB, A);
  ASSERT_NE(b, nullptr) << "60 MiB were only cached";
  EXPECT_EQ(pool.take(20 * kMiB, A), nullptr);
  EXPECT_EQ(pool.stats().in_use, 90 * kMiB);
  pool.give(b);
}

// A recorded graph knows the addresses of what its work has freed again: no other work may get that
// memory while the graph lives.
TEST(CachingPool, OfAGraphGivesNothingBackBeforeItsEnd) {
  FakeSystem system;
  {
    CachingPool pool(system, CachingPool::Cache::kept);
    system.limit = 100 * kMiB;
    pool.give(pool.take(40 * kMiB, A));
    EXPECT_EQ(pool.take(80 * kMiB, A), nullptr);
    pool.release();
    EXPECT_EQ(system.segments.size(), 1u);
  }
  EXPECT_TRUE(system.segments.empty());
}

TEST(CachingPool, AsksForNothingInASteadyState) {
  FakeSystem system;
  CachingPool pool(system);
  const auto step = [&] {
    std::vector<void*> kept;
    for (std::size_t i = 1; i < 60; ++i) {
      kept.push_back(pool.take(i * i * 3000, A));
      if (i % 3 == 0) pool.give(kept[i / 3]), kept[i / 3] = nullptr;
    }
    for (void* data : kept)
      if (data) pool.give(data);
  };
  step();
  step();
  const std::size_t calls = system.calls;
  const std::size_t peak = pool.stats().peak;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(system.calls, calls);
  EXPECT_EQ(pool.stats().peak, peak);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(CachingPool, PiecesOfManyThreadsNeverOverlap) {
  FakeSystem system;
  CachingPool pool(system);
  std::mutex mutex;
  std::map<char*, std::size_t> out;
  const auto work = [&](int seed, void* stream) {
    std::vector<std::pair<char*, std::size_t>> mine;
    unsigned state = static_cast<unsigned>(seed);
    const auto give_last = [&] {
      char* const data = mine.back().first;
      mine.pop_back();
      {
        const std::scoped_lock lock(mutex);
        out.erase(data);
      }
      pool.give(data);
    };
    for (int i = 0; i < 500; ++i) {
      state = state * 1664525u + 1013904223u;
      if (mine.size() > 20 || (state >> 30) == 0) {
        if (!mine.empty()) give_last();
        continue;
      }
      const std::size_t bytes = (state >> 8) % (3 * kMiB) + 1;
      char* const data = static_cast<char*>(pool.take(bytes, stream));
      const std::scoped_lock lock(mutex);
      const auto after = out.lower_bound(data);
      if (after != out.end()) EXPECT_LE(data + bytes, after->first);
      if (after != out.begin()) EXPECT_LE(std::prev(after)->first + std::prev(after)->second, data);
      out[data] = bytes;
      mine.emplace_back(data, bytes);
    }
    while (!mine.empty()) give_last();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t + 1, t % 2 ? A : B);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
  pool.release();
  EXPECT_EQ(system.total, 0u);
}

TEST(CachingPool, TheUseOfSeveralPoolsIsCountedTogether) {
  FakeSystem system;
  Usage usage;
  CachingPool eager(system, CachingPool::Cache::returned, &usage),
      graph(system, CachingPool::Cache::kept, &usage);
  void* const weights = eager.take(40 * kMiB, A);
  void* const work = graph.take(60 * kMiB, A);
  graph.give(work);
  void* const later = eager.take(20 * kMiB, A);
  EXPECT_EQ(usage.in_use(), 60 * kMiB);
  EXPECT_EQ(usage.peak(), 100 * kMiB) << "the two of the same time";
  usage.reset_peak();
  EXPECT_EQ(usage.peak(), 60 * kMiB);
  eager.give(weights);
  eager.give(later);
  EXPECT_EQ(usage.in_use(), 0u);
}

TEST(NoGpu, EverythingThatNeedsOneSaysWhy) {
  if (device_count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(why_none().empty());
  const auto expect_text = [](auto&& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DeviceError& e) {
      EXPECT_NE(std::string(e.what()).find(why_none()), std::string::npos) << e.what();
    }
  };
  expect_text([] { (void)Tensor::empty({4}, DType::f32, Device::cuda()); });
  expect_text([] { (void)Tensor::zeros({4}).to(Device::cuda()); });
  expect_text([] { (void)backend(Device::cuda()); });
  expect_text([] { (void)properties(Device::cuda()); });
  expect_text([] { const Stream stream(Device::cuda()); });
  const auto pinned = allocate_pinned(100);
  ASSERT_NE(pinned, nullptr);
  EXPECT_TRUE(pinned->device.is_cpu());
  std::memset(pinned->data, 1, 100);
  EXPECT_EQ(waits(), 0u);
}

}  // namespace
}  // namespace gossamer::cuda
