// A common order dealt out: every batch of every epoch comes once, whoever comes and goes.
#include "gossamer/data/loader/deal.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/fake_set.h"
#include "gossamer/core/random.h"
#include "gossamer/data/loader/walk.h"

namespace gossamer::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Place = std::pair<i64, i64>;  // epoch, batch
Place place(const Position& p) { return {p.epoch, p.step}; }
std::vector<Place> places(const std::vector<Position>& all) {
  std::vector<Place> out;
  for (const Position& p : all) out.push_back(place(p));
  return out;
}
std::vector<Place> own(const Deal& deal, i64 batches) {
  std::vector<Place> out;
  for (i64 j = 0; j < batches; ++j) out.push_back(place(deal.batch(j)));
  return out;
}

TEST(Deal, AStepTakesAsManyHoweverManyShareIt) {
  EXPECT_THAT(own(Deal({}, 12, 6, 1, 2), 4),
              ElementsAre(Place{0, 1}, Place{0, 3}, Place{0, 5}, Place{0, 7}));
  const Dealt later = Deal({}, 12, 6, 0, 2).after(1);
  EXPECT_EQ(place(later.next), (Place{0, 6}));
  EXPECT_THAT(own(Deal(later, 12, 6, 2, 3), 3),
              ElementsAre(Place{0, 8}, Place{0, 11}, Place{1, 2}));
  // 4 of 7: places 0 to 2 have two each
  EXPECT_EQ(Deal({}, 10, 7, 2, 4).own(), 2);
  EXPECT_EQ(Deal({}, 10, 7, 3, 4).own(), 1);
  EXPECT_THAT(own(Deal({}, 10, 7, 3, 4), 3), ElementsAre(Place{0, 3}, Place{1, 0}, Place{1, 7}));
}

TEST(Deal, WhatTheLostHadNotBroughtComesFirst) {
  const Deal deal({.next = {2, 9}, .again = {}}, 10, 4, 0, 3);
  const Dealt left =
      deal.after(std::vector<i64>{2, 1, 2});  // of the step of (3, 3) to (3, 6) place 1 had (3, 4)
  EXPECT_EQ(place(left.next), (Place{3, 7}));
  EXPECT_THAT(places(left.again), ElementsAre(Place{3, 4}));
  // Once more before it came: it is among what is left, and only once.
  const Dealt more = Deal(left, 10, 4, 0, 2).after(std::vector<i64>{0, 1});
  EXPECT_THAT(places(more.again), ElementsAre(Place{3, 4}, Place{3, 8}));
  EXPECT_EQ(place(more.next), (Place{4, 0}));
  EXPECT_THAT(own(Deal(more, 10, 4, 0, 1), 3), ElementsAre(Place{3, 4}, Place{3, 8}, Place{4, 0}));
}

TEST(Deal, NothingIsLeftOutOrComesTwiceWhoeverComesAndGoes) {
  Rng rng(11, 0);
  for (int run = 0; run < 300; ++run) {
    const i64 batches = 1 + rng.below(20), of_step = 1 + rng.below(12);
    int workers = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(of_step)));
    Dealt left;
    std::map<Place, int> brought;
    for (int stretch = 0; stretch < 12; ++stretch) {
      std::vector<i64> done(static_cast<std::size_t>(workers));
      for (int w = 0; w < workers; ++w) {
        const Deal deal(left, batches, of_step, w, workers);
        done[static_cast<std::size_t>(w)] = rng.below(4);
        for (i64 j = 0; j < deal.own() * done[static_cast<std::size_t>(w)]; ++j)
          ++brought[place(deal.batch(j))];
      }
      left = Deal(left, batches, of_step, 0, workers).after(done);
      // others may come as well
      workers = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(of_step)));
    }
    for (const Position& p : left.again) EXPECT_EQ(brought[place(p)]++, 0);
    for (i64 i = 0; i < left.next.epoch * batches + left.next.step; ++i)
      ASSERT_EQ((brought[{i / batches, i % batches}]), 1) << "run " << run << ", batch " << i;
    EXPECT_EQ(static_cast<i64>(brought.size()), left.next.epoch * batches + left.next.step);
  }
}

