// Depth is counted before a parser builds a tree.
#include "gossamer/core/text/nesting.h"

#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "gossamer/core/text/json.h"

namespace gossamer {
namespace {

std::string repeated(int n, const std::string& text) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(Nesting, DepthOfJsonIsThatOfItsListsAndObjectsOutsideOfTexts) {
  EXPECT_EQ(json_depth("7"), 0);
  EXPECT_EQ(json_depth(R"({"a": [1, [2]], "b": {}})"), 3);
  EXPECT_EQ(json_depth(R"(["[[[[", "\"[[[[", "\\", []])"), 2);
}

TEST(Nesting, JsonThatNestsTooDeepIsNoValue) {
  using Json = nlohmann::json;
  const auto lists = [](int n) { return repeated(n, "[") + repeated(n, "]"); };
  EXPECT_TRUE(parse_json<Json>(lists(kDeepestJson)).is_array());
  EXPECT_TRUE(parse_json<Json>(lists(kDeepestJson + 1)).is_discarded());
  EXPECT_TRUE(parse_json<Json>(lists(1'000'000)).is_discarded());
  EXPECT_TRUE(parse_json<Json>("{").is_discarded());
}

TEST(Nesting, NamesOfATomlKeyAreCountedOutsideOfValuesTextsAndComments) {
  EXPECT_EQ(toml_names("a = 1"), 1);
  EXPECT_EQ(toml_names("[a.b]\nc.d.e = 1.5 # x.y.z.w"), 3);
  EXPECT_EQ(toml_names("mean = [0.1, 0.2, 0.3]\nt = 'a.b.c.d'"), 2);
  EXPECT_EQ(toml_names("a . \"b.c\" . 'd' = \"\"\"\n.x.y.z.\"\"\""), 3);
  EXPECT_EQ(toml_names("[" + repeated(39'999, "a.") + "a]"), 40'000);
}

}  // namespace
}  // namespace gossamer
