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

// Positions in the order that all workers have (deal.h), with batches that are dealt again.
TEST(SampleOrder, OfAllWorkersKeepsWhatComesAgain) {
  SampleOrder then = kOrder, now = kOrder;
  then.common = now.common = true;
  then.again = {{2, 9}, {3, 1}};
  const auto text = to_metadata(then);
  EXPECT_EQ(text.at("order.common"), "2:9 3:1");
  EXPECT_EQ(to_metadata(*parse_order(text)), text);
  for (const char* wrong : {"2", "2:", ":9", "2:9x", "2:9  3:1", "-1:4", "2:9 3"}) {
    auto damaged = text;
    damaged["order.common"] = wrong;
    EXPECT_FALSE(parse_order(damaged)) << wrong;
  }
  const Continued same = continue_order({3, 5}, then, now);
  EXPECT_EQ(same.at.step, 5);
  ASSERT_EQ(same.dealt.size(), 2u);
  EXPECT_EQ(same.dealt[1].step, 1);
  EXPECT_EQ(same.again, 0);
  EXPECT_EQ(continue_order({3, 0}, then, now).dealt.size(), 2u) << "at an epoch's beginning, too";
  // Samples 108 to 119 of epoch 2, 12 to 23 and from 60 on of epoch 3, in batches of 8.
  now.batch = 8;
  const Continued smaller = continue_order({3, 5}, then, now);
  EXPECT_EQ(smaller.at.step, 7);
  std::vector<std::pair<i64, i64>> dealt;
  for (const Position& p : smaller.dealt) dealt.emplace_back(p.epoch, p.step);
  EXPECT_EQ(dealt, (std::vector<std::pair<i64, i64>>{{2, 13}, {2, 14}, {3, 1}, {3, 2}}));
  EXPECT_EQ(smaller.again, 4 + 32 - 24);
  now = kOrder;
  EXPECT_EQ(continue_order({3, 5}, then, now).change, OrderChange::common);
}

}  // namespace
}  // namespace gossamer::data
