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
  EXPECT_EQ(toml_facts("a = 1").names, 1);
  EXPECT_EQ(toml_facts("[a.b]\nc.d.e = 1.5 # x.y.z.w").names, 3);
  EXPECT_EQ(toml_facts("mean = [0.1, 0.2, 0.3]\nt = 'a.b.c.d'").names, 2);
  EXPECT_EQ(toml_facts("a . \"b.c\" . 'd' = \"\"\"\n.x.y.z.\"\"\"").names, 3);
  EXPECT_EQ(toml_facts("[" + repeated(39'999, "a.") + "a]").names, 40'000);
}

TEST(Nesting, LettersBeyondAsciiAreFoundOutsideOfTextsAndComments) {
  for (const char* fine : {"a = 'ü'", "a = \"ü\" # ü",
                           "\xEF\xBB\xBF"
                           "a = 1"})
    EXPECT_EQ(toml_facts(fine).beyond_ascii, std::string_view::npos) << fine;
  EXPECT_EQ(toml_facts("# ü\nü = 1").beyond_ascii, 5u);
  EXPECT_EQ(toml_facts("a = ü").beyond_ascii, 4u);
  for (const char* number :
       {"a = -'ü'", "a = 1='ü'", "a = 1['ü'", "a = [1,-['ü'", "a = {b = 1.'ü'"})
    EXPECT_EQ(toml_facts(number).beyond_ascii, std::string_view(number).find("ü"))
        << number << ": no text begins within a number";
  for (const char* fine :
       {"['ü']\n\"ü\".'ü' = 1", "[[a.'ü']]", "a = {b.'ü' = ['ü', {c = 'ü'}], d = 'ü'}",
        "a = [\n[ 'ü' ],\n'ü',\n] \n'ü' = 'ü'"})
    EXPECT_EQ(toml_facts(fine).beyond_ascii, std::string_view::npos) << fine;
  EXPECT_EQ(toml_facts("a = ['ü',\n 'ü'] # '\n\"ü\".'ü' = 'ü'\n").beyond_ascii,
            std::string_view::npos);
}

}  // namespace
}  // namespace gossamer
