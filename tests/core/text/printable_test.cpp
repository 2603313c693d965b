// Text from outside in a message: nothing in it steers a terminal, and ordinary text stays.
#include "gossamer/core/text/printable.h"

#include <gtest/gtest.h>

#include "gossamer/core/text/utf8.h"

namespace gossamer {
namespace {

TEST(Printable, TextOfAnyLanguageStays) {
  for (const char* text : {"", "conv1.weight", "caf\u00e9 \u732b \U0001f408", "a\\b \"c\""})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAndBytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(printable("\x1b[2J\n\t\x7f"), "\\x1b[2J\\x0a\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("caf\xe9!"), "caf\\xe9!");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe7\x8c"), "\\xe7\\x8c") << "cut short";
  EXPECT_EQ(printable("\u009b2J \u0080 \u00a0"), "\\xc2\\x9b2J \\xc2\\x80 \u00a0")
      << "a terminal may take U+009B for ESC [";
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable("abcd", 4), "abcd");
  EXPECT_EQ(printable("abcde", 4), "abcd\u2026");
  EXPECT_EQ(printable("a\u732b\u732b", 5), "a\u732b\u2026");
}

TEST(Printable, TwiceIsOnce) {
  const std::string name = printable("caf\xE9\n");
  EXPECT_EQ(printable(name), name);
  EXPECT_TRUE(has_escapes(name));
  EXPECT_FALSE(has_escapes("caf\xC3\xA9 \\xylophone \\x"));
}

TEST(Utf8, AnyBytesComeBackFromText) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& bytes :
       {all, std::string("caf\xE9/\xC3\xA9"), std::string("\xEE\xBF\xA9 stands for itself"),
        std::string("\xEE\xBF"), std::string("\xED\xA0\x80")}) {
    const std::string text = to_text(bytes);
    EXPECT_EQ(valid_utf8(text), text.size());
    EXPECT_EQ(from_text(text), bytes);
  }
  EXPECT_EQ(to_text("caf\xE9"), "caf\xEE\xBF\xA9");
  EXPECT_EQ(to_text("caf\xC3\xA9"), "caf\xC3\xA9");
}

}  // namespace
}  // namespace gossamer
