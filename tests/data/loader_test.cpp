// The loader: every image once, the same batches whatever the threads do, exact seek, damage
// replaced and named, memory reused.
#include "gossamer/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include "data/fake_set.h"
#include "data/helpers.h"
#include "gossamer/core/memory.h"
#include "gossamer/data/loader/affinity.h"
#include "gossamer/data/loader/epoch.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> labels(const std::vector<Copy>& batches) {
  std::vector<int> all;
  for (const Copy& b : batches) all.insert(all.end(), b.labels.begin(), b.labels.end());
  return all;
}

TEST(EpochOrder, IsAPermutationThatDependsOnSeedEpochAndRank) {
  const auto a = epoch_order(1000, {.rank = 0, .world = 4, .seed = 1}, 0);
  auto sorted = a;
  std::ranges::sort(sorted);
  for (i64 i = 0; i < 1000; ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(a, epoch_order(1000, {.rank = 0, .world = 4, .seed = 1}, 0));
  EXPECT_NE(a, epoch_order(1000, {.rank = 0, .world = 4, .seed = 2}, 0));
  EXPECT_NE(a, epoch_order(1000, {.rank = 0, .world = 4, .seed = 1}, 1));
  EXPECT_NE(a, epoch_order(1000, {.rank = 1, .world = 4, .seed = 1}, 0));
  EXPECT_TRUE(std::ranges::is_sorted(
      epoch_order(1000, {.rank = 0, .world = 1, .shuffle = false, .seed = 1}, 0)));
}

TEST(EpochOrder, ShardsCoverEveryIndexOnce) {
  std::vector<i64> all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto part =
        epoch_order(100, {.rank = rank, .world = 3, .share = Share::parts, .seed = 5}, 2);
    EXPECT_EQ(part.size(), rank == 0 ? 34u : 33u);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all);
  for (i64 i = 0; i < 100; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
}

TEST(Loader, GivesEveryImageOnceAnEpochAndThenAnEmptyBatch) {
  Loader loader(std::make_shared<Fake>(50),
                {.batch = 8, .size = 16, .threads = 2, .epoch = {.drop_last = false, .seed = 3}});
  EXPECT_EQ(loader.steps(), 7);
  const auto first = epoch(loader), second = epoch(loader);
  EXPECT_EQ(loader.epoch(), 2);
  ASSERT_EQ(first.size(), 7u);
  EXPECT_EQ(first.back().labels.size(), 2u);
  EXPECT_EQ(first[0].images.size(), 8u * 16 * 16 * 3);
  for (const auto& e : {first, second}) {
    auto seen = labels(e);
    std::ranges::sort(seen);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
  }
  EXPECT_NE(labels(first), labels(second));
  EXPECT_EQ(loader.stats().images, 100);
}

// Everything that draws random numbers, at once.
std::vector<PixelStep> all_steps() {
  return {ColourJitter{0.4, 0.4, 0.4, 0.1}, RandAugment{3, 9, Filter::bilinear},
          TrivialAugmentWide{}, RandomErasing{.probability = 0.5}};
}

// Without steps an image is made in its place, with them aside.
TEST(Loader, GivesTheSameBatchesWhateverItsThreads) {
  for (const Augment augment : {Augment::none, Augment::pad_crop_flip, Augment::resized_crop_flip})
    for (const auto& steps : {all_steps(), std::vector<PixelStep>{}}) {
      const auto set = std::make_shared<Fake>(60, std::set<i64>{7, 20, 21, 22, 59});
      set->slow = true;
      LoaderOptions options{.batch = 8,
                            .size = 20,
                            .augment = augment,
                            .steps = steps,
                            .threads = 1,
                            .epoch = {.seed = 9}};
      Loader one(set, options);
      std::vector<std::vector<Copy>> epochs;
      for (int e = 0; e < 3; ++e) epochs.push_back(epoch(one));
      for (const int threads : {2, 7}) {
        options.threads = threads;
        options.background = threads == 2;
        options.ahead = threads == 2 ? 4 : 2;
        Loader many(set, options);
        for (const auto& wanted : epochs) ASSERT_EQ(epoch(many), wanted) << threads << " threads";
        EXPECT_EQ(one.damaged(), many.damaged());
        EXPECT_EQ(one.stats().damaged, many.stats().damaged);
      }
    }
}

TEST(Loader, DrawsOtherAugmentationInEveryEpochAndForEveryRank) {
  const auto set = std::make_shared<Fake>(16);
  const LoaderOptions options{
      .batch = 16, .size = 20, .augment = Augment::resized_crop_flip, .epoch = {.shuffle = false}};
  Loader a(set, options);
  LoaderOptions other = options;
  other.epoch.rank = 1;
  other.epoch.world = 2;
  Loader b(set, other);
  const auto first = epoch(a), second = epoch(a), elsewhere = epoch(b);
  EXPECT_EQ(first[0].labels, second[0].labels);
  EXPECT_NE(first[0].images, second[0].images);
  EXPECT_NE(first[0].images, elsewhere[0].images);
}

TEST(Loader, SeeksExactly) {
  const auto set = std::make_shared<Fake>(40);
  const LoaderOptions options{.batch = 8,
                              .size = 20,
                              .augment = Augment::pad_crop_flip,
                              .steps = all_steps(),
                              .threads = 2,
                              .epoch = {.seed = 4}};
  Loader loader(set, options);
  epoch(loader);
  epoch(loader);
  const auto third = epoch(loader);
  Loader fresh(set, options);
  fresh.next();
  fresh.seek(2, 3);
  EXPECT_EQ(fresh.epoch(), 2);
  EXPECT_EQ(copy(fresh.next()), third[3]);
  EXPECT_EQ(copy(fresh.next()), third[4]);
  EXPECT_FALSE(fresh.next().images.defined());
  fresh.seek(2, 0);
  EXPECT_EQ(epoch(fresh), third);
  fresh.seek(1, 5);  // the very end of an epoch
  EXPECT_FALSE(fresh.next().images.defined());
  EXPECT_EQ(copy(fresh.next()), third[0]);
  EXPECT_THROW(fresh.seek(0, 6), ConfigError);
}

TEST(Loader, ChangesItsSizeBetweenBatchesAndKeepsItsPlace) {
  const auto set = std::make_shared<Fake>(40);
  const LoaderOptions options{.batch = 8,
                              .size = 32,
                              .augment = Augment::resized_crop_flip,
                              .steps = all_steps(),
                              .threads = 2,
                              .epoch = {.seed = 4}};
  Loader loader(set, options);
  loader.set_size(16);
  EXPECT_EQ(loader.size(), 16);
  std::vector<Copy> all;
  for (int i = 0; i < 3; ++i) {
    const Batch b = loader.next();
    EXPECT_EQ(b.images.shape(), Shape({8, 16, 16, 3}));
    all.push_back(copy(b));
  }
  loader.set_size(32);
  for (int i = 0; i < 2; ++i) {
    const Batch b = loader.next();
    EXPECT_EQ(b.images.shape(), Shape({8, 32, 32, 3}));
    all.push_back(copy(b));
  }
  EXPECT_FALSE(loader.next().images.defined());
  const auto order = epoch_order(40, {.rank = 0, .world = 1, .seed = 4}, 0);
  EXPECT_TRUE(std::ranges::equal(labels(all), order));  // none is lost or read twice
  // A run that goes on after batch 2, or 3, gets the same bytes.
  Loader resumed(set, options);
  resumed.set_size(16);
  resumed.seek(0, 2);
  EXPECT_EQ(copy(resumed.next()), all[2]);
  resumed.set_size(32);
  EXPECT_EQ(copy(resumed.next()), all[3]);
  EXPECT_THAT(error_of<ConfigError>([&] { loader.set_size(33); }),
              HasSubstr("size 33 after the start; it must be 1 … 32"));
  EXPECT_EQ(loader.size(), 32);
}

TEST(Loader, SeesAsMuchOfAPictureAtASmallerSize) {
  // Evaluation at 3/4 of the size: a flat edge of the resized picture lies where it lay.
  Image half = flat(64, 64, 0, 0, 0);
  for (int y = 0; y < 64; ++y)
    for (int x = 40; x < 64; ++x)
      std::fill_n(half.pixels.begin() + (y * 64 + x) * 3, 3, std::uint8_t{255});
  class One : public Fake {
   public:
    explicit One(const Image& image) : Fake(1), png_(make_png(image)) {}
    std::span<const std::byte> bytes(i64, std::vector<std::byte>&) const override { return png_; }
    Bytes png_;
  };
  Loader loader(std::make_shared<One>(half), {.batch = 1, .size = 128, .resize = 160});
  const auto edge = [&] {
    const Batch b =
        loader.next().images.defined() ? (loader.seek(0), loader.next()) : loader.next();
    const auto row =
        b.images.span<std::uint8_t>().first(static_cast<std::size_t>(b.images.shape(2)) * 3);
    int at = 0;
    while (row[static_cast<std::size_t>(at) * 3] < 128) ++at;
    return static_cast<double>(at) / static_cast<double>(b.images.shape(2));
  };
  const double whole = edge();
  loader.seek(0);
  loader.set_size(96);
  EXPECT_NEAR(edge(), whole, 1.0 / 96);
}

TEST(Loader, RunsOnTheCpusThatItIsGiven) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  const auto set = std::make_shared<Fake>(16);
  set->home = last;
  {
    Loader loader(
        set,
        {.batch = 8, .size = 16, .threads = 1, .ahead = 2, .background = false, .cpus = {last}});
    for (int i = 0; i < 6000 && set->reads < 16; ++i)
      // without next(): its thread reads alone
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(set->reads, 16);
    EXPECT_EQ(set->away, 0);  // the very first image too
  }
  const std::string text = error_of<ConfigError>(
      [&] { Loader loader(set, {.batch = 8, .size = 16, .threads = 2, .cpus = {1023}}); });
  EXPECT_THAT(text, HasSubstr("can't run on CPUs 1023"));
}