TEST(Deal, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_THAT(error_of([] { Deal({}, 0, 4, 0, 2); }),
              HasSubstr("steps of 4 batches, in epochs of 0"));
  EXPECT_THAT(error_of([] { Deal({}, 4, 4, 2, 2); }), HasSubstr("place 2 of 2 workers"));
  EXPECT_THAT(error_of([] {
                Deal({.next = {1, 2}, .again = {{0, 9}}}, 4, 4, 0, 2);
              }),
              HasSubstr("an epoch has batches 0 to 3"));
  EXPECT_EQ(place(Deal({.next = {1, 4}, .again = {}}, 4, 4, 0, 1).batch(0)), (Place{2, 0}))
      << "behind the end of an epoch";
}

TEST(Walk, OfADealSaysWhereTheEpochChanges) {
  Walk walk(4);
  walk.deal(Deal({.next = {1, 2}, .again = {{0, 3}}}, 4, 2, 0, 1));
  std::vector<Place> seen;
  for (int i = 0; i < 9; ++i) {
    if (walk.epoch_is_over()) {
      seen.emplace_back(-1, walk.epoch());
      continue;
    }
    seen.push_back(place(walk.next()));
    walk.advance();
  }
  EXPECT_THAT(seen, ElementsAre(Place{0, 3}, Place{-1, 1}, Place{1, 2}, Place{1, 3}, Place{-1, 2},
                                Place{2, 0}, Place{2, 1}, Place{2, 2}, Place{2, 3}));
  walk.seek({0, 1});
  EXPECT_EQ(place(walk.next(3)), (Place{1, 0})) << "the deal is over";
}

TEST(Loader, WorkersThatAreDealtOneOrderGetEveryImageOnce) {
  const auto set = std::make_shared<Fake>(52);  // 13 batches
  const LoaderOptions options{.batch = 4,
                              .size = 16,
                              .threads = 2,
                              .ahead = 3,
                              .epoch = {.share = Share::parts, .seed = 3}};
  Loader whole(set, options);
  std::vector<std::vector<Copy>> epochs;
  for (int e = 0; e < 6; ++e) epochs.push_back(epoch(whole));
  Dealt left{.next = {0, 9}, .again = {{0, 2}}};
  for (const int workers : {3, 2}) {
    for (int w = 0; w < workers; ++w) {
      const Deal deal(left, 13, 6, w, workers);
      Loader loader(set, options);
      loader.deal(deal);
      i64 now = deal.batch(0).epoch;
      for (i64 j = 0; j < 4 * deal.own(); ++j) {
        const Position at = deal.batch(j);
        if (at.epoch != now) {
          EXPECT_EQ(loader.next().count(), 0);
          now = at.epoch;
        }
        const Batch batch = loader.next();
        ASSERT_EQ(batch.count(), 4);
        EXPECT_EQ(loader.epoch(), now);
        const Copy& wanted =
            epochs.at(static_cast<std::size_t>(at.epoch)).at(static_cast<std::size_t>(at.step));
        EXPECT_EQ(copy(batch).labels, wanted.labels)
            << "batch " << at.step << " of epoch " << at.epoch;
        EXPECT_EQ(batch.side(), j == 4 ? 12 : 16);
        if (j != 4) EXPECT_EQ(copy(batch).images, wanted.images);
        // the place stays
        if (j == 3) loader.set_size(12);
        if (j == 4) loader.set_size(16);
      }
    }
    left = Deal(left, 13, 6, 0, workers).after(4);
  }
  Loader loader(set, options);
  EXPECT_THAT(error_of([&] { loader.deal(Deal({}, 12, 6, 0, 2)); }),
              HasSubstr("a deal of 12 batches an epoch; there are 13"));
  Loader own(set, {.batch = 4, .size = 16});
  EXPECT_THAT(error_of([&] { own.deal(Deal({}, 13, 6, 0, 2)); }),
              HasSubstr("only the order of one worker in parts"));
}

}  // namespace
}  // namespace gossamer::data
