// Where a source of batches goes on: exactly there, at the same sample, or at the epoch's
// beginning.
#include "gossamer/data/sample_order.h"

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

}  // namespace
}  // namespace gossamer::data
