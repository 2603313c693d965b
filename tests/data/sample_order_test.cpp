// Where a source of batches goes on: exactly there, at the same sample, or at the epoch's
// beginning.
#include "gossamer/data/sample_order.h"

#include <utility>

#include <gtest/gtest.h>

namespace gossamer::data {
namespace {

const SampleOrder kOrder{.batch = 12, .seed = 7, .shared = true, .set = 0xfedcba9876543210};

TEST(SampleOrder, GoesOnAtTheSameSampleOrBeginsTheEpochAgain) {
  const auto goes_on = [](auto change) {
    SampleOrder now = kOrder;
    change(now);
    return continue_order({3, 5}, kOrder, now);
  };
  const Continued same = goes_on([](SampleOrder&) {});
  EXPECT_EQ(same.at.epoch, 3);
  EXPECT_EQ(same.at.step, 5);
  EXPECT_EQ(same.again, 0);
  const Continued divides = goes_on([](SampleOrder& o) { o.batch = 20; });
  EXPECT_EQ(divides.at.step, 3);
  EXPECT_EQ(divides.again, 0);
  const Continued other = goes_on([](SampleOrder& o) { o.batch = 16; });
  EXPECT_EQ(other.at.step, 3);  // sample 48 of the 60 that were seen
  EXPECT_EQ(other.again, 12);
  EXPECT_EQ(other.change, OrderChange::none);
  const auto begins_again = [](const Continued& c, OrderChange why) {
    EXPECT_EQ(c.at.epoch, 3);
    EXPECT_EQ(c.at.step, 0);
    EXPECT_EQ(c.change, why);
  };
  begins_again(goes_on([](SampleOrder& o) { o.seed = 8; }), OrderChange::seed);
  begins_again(goes_on([](SampleOrder& o) { o.shared = false; }), OrderChange::shared);
  begins_again(goes_on([](SampleOrder& o) { o.set ^= 1; }), OrderChange::set);
  begins_again(continue_order({3, 5}, std::nullopt, kOrder), OrderChange::unknown);
  // between epochs nothing is lost, whatever changes
  EXPECT_EQ(continue_order({3, 0}, std::nullopt, kOrder).change, OrderChange::none);
}

TEST(SampleOrder, ComesBackFromItsText) {
  SampleOrder order = kOrder;
  order.tokenizer = 9;
  order.documents = "separate";
  order.weights = "";
  auto text = to_metadata(order);
  const auto again = parse_order(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(to_metadata(*again), text);
  EXPECT_EQ(again->set, kOrder.set);
  EXPECT_EQ(again->weights, "") << "none, which is known";
  EXPECT_FALSE(parse_order(to_metadata(kOrder))->weights) << "of an older checkpoint";
  text["order.batch"] = "0";
  EXPECT_FALSE(parse_order(text));
  text["order.batch"] = "12x";
  EXPECT_FALSE(parse_order(text));
  text.erase("order.batch");
  EXPECT_FALSE(parse_order(text));
}

// Positions in the order that all workers have (loader/deal.h), with what each had done of it.
TEST(SampleOrder, OfAllWorkersGoesOnWhereTheyStoodTogether) {
  SampleOrder then = kOrder, now = kOrder;
  now.common = CommonOrder();
  then.common = {.batches = 10, .batches_of_step = 4, .again = {{2, 9}, {3, 1}}, .done = {1, 2}};
  const auto text = to_metadata(then);
  EXPECT_EQ(text.at("order.common"), "10:4");
  EXPECT_EQ(text.at("order.again"), "2:9 3:1");
  EXPECT_EQ(text.at("order.done"), "0:1 1:2");
  EXPECT_EQ(to_metadata(*parse_order(text)), text);
  const auto damaged = [&](const char* key, const char* value) {
    auto other = text;
    other[key] = value;
    return !parse_order(other);
  };
  for (const char* wrong : {"2", "2:", ":9", "2:9x", "2:9  3:1", "-1:4", "2:9 3", "2:10"})
    EXPECT_TRUE(damaged("order.again", wrong)) << wrong;
  for (const char* wrong : {"", "0:4", "4:0", "4:2 4:2", "10:99999999"})
    EXPECT_TRUE(damaged("order.common", wrong)) << wrong;
  for (const char* wrong : {"", "1:1 0:2", "0:1 2:2", "0:1 1:99999999", "0:1 1:9999999999999"})
    EXPECT_TRUE(damaged("order.done", wrong)) << wrong;
  // Of (2,9) (3,1) (3,5) (3,6) | (3,7) (3,8) (3,9) (4,0) place 0 has done a step, place 1 two.
  using Places = std::vector<Position>;
  const Continued same = continue_order({3, 5}, then, now);
  EXPECT_EQ(same.at, (Position{4, 1}));
  EXPECT_EQ(same.dealt, (Places{{3, 7}, {3, 9}}));
  EXPECT_EQ(same.again, 0);
  // Samples 84 to 95 and 108 to 119 of epoch 3, and from 12 on of epoch 4, in batches of 8.
  now.batch = 8;
  const Continued smaller = continue_order({3, 5}, then, now);
  EXPECT_EQ(smaller.at, (Position{4, 1}));
  EXPECT_EQ(smaller.dealt, (Places{{3, 10}, {3, 11}, {3, 13}, {3, 14}}));
  EXPECT_EQ(smaller.again, 4 + 32 - 24);
  now = kOrder;
  const Continued alone = continue_order({3, 5}, then, now);
  EXPECT_EQ(alone.change, OrderChange::common);
  EXPECT_EQ(alone.at, (Position{4, 0}));
}

TEST(SampleOrder, WhatSeveralHaveSavedIsPutTogether) {
  const auto saved = [](i64 step, std::vector<i64> done) {
    Saved out{{3, step}, kOrder};
    out.order.common = {.batches = 90, .batches_of_step = 4, .again = {}, .done = std::move(done)};
    return out;
  };
  const Saved all = together({saved(4, {7, 5, 6}), saved(4, {6, 6, 6}), saved(4, {5, 5, 7})});
  EXPECT_EQ(all.order.common->done, (std::vector<i64>{7, 6, 7}));
  const Saved last = together({saved(4, {9, 9}), saved(20, {1, 0}), saved(20, {0, 2})});
  EXPECT_EQ(last.at.step, 20) << "some know of a later change";
  EXPECT_EQ(last.order.common->done, (std::vector<i64>{1, 2}));
}

}  // namespace
}  // namespace gossamer::data
