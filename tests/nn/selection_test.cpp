// Which names a selection means.
#include "gossamer/nn/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer::nn {
namespace {

const std::vector<std::string> kNames{"conv1.weight",
                                      "bn1.weight",
                                      "layer1.0.conv1.weight",
                                      "layer1.0.bn1.weight",
                                      "layer10.0.conv1.weight",
                                      "fc.weight",
                                      "fc.bias"};
std::vector<std::string> meant(const std::string& text) {
  const Selection selection(text);
  std::vector<std::string> out;
  for (const std::string& name : kNames)
    if (selection(name)) out.push_back(name);
  return out;
}
using Names = std::vector<std::string>;

TEST(Selection, MeansLayersAndParameters) {
  EXPECT_EQ(meant("fc"), (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(meant("fc.bias"), (Names{"fc.bias"}));
  EXPECT_EQ(meant("layer1"), (Names{"layer1.0.conv1.weight", "layer1.0.bn1.weight"}));
  EXPECT_EQ(meant("conv1, bn1"), (Names{"conv1.weight", "bn1.weight"}));
  EXPECT_EQ(meant("conv1 bn1"), meant(" conv1,bn1 "));
  EXPECT_EQ(meant("all"), kNames);
  EXPECT_EQ(meant("weight"), Names{});
}

TEST(Selection, StarsStandForAnyCharacters) {
  EXPECT_EQ(meant("*bn1"), (Names{"bn1.weight", "layer1.0.bn1.weight"}));
  EXPECT_EQ(meant("layer*.conv*"), (Names{"layer1.0.conv1.weight", "layer10.0.conv1.weight"}));
  EXPECT_EQ(meant("*.bias"), (Names{"fc.bias"}));
  EXPECT_EQ(meant("*"), kNames);
  // time: many stars on a long name
  EXPECT_FALSE(Selection("*a*a*a*a*a*a*a*a*a*a*b")(std::string(10000, 'a')));
}

TEST(Selection, AllButMeansTheOthers) {
  EXPECT_EQ(meant("all but fc"), (Names{"conv1.weight", "bn1.weight", "layer1.0.conv1.weight",
                                        "layer1.0.bn1.weight", "layer10.0.conv1.weight"}));
  EXPECT_EQ(meant("all but fc, layer1, layer10"), meant("conv1, bn1"));
}

TEST(Selection, SaysWhichPatternIsOfNothing) {
  EXPECT_THROW(Selection(""), ConfigError);
  EXPECT_THROW(Selection(" , "), ConfigError);
  EXPECT_THROW(Selection("all but"), ConfigError);
  EXPECT_EQ(
      error_of([] { Selection("all but fc, head").check_used(kNames); }),
      "\"all but fc, head\": no parameter is called \"head\"; the layers are: bn1, conv1, fc, "
      "layer1, layer10");
  EXPECT_EQ(error_of([] { Selection("bn1, fc").check_used({"bn1.weight"}, kNames); }),
            "\"bn1, fc\": all parameters called \"fc\" are frozen");
  Selection("all but fc, layer*").check_used(kNames);
}

}  // namespace
}  // namespace gossamer::nn
