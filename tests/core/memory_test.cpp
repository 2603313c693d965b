// The caching allocator: reuse, statistics, alignment, threads.
#include "gossamer/core/memory.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/poison.h"
#include "gossamer/core/tensor.h"

namespace gossamer {
namespace {

TEST(Allocator, GivesTheNewestFreedBlockBackFirst) {
  release_cached();
  auto a = allocate(10000), b = allocate(10000);
  void *pa = a->data, *pb = b->data;
  EXPECT_NE(pa, pb);
  a.reset();
  b.reset();
  EXPECT_EQ(allocate(10000)->data, pb);
  auto c = allocate(10000), d = allocate(10000);
  EXPECT_EQ(c->data, pb);
  EXPECT_EQ(d->data, pa);
}

TEST(Allocator, ReusesALittleLargerBlocksButNotMuchLargerOnes) {
  release_cached();
  auto a = allocate(1 << 20);
  void* pa = a->data;
  a.reset();
  EXPECT_NE(allocate(1 << 10)->data, pa) << "a KiB must not take a MiB";
  EXPECT_EQ(allocate((1 << 20) - (1 << 17))->data, pa);
}

TEST(Allocator, CountsWhatIsInUseCachedAndAtThePeak) {
  release_cached();
  const MemoryStats before = memory_stats();
  EXPECT_EQ(before.cached, 0u);
  reset_peak();
  auto a = allocate(5 << 20);
  const std::size_t grown = memory_stats().in_use - before.in_use;
  EXPECT_GE(grown, std::size_t{5} << 20);
  EXPECT_LE(grown, std::size_t{6} << 20);
  a.reset();
  EXPECT_EQ(memory_stats().in_use, before.in_use);
  EXPECT_EQ(memory_stats().cached, grown);
  EXPECT_EQ(memory_stats().peak, before.in_use + grown);
  reset_peak();
  EXPECT_EQ(memory_stats().peak, before.in_use);
  release_cached();
  EXPECT_EQ(memory_stats().cached, 0u);
}

TEST(Allocator, AsksTheSystemForNothingInASteadyState) {
  const auto step = [] {
    std::vector<Tensor> kept;
    for (int i = 1; i < 40; ++i) {
      kept.push_back(Tensor::empty({i * 1000}));
      if (i % 3 == 0) kept.erase(kept.begin());
    }
  };
  step();
  const std::size_t asked = memory_stats().allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(memory_stats().allocations, asked);
}

TEST(Allocator, AlignsBlocksForVectorLoadsAndHugePages) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{5000},
                                  std::size_t{1} << 20, std::size_t{3} << 20}) {
    const auto block = allocate(bytes);
    EXPECT_GE(block->bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data) %
                  (bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 64),
              0u)
        << bytes;
    std::memset(block->data, 0xab, block->bytes);
  }
  EXPECT_NE(allocate(0)->data, nullptr);
}

TEST(Allocator, SaysWhichDeviceOrHowMuchItCouldNotGive) {
  try {
    allocate(16, Device::cuda(1));
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("cuda:1"), std::string::npos) << e.what();
  }
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers end the process instead of returning null
  try {
    allocate(std::size_t{1} << 60);
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("out of memory"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("smaller batch"), std::string::npos) << e.what();
  }
#endif
}

TEST(Allocator, FillsWhatItGivesAndWhatComesBackWithNaNWherePoisoned) {
  const bool before = memory_is_poisoned();
  const auto is_nan = [](const Tensor& t) {
    for (const float v : t.to(DType::f32).span<float>())
      if (!std::isnan(v)) return false;
    return true;
  };
  poison_memory(true);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Tensor t = Tensor::empty({1000}, type);
    EXPECT_TRUE(is_nan(t)) << "fresh, " << type;
    t.fill(1);
    const void* const at = t.data();
    t = {};
    EXPECT_EQ(static_cast<const unsigned char*>(at)[0], kPoison) << "in the cache";
    t = Tensor::empty({1000}, type);
    EXPECT_TRUE(is_nan(t)) << "given out again, " << type;
  }
  EXPECT_EQ(*Tensor::empty({4}, DType::i32).as<std::int32_t>(), -1);
  EXPECT_EQ(*Tensor::zeros({4}).as<float>(), 0);
  poison_memory(before);
}

TEST(Allocator, ServesManyThreadsWithoutHandingABlockOutTwice) {
  std::vector<std::thread> threads;
  std::vector<int> damaged(4);
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::shared_ptr<Block>> mine;
      for (int i = 0; i < 2000; ++i) {
        mine.push_back(allocate(static_cast<std::size_t>(512 * (1 + i % 5))));
        std::memset(mine.back()->data, static_cast<int>(t), 512);
        if (mine.size() > 8) {
          for (int k = 0; k < 512; ++k)
            damaged[t] += static_cast<unsigned char*>(mine.front()->data)[k] != t;
          mine.erase(mine.begin());
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(damaged, (std::vector<int>(4)));
}

TEST(FreeMemory, IsWhatTheMachineAndTheContainerLeave) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "gossamer-memory-XXXXXX").string();
  const fs::path root = mkdtemp(pattern.data());
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  EXPECT_EQ(free_main_memory(root.string()), std::numeric_limits<std::size_t>::max());
  write("proc/meminfo",
        "MemTotal:       900 kB\nMemAvailable:   500 kB\nSwapTotal: 9 kB\nSwapFree:  20 kB\n");
  EXPECT_EQ(free_main_memory(root.string()), 520u * 1024);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "300000\n");
  EXPECT_EQ(free_main_memory(root.string()), 520u * 1024);
  write("sys/fs/cgroup/memory.max", "400000\n");
  write("sys/fs/cgroup/memory.stat", "anon 100000\nfile 200000\n");
  EXPECT_EQ(free_main_memory(root.string()), 300000u);
  write("sys/fs/cgroup/memory.current", "900000\n");
  EXPECT_EQ(free_main_memory(root.string()), 0u);
  fs::remove_all(root);
  EXPECT_GT(free_main_memory(), std::size_t{1} << 20);
}

TEST(Allocator, RefusesMoreThanThereIs) {
  const std::size_t left = free_main_memory();
  if (left > std::size_t{1} << 46) GTEST_SKIP() << "this machine does not say";
  EXPECT_THROW(allocate(2 * left + (std::size_t{1} << 30)), OutOfMemory);
}

}  // namespace
}  // namespace gossamer
