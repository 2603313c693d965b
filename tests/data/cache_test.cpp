// Samples kept in memory: the same bytes without reading again, never more than the limit, nothing
// that could not be read.
#include "gossamer/data/cache.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

// Sample i is `size` bytes of value i; `broken` can't be read.
class Counting final : public Dataset {
 public:
  Counting(i64 count, std::size_t size) : reads(static_cast<std::size_t>(count)), size_(size) {}
  i64 size() const override { return static_cast<i64>(reads.size()); }
  int label(i64 i) const override { return static_cast<int>(i % 3); }
  std::string name(i64 i) const override { return std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    ++reads[static_cast<std::size_t>(i)];
    if (i == broken) throw DataError("7: can't be read");
    buffer.assign(size_, static_cast<std::byte>(i));
    return buffer;
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  mutable std::vector<std::atomic<int>> reads;
  i64 broken = -1;

 private:
  std::size_t size_;
  std::vector<std::string> classes_{"a", "b", "c"};
};

Bytes read(const Dataset& set, i64 i) {
  std::vector<std::byte> buffer;
  const auto bytes = set.bytes(i, buffer);
  return {bytes.begin(), bytes.end()};
}

TEST(Cache, ReadsEachSampleOnce) {
  const auto disk = std::make_shared<Counting>(20, 1000);
  const auto cache = std::make_shared<Cache>(1'000'000);
  const auto set = cached(disk, cache);
  EXPECT_EQ(set->size(), 20);
  EXPECT_EQ(set->label(5), 2);
  EXPECT_EQ(set->name(5), "5");
  EXPECT_EQ(set->classes(), disk->classes());
  for (int epoch = 0; epoch < 3; ++epoch)
    for (i64 i = 19; i >= 0; --i) ASSERT_EQ(read(*set, i), Bytes(1000, static_cast<std::byte>(i)));
  for (const auto& reads : disk->reads) EXPECT_EQ(reads, 1);
  EXPECT_EQ(cache->used(), 20'000u);
  EXPECT_FALSE(cache->full());
}

TEST(Cache, TakesNoMoreThanItsLimitForAllSetsTogether) {
  const auto one = std::make_shared<Counting>(10, 1000),
             other = std::make_shared<Counting>(10, 400);
  const auto cache = std::make_shared<Cache>(12'900);
  const auto first = cached(one, cache), second = cached(other, cache);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (i64 i = 0; i < 10; ++i) ASSERT_EQ(read(*first, i), Bytes(1000, static_cast<std::byte>(i)));
    for (i64 i = 0; i < 10; ++i) ASSERT_EQ(read(*second, i), Bytes(400, static_cast<std::byte>(i)));
  }
  EXPECT_EQ(cache->used(), 10'000u + 7 * 400u);
  EXPECT_TRUE(cache->full());
  for (i64 i = 0; i < 10; ++i) {
    EXPECT_EQ(one->reads[static_cast<std::size_t>(i)], 1);
    EXPECT_EQ(other->reads[static_cast<std::size_t>(i)], i < 7 ? 1 : 3) << i;
  }
  EXPECT_EQ(Cache(0).take(1), nullptr);
}

// Blocks are of 64 MB, or as large as their only sample; what is left of one may be too little for
// the next sample.
TEST(Cache, SamplesOfAllSizesLieApart) {
  Cache cache(300 << 20);
  std::vector<std::pair<std::byte*, std::size_t>> taken;
  for (const std::size_t size :
       {30u << 20, 30u << 20, 30u << 20, 1u, 64u << 20, 70u << 20, 64u << 20, 30u << 20, 1000u})
    if (std::byte* at = cache.take(size)) {
      at[0] = at[size - 1] = std::byte{1};
      taken.emplace_back(at, size);
    }
  // 64 + 64 + 64 + 70 are taken when 64 are wanted; 38 are left for the others
  ASSERT_EQ(taken.size(), 8u);
  EXPECT_TRUE(cache.full());
  std::ranges::sort(taken);
  for (std::size_t k = 1; k < taken.size(); ++k)
    EXPECT_LE(taken[k - 1].first + taken[k - 1].second, taken[k].first) << k;
}

TEST(Cache, WhatCannotBeReadIsTriedAgain) {
  const auto disk = std::make_shared<Counting>(10, 1000);
  const auto cache = std::make_shared<Cache>(1'000'000);
  const auto set = cached(disk, cache);
  disk->broken = 7;
  EXPECT_THROW(read(*set, 7), DataError);
  EXPECT_THROW(read(*set, 7), DataError);
  EXPECT_EQ(cache->used(), 0u);
  disk->broken = -1;
  EXPECT_EQ(read(*set, 7), Bytes(1000, std::byte{7}));
  disk->broken = 7;  // it is in memory now
  EXPECT_EQ(read(*set, 7), Bytes(1000, std::byte{7}));
}

TEST(Cache, ThreadsThatMeetAtASampleGetItsBytes) {
  const auto disk = std::make_shared<Counting>(200, 5000);
  const auto cache = std::make_shared<Cache>(600'000);  // not for all
  const auto set = cached(disk, cache);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> crew;
    for (int t = 0; t < 4; ++t)
      crew.emplace_back([&] {
        std::vector<std::byte> buffer;
        for (int epoch = 0; epoch < 5; ++epoch)
          for (i64 i = 0; i < set->size(); ++i)
            wrong +=
                !std::ranges::equal(set->bytes(i, buffer), Bytes(5000, static_cast<std::byte>(i)));
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache->used(), 600'000u);
}

// The loader gives the same batches; of the second epoch it reads nothing, not even when the file
// is gone.
TEST(Cache, FeedsTheLoaderWhenTheFilesAreGone) {
  const TempFolder folder;
  for (int i = 0; i < 12; ++i)
    folder.write("n0" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg",
                 encode_jpeg(pattern(40 + i, 40)));
  const LoaderOptions options{.batch = 4,
                              .size = 24,
                              .augment = Augment::resized_crop_flip,
                              .threads = 2,
                              .epoch = {.seed = 3}};
  const auto epoch = [](Loader& loader) {
    std::vector<std::uint8_t> all;
    for (Batch b = loader.next(); b.labels.defined(); b = loader.next()) {
      const auto pixels = b.images.span<std::uint8_t>();
      all.insert(all.end(), pixels.begin(), pixels.end());
    }
    return all;
  };
  const auto files = open(std::vector{folder.str()});
  const auto cache = std::make_shared<Cache>(1'000'000);
  Loader plain(files, options);
  std::vector<std::vector<std::uint8_t>> wanted{epoch(plain), epoch(plain)};
  const auto set = cached(files, cache);
  std::vector<std::byte> buffer;
  for (i64 i = 0; i < set->size(); ++i) set->bytes(i, buffer);
  for (const std::string name : {"n00", "n01"}) std::filesystem::remove_all(folder / name);
  Loader kept(set, options);
  EXPECT_EQ(epoch(kept), wanted[0]);
  EXPECT_EQ(epoch(kept), wanted[1]);
}

}  // namespace
}  // namespace gossamer::data
