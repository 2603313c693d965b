// Which known name a misspelt word is: a slip is found, another word is not.
#include "gossamer/core/text/spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gossamer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Spelling, EditsAreInsertedRemovedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("batch", "batch"), 0u);
  EXPECT_EQ(edit_distance("btach", "batch"), 1u);
  EXPECT_EQ(edit_distance("bach", "batch"), 1u);
  EXPECT_EQ(edit_distance("batches", "batch"), 2u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(Spelling, TheNearestNamesAreFoundAndNoFarOnes) {
  const std::vector<std::string> names{"train", "eval", "classify", "graph", "trace"};
  EXPECT_THAT(nearest("trian", names), ElementsAre("train"));
  EXPECT_THAT(nearest("clasify", names), ElementsAre("classify"));
  EXPECT_THAT(nearest("trace", names), ElementsAre("trace"));
  EXPECT_THAT(nearest("foo", names), IsEmpty());
  EXPECT_THAT(nearest("tr", names), IsEmpty());
  EXPECT_THAT(nearest("", names), IsEmpty());
  EXPECT_THAT(nearest("resnet9", {"resnet18", "resnet8-cifar"}), ElementsAre("resnet8-cifar"));
  EXPECT_THAT(nearest("rin", {"ring", "run"}), ElementsAre("ring", "run"));
}

TEST(Spelling, AlternativesAreAList) {
  EXPECT_EQ(alternatives({"a"}), "a");
  EXPECT_EQ(alternatives({"a", "b"}, "\""), "\"a\" or \"b\"");
  EXPECT_EQ(alternatives({"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace gossamer
