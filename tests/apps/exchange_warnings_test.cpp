// What the summary says of exchanges that were refused, and of rates that were not reached.
#include "gossamer/apps/report/exchange_warnings.h"

#include <array>

#include <gmock/gmock.h>

namespace gossamer::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

dist::RealisedRates refused(const std::vector<std::array<int, 3>>& pairs) {
  dist::RealisedRates out;
  for (const auto& [a, b, count] : pairs)
    out.edges.push_back({.a = a, .b = b, .exchanges_a = 9, .exchanges_b = 9, .refused = count});
  return out;
}

TEST(ExchangeWarnings, ARunInOrderHasNone) {
  EXPECT_THAT(exchange_warnings(refused({{0, 1, 0}, {1, 2, 0}}), 1, 1000, 1000, {}), IsEmpty());
  EXPECT_THAT(exchange_warnings({}, 0, 0, 1000, {}), IsEmpty()) << "no rate was asked for";
  EXPECT_THAT(exchange_warnings({}, 1, 0, 0, {}), IsEmpty()) << "no gradient was done";
}

TEST(ExchangeWarnings, RefusalsNameThePairsAndTheWorkerThatIsPartOfAll) {
  EXPECT_THAT(
      exchange_warnings(refused({{0, 1, 0}, {0, 2, 3}, {2, 3, 4}}), 1, 1000, 1000, {}),
      ElementsAre("7 exchanges were refused by both workers, because their models were not finite "
                  "or further apart than can be right: workers 0 and 2 3 times, 2 and 3 4 times; "
                  "worker 2 was part of all of them"));
  EXPECT_THAT(exchange_warnings(refused({{0, 1, 2}, {2, 3, 1}}), 1, 1000, 1000, {}),
              ElementsAre(::testing::Not(HasSubstr("part of all"))));
  std::vector<std::array<int, 3>> many;
  for (int i = 1; i < 40; ++i) many.push_back({0, i, 1});
  EXPECT_THAT(exchange_warnings(refused(many), 1, 1000, 1000, {}),
              ElementsAre(HasSubstr("0 and 7 1 times, 32 more pairs; worker 0 was part of all")));
}

TEST(ExchangeWarnings, ModelsThatAreNotInTheAverageAreNamed) {
  EXPECT_THAT(exchange_warnings({}, 1, 1000, 1000, {1, 3}),
              ElementsAre(HasSubstr("the average is without worker(s) 1, 3: ")));
}

// The row of the fault: 2 were asked for, 1.04 were reached.
TEST(ExchangeWarnings, ARateThatIsNotReachedIsSaidWithBothNumbers) {
  EXPECT_THAT(exchange_warnings({}, 2, 1040, 1000, {}),
              ElementsAre(HasSubstr("1.04 exchanges per gradient were reached, 2 were asked for")));
  // 70 % are enough; of few exchanges chance explains more
  EXPECT_THAT(exchange_warnings({}, 2, 1410e3, 1e6, {}), IsEmpty());
  EXPECT_THAT(exchange_warnings({}, 2, 1390e3, 1e6, {}), ::testing::SizeIs(1));
  EXPECT_THAT(exchange_warnings({}, 1, 10, 40, {}), IsEmpty());
  EXPECT_THAT(exchange_warnings({}, 1, 100, 400, {}), ::testing::SizeIs(1));
}

}  // namespace
}  // namespace gossamer::apps
