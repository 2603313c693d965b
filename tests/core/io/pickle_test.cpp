// The machine for pickles: values as Python would make them, and nothing is ever called.
#include "gossamer/core/io/pickle.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"
#include "support/torch_bytes.h"

namespace gossamer {
namespace {

using pickled::text;
using testing::HasSubstr;
using namespace std::string_literals;

constexpr std::string_view kGlobals[] = {"lib.make"};

Pickle parse(const std::string& bytes) {
  return Pickle(InputFile(std::as_bytes(std::span(bytes)), "f.pth"), {.globals = kGlobals});
}

// As Python's repr, of values that do not hold themselves.
std::string repr(const Pickle& p, const Pickle::Value& v) {
  const auto list = [&](const char* open, const char* close) {
    std::string out = open;
    for (std::size_t i = 0; i < v.parts.size(); ++i)
      out += (i == 0                                  ? ""
              : v.kind == Pickle::Kind::dict && i % 2 ? ": "
                                                      : ", ") +
             repr(p, p.part(v, i));
    return out + close;
  };
  switch (v.kind) {
    case Pickle::Kind::none:
      return "None";
    case Pickle::Kind::boolean:
      return v.integer ? "True" : "False";
    case Pickle::Kind::integer:
      return std::to_string(v.integer);
    case Pickle::Kind::real:
      return std::to_string(v.real);
    case Pickle::Kind::bytes:
      return "b" + std::to_string(v.integer) + "+" + std::to_string(v.length) + "'" + v.text + "'";
    case Pickle::Kind::text:
      return "'" + v.text + "'";
    case Pickle::Kind::tuple:
      return list("(", ")");
    case Pickle::Kind::list:
      return list("[", "]");
    case Pickle::Kind::dict:
      return list("{", "}");
    case Pickle::Kind::global:
      return v.text;
    case Pickle::Kind::call:
      return list("call(", ")");
    case Pickle::Kind::outside:
      return list("outside(", ")");
  }
  return "?";
}
std::string value_of(const std::string& body) {
  const Pickle p = parse("\x80\x02" + body + ".");
  return repr(p, p.root());
}
std::string refusal(const std::string& body) {
  return error_of<IoError>([&] { parse(body); });
}

TEST(PickleTest, PlainValues) {
  EXPECT_EQ(value_of("N"), "None");
  EXPECT_EQ(value_of("\x88\x89\x86"), "(True, False)");
  EXPECT_EQ(value_of("(K\xffM\xff\xffJ\xff\xff\xff\xfft"), "(255, 65535, -1)");
  EXPECT_EQ(value_of("\x8a\0"s), "0");
  EXPECT_EQ(value_of("\x8a\1\xff"), "-1");
  EXPECT_EQ(value_of("\x8a\2\0\x80"s), "-32768");
  EXPECT_EQ(value_of("\x8a\5\0\0\0\0\1"s), "4294967296");
  EXPECT_EQ(value_of("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
  EXPECT_EQ(value_of("G\xbf\xf8\0\0\0\0\0\0"s), "-1.500000");
  EXPECT_EQ(value_of(text("é")), "'é'");
  EXPECT_EQ(value_of("](K\1]K\2aK\3\x85"
                     "e"),
            "[1, [2], (3)]");
  EXPECT_EQ(value_of("]K\1aK\2a"), "[1, 2]");
  EXPECT_EQ(value_of("})K\1s" + text("k") + "Ns"), "{(): 1, 'k': None}");
  EXPECT_EQ(value_of("}(K\1K\2K\3K\4u"), "{1: 2, 3: 4}");
  EXPECT_EQ(value_of("K\1\x85K\2\x86K\3K\4\x87"), "(((1), 2), 3, 4)");
}

TEST(PickleTest, TheMemoNamesValuesNotCopies) {
  // [x, x] with x = [], to which 1 is then added
  EXPECT_EQ(value_of("](]q\1h\1K\1ae"), "[[1], [1]]");
  EXPECT_EQ(value_of("](]r\0\1\0\0j\0\1\0\0K\1ae"s), "[[1], [1]]");
}

TEST(PickleTest, FunctionsAreNamedAndNotCalled) {
  EXPECT_EQ(value_of("clib\nmake\n(K\1tR"), "call(lib.make, (1))");
  EXPECT_EQ(value_of("clib\nmake\n)R}b"), "call(lib.make, (), {})");
  EXPECT_EQ(value_of("clib\nmake\n)\x81}b"), "call(lib.make, (), {})");
  EXPECT_EQ(value_of("ccollections\nOrderedDict\n)R(K\1K\2u}" + text("_metadata") + "Nsb"),
            "{1: 2}");
  EXPECT_EQ(value_of("K\1Q"), "outside(1)");
}

TEST(PickleTest, AListMayHoldItself) {
  const Pickle p = parse("\x80\x02]q\1h\1a.");
  EXPECT_EQ(&p.part(p.root(), 0), &p.root());
}

TEST(PickleTest, UnknownFunctionsAreRefusedByName) {
  EXPECT_THAT(
      refusal("\x80\x02"
              "cposix\nsystem\n(X\2\0\0\0lstR."s),
      HasSubstr("f.pth: byte 16 of its pickle: it names posix.system, which is no part of a "
                "file of weights and is not called"));
  EXPECT_THAT(refusal("cno\x1b[31m\nx\n."), HasSubstr("it names no\\x1b[31m.x,"));
  EXPECT_THAT(refusal("clib\nmake2\n."), HasSubstr("lib.make2"));
}

TEST(PickleTest, UnknownInstructionsAreRefusedByName) {
  // INST, OBJ, EXT1, NEXT_BUFFER, READONLY_BUFFER, INT, LONG, FLOAT, STRING, PERSID, DUP, no letter
  for (const char code : "io\x82\x97\x98ILFSP2"s + '\0') {
    const std::string body = "K\1K\2" + std::string(1, code);
    EXPECT_THAT(refusal(body), HasSubstr("the instruction ")) << body;
  }
  EXPECT_THAT(refusal("\x82"), HasSubstr("byte 1 of its pickle: the instruction 0x82 is none"));
  EXPECT_THAT(refusal("i"), HasSubstr("the instruction 'i' is none"));
  EXPECT_THAT(refusal("\x80\x06N."), HasSubstr("protocol 6; at most 5"));
}

// Bytes stay in the pickle; a value says where, and how they begin.
TEST(PickleTest, BytesStayWhereTheyAre) {
  EXPECT_EQ(value_of("C\2ab"), "b4+2'ab'");
  EXPECT_EQ(value_of("U\2ab"), "b4+2'ab'");
  EXPECT_EQ(value_of("B\2\0\0\0ab"s), "b7+2'ab'");
  EXPECT_EQ(value_of("T\2\0\0\0ab"s), "b7+2'ab'");
  EXPECT_EQ(value_of("\x8e\2\0\0\0\0\0\0\0ab"s), "b11+2'ab'");
  EXPECT_EQ(value_of("\x96\2\0\0\0\0\0\0\0ab"s), "b11+2'ab'");
  EXPECT_EQ(value_of("B\x2c\1\0\0"s + std::string(300, 'x')),
            "b7+300'" + std::string(255, 'x') + "'");
  EXPECT_THAT(refusal("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("cut short"));
}

TEST(PickleTest, InstructionsOfProtocol4) {
  EXPECT_EQ(value_of("\x95\1\0\0\0\0\0\0\0\x8c\1a\x94h\0\x86"s), "('a', 'a')");
  EXPECT_EQ(value_of("\x8d\2\0\0\0\0\0\0\0ab"s), "'ab'");
  EXPECT_EQ(value_of("\x8c\3lib\x8c\4make\x93"), "lib.make");
  EXPECT_EQ(value_of("\x8c\3lib\x8c\4make\x93)}\x92"), "call(lib.make, ())");
  EXPECT_THAT(refusal("\x8c\5posix\x8c\6system\x93"), HasSubstr("it names posix.system"));
  EXPECT_THAT(refusal("K\1K\2\x93"), HasSubstr("names something by what is no text"));
}

TEST(PickleTest, SetsAreLists) {
  EXPECT_EQ(value_of("\x8f(K\1K\2\x90"), "[1, 2]");
  EXPECT_EQ(value_of("(K\1K\2\x91"), "[1, 2]");
  EXPECT_EQ(value_of("cbuiltins\nset\n](K\1K\2e\x85R"), "[1, 2]");
  EXPECT_EQ(value_of("c__builtin__\nset\n]K\1a\x85R"), "[1]");
}

TEST(PickleTest, WholeNumbersOfMoreThan64BitsAreReal) {
  EXPECT_EQ(value_of("\x8a\x09\0\0\0\0\0\0\0\x80\0"s), "9223372036854775808.000000");
  EXPECT_EQ(value_of("\x8a\x09\0\0\0\0\0\0\0\0\xff"s), "-18446744073709551616.000000");
  EXPECT_EQ(value_of("\x8b\1\0\0\0\x05"s), "5");
}

TEST(PickleTest, PoppedValuesAndMarksAreGone) {
  EXPECT_EQ(value_of("K\1K\2"
                     "0"),
            "1");
  EXPECT_EQ(value_of("K\1(K\2K\3"
                     "1"),
            "1");
  EXPECT_EQ(value_of("K\1(0"), "1");
}

TEST(PickleTest, OrderedDictsOfPython2AreListsOfPairs) {
  EXPECT_EQ(value_of("ccollections\nOrderedDict\n](](K\1K\2e](K\3K\4ee\x85R"), "{1: 2, 3: 4}");
  EXPECT_EQ(value_of("ccollections\ndefaultdict\n)R" + text("a") + "K\1s"), "{'a': 1}");
}

TEST(PickleTest, BrokenProgramsAreRefused) {
  for (const std::string& body :
       {""s, "N"s, "X\5\0\0\0abc."s, "G\0."s, "cabc"s, "ca\nb"s, "\x8a"s, "\x8a\x05\1."s})
    EXPECT_THAT(refusal(body), HasSubstr("cut short")) << body;
  for (const std::string body : {".", "a.", "K\1a.", "s.", "K\1K\2s.", "\x86.", "K\1\x86.", "R.",
                                 "Q.", "q\1.", "K\1(\x85.", "K\1(.", "b."})
    EXPECT_THAT(refusal(body), HasSubstr("too few values")) << body;
  EXPECT_THAT(refusal("t."), HasSubstr("no mark"));
  EXPECT_THAT(refusal("h\1."), HasSubstr("its memo has no entry 1"));
  EXPECT_THAT(refusal("}(K\1u."), HasSubstr("a key without a value"));
  EXPECT_THAT(refusal("K\1K\2a."), HasSubstr("it adds to what is no list"));
  EXPECT_THAT(refusal("]K\2K\2s."), HasSubstr("it adds to what is no dict"));
  EXPECT_THAT(refusal("K\1)R."), HasSubstr("calls something that is no function"));
  EXPECT_THAT(refusal("clib\nmake\nK\1R."), HasSubstr("calls something that is no function"));
  EXPECT_THAT(refusal("ccollections\nOrderedDict\n(K\1tR."), HasSubstr("no pairs"));
  EXPECT_THAT(refusal("K\1Nb."), HasSubstr("BUILD of a plain value"));
  EXPECT_THAT(refusal("clib\nmake\n)RNbNb."), HasSubstr("BUILD of a plain value"));
}

TEST(PickleTest, DepthAndSizeHaveLimits) {
  EXPECT_THAT(refusal(std::string(101, '(')), HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(refusal(std::string(1'000'001, 'N')), HasSubstr("more than 1000000 values"));
  std::string gets = "Nq\1";
  for (int i = 0; i < 1'000'000; ++i) gets += "h\1";
  EXPECT_THAT(refusal(gets), HasSubstr("more than 1000000 values on its stack"));
  EXPECT_THAT(refusal("X\1\0\0\4"s + std::string((64 << 20) + 1, 'x')), HasSubstr("bytes of text"));
  EXPECT_THAT(refusal("c" + std::string(1002, 'x')), HasSubstr("more than 1000 letters"));
}

// The losses of a long training, say: they are counted, and what else names them stays right.
TEST(PickleTest, ListsOfPlainNumbersMayBeLong) {
  const auto numbers = [](std::size_t n) {
    std::string out = "(";
    for (std::size_t i = 0; i < n; ++i) out += "K\1";
    return out + "e";
  };
  std::string list = "]";
  for (int i = 0; i < 2000; ++i) list += numbers(1000);
  const Pickle p = parse(list + ".");
  EXPECT_EQ(p.root().length, 2'000'000u);
  EXPECT_LT(p.root().parts.size(), 1'000'000u);
  // [1, {"k": 2}]: the dict is in the memo, and its value was made last
  std::string body = "]" + text("k") + "q\1" + "0}q\2" + "0";
  for (int i = 0; i < 500'000; ++i) body += "N0";
  body += "(K\1h\2h\1K\2se.";
  const Pickle held = parse(body);
  EXPECT_EQ(held.find(held.part(held.root(), held.root().parts.size() - 1), "k")->integer, 2);
}

TEST(PickleTest, FindsKeys) {
  const Pickle p = parse("}(K\1K\2" + text("a") + "K\3u.");
  ASSERT_NE(p.find(p.root(), "a"), nullptr);
  EXPECT_EQ(p.find(p.root(), "a")->integer, 3);
  EXPECT_EQ(p.find(p.root(), "b"), nullptr);
  EXPECT_EQ(p.find(*p.find(p.root(), "a"), "a"), nullptr);
}

}  // namespace
}  // namespace gossamer