TEST(Affinity, ReadsListsOfCpusAndNodes) {
  EXPECT_THAT(parse_cpus("3,0-2,2"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parse_cpus("7"), ElementsAre(7));
  for (const char* wrong : {"", "a", "1-", "-1", "3-1", "1024", "1,,2", "node:", "node:x", "0x1"})
    EXPECT_THAT(error_of<ConfigError>([&] { parse_cpus(wrong); }), HasSubstr("cpus \"")) << wrong;
  EXPECT_THAT(error_of<ConfigError>([] { parse_cpus("node:1000"); }),
              HasSubstr("no CPUs of NUMA node 1000"));
  if (std::filesystem::exists("/sys/devices/system/node/node0/cpulist"))
    EXPECT_FALSE(parse_cpus("node:0").empty());
}

TEST(Loader, TellsHowFarAheadItIs) {
  const auto set = std::make_shared<Fake>(64);
  Loader loader(set, {.batch = 8, .size = 16, .threads = 2, .ahead = 3, .background = false});
  for (int i = 0; i < 6000 && loader.stats().ready < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(loader.stats().ready, 3);
  EXPECT_EQ(loader.stats().images, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // a thread that had no room wakes and counts its time
  loader.next();
  for (int i = 0; i < 6000 && loader.stats().idle_s < 0.02; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GE(loader.stats().idle_s, 0.02);
  EXPECT_LE(loader.stats().wait_s, loader.stats().idle_s + 1);
}

TEST(Loader, ShardsHaveAsManyStepsAsEachOther) {
  const auto set = std::make_shared<Fake>(35);
  std::vector<int> all;
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(
        set, {.batch = 4, .size = 16, .epoch = {.rank = rank, .world = 3, .share = Share::parts}});
    EXPECT_EQ(loader.steps(), 2);  // 11 or 12 images a rank
    const auto mine = labels(epoch(loader));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST(Loader, ShardsWithTheirLastBatchesCoverTheSetOnceEachEpoch) {
  const auto set = std::make_shared<Fake>(35);
  for (const bool shuffle : {false, true}) {
    std::vector<std::unique_ptr<Loader>> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      LoaderOptions o{.batch = 4, .size = 16, .threads = 2, .epoch = in_order(rank, 3)};
      o.epoch.shuffle = shuffle;
      ranks.push_back(std::make_unique<Loader>(set, o));
    }
    for (int e = 0; e < 2; ++e) {
      std::vector<int> all;
      for (auto& loader : ranks) {
        const auto mine = labels(epoch(*loader));
        all.insert(all.end(), mine.begin(), mine.end());
      }
      std::ranges::sort(all);
      ASSERT_EQ(all.size(), 35u);
      for (int i = 0; i < 35; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(Loader, ReplacesDamagedImagesByTheNextGoodOneAndNamesThemOnce) {
  const auto set = std::make_shared<Fake>(20, std::set<i64>{3, 4, 19});
  Loader loader(set, {.batch = 20, .size = 16, .threads = 2, .epoch = {.shuffle = false}});
  for (int e = 0; e < 2; ++e) {
    const auto batches = epoch(loader);
    EXPECT_EQ(batches[0].labels[2], 2);
    EXPECT_EQ(batches[0].labels[3], 5);
    EXPECT_EQ(batches[0].labels[4], 5);
    EXPECT_EQ(batches[0].labels[19], 0);  // after the last comes the first
  }
  EXPECT_EQ(loader.stats().damaged, 3);
  EXPECT_THAT(loader.damaged(), ElementsAre(HasSubstr("fake/3.jpg: damaged JPEG"),
                                            HasSubstr("fake/4.jpg: "), HasSubstr("fake/19.jpg: ")));
}

TEST(Loader, LeavesDamagedImagesOutWhenTheyAreNotReplaced) {
  const auto set = std::make_shared<Fake>(20, std::set<i64>{0, 3, 4, 8, 9, 10, 11, 19});
  Loader loader(set, {.batch = 4,
                      .size = 16,
                      .threads = 2,
                      .epoch = {.shuffle = false},
                      .replace_damaged = false});
  for (int e = 0; e < 2; ++e) {
    const auto batches = epoch(loader);
    ASSERT_EQ(batches.size(), 4u);  // 8 … 11 are all damaged
    EXPECT_EQ(labels(batches), (std::vector{1, 2, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18}));
    EXPECT_EQ(batches[0].images.size(), 2u * 16 * 16 * 3);
  }
  EXPECT_EQ(loader.stats().damaged, 8);
  EXPECT_EQ(loader.stats().images, 24);
  // The rows are those of the undamaged set.
  Loader whole(std::make_shared<Fake>(20), {.batch = 4, .size = 16, .epoch = {.shuffle = false}});
  loader.seek(0);
  const Batch first = loader.next(), unbroken = whole.next();
  EXPECT_THAT(first.samples, ElementsAre(1, 2));
  EXPECT_THAT(loader.next().samples, ElementsAre(5, 6, 7));
  EXPECT_TRUE(unbroken.samples.empty());
  const Copy got = copy(first), all = copy(unbroken);
  EXPECT_TRUE(
      std::ranges::equal(got.images, std::span(all.images).subspan(16 * 16 * 3, 2 * 16 * 16 * 3)));
}

TEST(Loader, GivesUpWhenAllImagesAreDamagedAndNotReplaced) {
  const auto set = std::make_shared<Fake>(8, std::set<i64>{0, 1, 2, 3, 4, 5, 6, 7});
  Loader loader(set,
                {.batch = 3, .size = 16, .epoch = {.drop_last = false}, .replace_damaged = false});
  EXPECT_THAT(error_of([&] { loader.next(); }),
              HasSubstr("8 images in a row are damaged, the first: fake/"));
  // One worker's part is no reason: others have the rest.
  Loader part(set, {.batch = 3,
                    .size = 16,
                    .epoch = {.world = 4, .share = Share::parts, .drop_last = false},
                    .replace_damaged = false});
  EXPECT_FALSE(part.next().images.defined());
  EXPECT_EQ(part.stats().damaged, 2);
}

TEST(Loader, HasNothingToDoWhenItsShardIsEmpty) {
  const auto set = std::make_shared<Fake>(2);
  Loader loader(set, {.batch = 4, .size = 16, .epoch = in_order(2, 3)});
  EXPECT_EQ(loader.steps(), 0);
  for (int e = 1; e < 3; ++e) {
    EXPECT_FALSE(loader.next().images.defined());
    EXPECT_EQ(loader.epoch(), e);
  }
  loader.seek(5);
  EXPECT_FALSE(loader.next().images.defined());
}

TEST(Loader, ShufflesInTheThreadThatCallsIt) {
  const auto set = std::make_shared<Fake>(40);
  Loader loader(set, {.batch = 4, .size = 16, .threads = 2});
  for (int e = 0; e < 4; ++e) epoch(loader);
  loader.seek(9, 3);
  loader.next();
  // an epoch's order begins with the size
  EXPECT_THAT(set->sized, ElementsAre(std::this_thread::get_id()));
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they need more address space than any limit
TEST(Loader, SaysThatAThreadCantBeStarted) {
  const auto set = std::make_shared<Fake>(8);
  struct Limit {
    rlimit old{};
    Limit() {
      getrlimit(RLIMIT_AS, &old);
      rlimit small = old;
      std::size_t pages = 0, stack = 0;
      std::ifstream("/proc/self/statm") >> pages;
      pthread_attr_t usual;
      pthread_getattr_default_np(&usual);
      pthread_attr_getstacksize(&usual, &stack);
      pthread_attr_destroy(&usual);
      // no room for 500 stacks
      small.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + 500 * stack / 4;
      setrlimit(RLIMIT_AS, &small);
    }
    ~Limit() { setrlimit(RLIMIT_AS, &old); }
  };
  std::string text;
  {
    const Limit limit;
    text = error_of<ConfigError>(
        [&] { Loader loader(set, {.batch = 2, .size = 16, .threads = 500}); });
  }
  EXPECT_THAT(text, AllOf(HasSubstr("of 500 can't be started"), HasSubstr("use fewer threads")));
}
#endif

TEST(Loader, StopsAtDamageWhenStrict) {
  const auto set = std::make_shared<Fake>(20, std::set<i64>{13});
  Loader loader(
      set, {.batch = 5, .size = 16, .threads = 2, .epoch = {.shuffle = false}, .strict = true});
  loader.next();
  loader.next();
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { loader.next(); }),
                AllOf(HasSubstr("fake/13.jpg: damaged"), HasSubstr("strict")));
  loader.seek(0, 3);
  EXPECT_EQ(loader.next().labels.as<std::int32_t>()[0], 15);
}

TEST(Loader, GivesUpWhenAllImagesAreDamaged) {
  Loader loader(std::make_shared<Fake>(8, std::set<i64>{0, 1, 2, 3, 4, 5, 6, 7}),
                {.batch = 4, .size = 16});
  EXPECT_THAT(error_of([&] { loader.next(); }),
              HasSubstr("8 images in a row are damaged, the first: fake/"));
}

TEST(Loader, PassesOtherExceptionsOfItsThreadsOn) {
  const auto set = std::make_shared<Fake>(20);
  set->broken = 7;
  Loader loader(set, {.batch = 5, .size = 16, .threads = 2, .epoch = {.shuffle = false}});
  loader.next();
  EXPECT_EQ(error_of<std::runtime_error>([&] { loader.next(); }), "the disk is on fire");
}

// A user's data set may throw in any function, in threads of low priority and in others; the rest
// of the epoch goes on.
TEST(Loader, PassesOnWhatALabelThrows) {
  for (const bool background : {false, true}) {
    const auto set = std::make_shared<Fake>(20);
    set->nameless = 7;
    Loader loader(set, {.batch = 5,
                        .size = 16,
                        .threads = 3,
                        .epoch = {.shuffle = false},
                        .background = background});
    loader.next();
    EXPECT_EQ(error_of<std::out_of_range>([&] { loader.next(); }), "no label");
    loader.seek(0, 2);
    EXPECT_EQ(labels(epoch(loader)), (std::vector<int>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  }
}

TEST(Loader, ReusesItsMemory) {
  const auto set = std::make_shared<Fake>(64);
  const std::size_t before = memory_stats().in_use;
  Loader loader(set, {.batch = 8, .size = 32, .threads = 2, .ahead = 3});
  std::set<const void*> blocks;
  for (int e = 0; e < 20; ++e)
    for (Batch b = loader.next(); b.images.defined(); b = loader.next())
      blocks.insert(b.images.data());
  // ahead + threads, and the two that the loop above holds for a moment. 160 batches went through.
  EXPECT_LE(blocks.size(), 7u);
  EXPECT_LE(memory_stats().in_use, before + 7 * (8 * 32 * 32 * 3 + 4096));
}

TEST(Loader, KeepsBatchesThatTheUserHoldsUntouched) {
  const auto set = std::make_shared<Fake>(32);
  std::vector<Batch> held;
  std::vector<Copy> wanted;
  {
    Loader loader(set, {.batch = 4, .size = 16, .threads = 2, .ahead = 1});
    for (int i = 0; i < 12; ++i) {
      Batch b = loader.next();
      if (!b.images.defined()) b = loader.next();
      wanted.push_back(copy(b));
      held.push_back(std::move(b));
    }
  }
  // also when the loader is gone
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(copy(held[i]), wanted[i]);
}

TEST(Loader, EndsAtOnceWhateverItsThreadsAreDoing) {
  const auto set = std::make_shared<Fake>(200);
  set->slow = true;
  for (int i = 0; i < 20; ++i) {
    Loader loader(set, {.batch = 50, .size = 16, .threads = 3, .ahead = 4});
    if (i % 2) loader.next();
    if (i % 3 == 0) loader.seek(5, 1);
  }
  set->slowest = true;
  set->reads = 0;
  {
    Loader loader(set, {.batch = 200, .size = 16, .threads = 3});
    for (int i = 0; i < 6000 && set->reads < 3; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(set->reads, 3);
  EXPECT_LT(set->reads, 100) << "it waited for the batch of 200 that they were at";
}

TEST(Loader, DoesNotRunFartherAheadThanAsked) {
  const auto set = std::make_shared<Fake>(400);
  Loader loader(set, {.batch = 10, .size = 16, .threads = 2, .ahead = 3});
  for (int i = 0; i < 6000 && set->reads < 30; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(set->reads, 30);
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto set = std::make_shared<Fake>(4);
  const auto refusal = [&](LoaderOptions o) {
    return error_of<ConfigError>([&] { Loader loader(set, o); });
  };
  EXPECT_THAT(refusal({.batch = 0}), HasSubstr("batch 0"));
  EXPECT_THAT(refusal({.batch = 5, .size = 16}), HasSubstr("4 images don't fill one batch of 5"));
  EXPECT_THAT(refusal({.batch = 2, .size = 64, .resize = 32}),
              HasSubstr("resize 32 is smaller than size 64"));
  EXPECT_THAT(refusal({.batch = 2, .threads = 0}), HasSubstr("0 threads"));
  EXPECT_THAT(refusal({.batch = 2, .steps = {RandAugment{.magnitude = 31}}}),
              HasSubstr("rand-augment: magnitude 31; use 0 to 30"));
  EXPECT_THAT(refusal({.batch = 2, .epoch = {.rank = 2, .world = 2}}), HasSubstr("rank 2 of 2"));
}

}  // namespace
}  // namespace gossamer::data
