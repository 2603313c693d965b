// The rule that keeps the list of cases complete: every function declared in core/ops.h,
// core/ops/rearrange.h and core/ops/group_norm.h has a row in op_cases.h, and no row is stray.
#include <fstream>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "core/ops/op_cases.h"

namespace gossamer::testing {
namespace {

std::set<std::string> declared_ops() {
  const std::regex declaration(R"(^(?:Tensor|NormedSum|i64|double|bool|void) (\w+)\()");
  std::set<std::string> names;
  for (const std::string header : {"core/ops.h", "core/ops/rearrange.h", "core/ops/group_norm.h"}) {
    std::ifstream file(GOSSAMER_SOURCE_DIR "/" + header);
    EXPECT_TRUE(file) << header << " was not found";
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_search(line, match, declaration)) names.insert(match[1]);
  }
  return names;
}

std::set<std::string> listed_ops() {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) names.insert(c.op);
  return names;
}

TEST(OpList, HasACaseForEveryFunctionOfTheHeader) {
  const auto declared = declared_ops(), listed = listed_ops();
  EXPECT_GE(declared.size(), 36u)
      << "the header's form changed: this test no longer finds its functions";
  for (const std::string& name : declared)
    EXPECT_TRUE(listed.contains(name)) << name << " has no row in tests/core/ops/op_cases.h";
}

TEST(OpList, NamesOnlyFunctionsOfTheHeader) {
  const auto declared = declared_ops();
  for (const std::string& name : listed_ops())
    EXPECT_TRUE(declared.contains(name)) << name << " is not declared there";
}

TEST(OpList, ChecksTheGradientOfAllButTheFewThatHaveNone) {
  const std::set<std::string> without{"normalize", "count_top_k", "take_number"};
  for (const OpCase& c : op_cases()) EXPECT_EQ(c.gradient, !without.contains(c.op)) << label_of(c);
}

}  // namespace
}  // namespace gossamer::testing
