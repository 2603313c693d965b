// Libraries looked for at run time: functions found and missing, versions as text.
#include "gossamer/core/dynamic_library.h"

#include <gtest/gtest.h>

#include "gossamer/core/error.h"

namespace gossamer {
namespace {

TEST(DynamicLibrary, FindsFunctionsAndNamesThoseThatAreMissing) {
  DynamicLibrary library{"libno-such-thing.so.9", "libm.so.6"};
  ASSERT_TRUE(library.found()) << library.why();
  EXPECT_NE(library.path().find("libm"), std::string::npos);
  double (*root)(double) = nullptr;
  void (*nothing)() = nullptr, (*neither)() = nullptr;
  library.need(root, "sqrt");
  EXPECT_EQ(library.missing(), "");
  EXPECT_EQ(root(9), 3);
  library.need(nothing, "no_such_function");
  library.need(neither, "nor_this");
  EXPECT_EQ(library.missing(), "no_such_function, nor_this");
}

TEST(DynamicLibrary, SaysWhyItWasNotFound) {
  DynamicLibrary library{"libno-such-thing.so.9"};
  EXPECT_FALSE(library.found());
  EXPECT_NE(library.why().find("libno-such-thing.so.9"), std::string::npos);
  EXPECT_EQ(library.path(), "");
  void (*nothing)() = nullptr;
  library.need(nothing, "sqrt");
  EXPECT_EQ(library.missing(), "sqrt");
}

TEST(VersionText, IsReadFromTheNumberOrSaysWhatWentWrong) {
  EXPECT_EQ(version_text([] { return std::size_t{91900}; }), "9.19.0");
  EXPECT_EQ(version_text([] { return std::size_t{130102}; }), "13.1.2");
  EXPECT_EQ(version_text([]() -> std::size_t { fail<DeviceError>("nowhere"); }),
            "not found: nowhere");
}

}  // namespace
}  // namespace gossamer
