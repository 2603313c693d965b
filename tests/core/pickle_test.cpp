// The machine for pickles: values as Python would make them, and nothing is ever called.
#include "gossamer/core/pickle.h"

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
  // NEWOBJ_EX, STACK_GLOBAL, INST, OBJ, EXT1, NEXT_BUFFER, INT, POP, DUP, BINBYTES, an empty byte
  for (const char code : "\x92\x93io\x82\x97I02B") {
    const std::string body = "K\1K\2" + std::string(1, code);
    EXPECT_THAT(refusal(body), HasSubstr("the instruction ")) << body;
  }
  EXPECT_THAT(refusal("\x92"), HasSubstr("byte 1 of its pickle: the instruction 0x92 is none"));
  EXPECT_THAT(refusal("i"), HasSubstr("the instruction 'i' is none"));
  EXPECT_THAT(refusal("\x80\x04N."), HasSubstr("protocol 4"));
}

// Bytes stay in the pickle; a value says where.
TEST(PickleTest, InstructionsForBytesAreKnownIfTheRulesSaySo) {
  const auto value = [](const std::string& body) {
    const std::string bytes = "\x80\x04" + body + ".";
    const Pickle p(InputFile(std::as_bytes(std::span(bytes)), "batch"),
                   {.globals = kGlobals, .protocol = 4});
    return repr(p, p.root());
  };
  EXPECT_EQ(value("C\2ab"), "b4+2'ab'");
  EXPECT_EQ(value("U\2ab"), "b4+2'ab'");
  EXPECT_EQ(value("B\2\0\0\0ab"s), "b7+2'ab'");
  EXPECT_EQ(value("T\2\0\0\0ab"s), "b7+2'ab'");
  EXPECT_EQ(value("\x8e\2\0\0\0\0\0\0\0ab"s), "b11+2'ab'");
  EXPECT_EQ(value("B\xc8\0\0\0"s + std::string(200, 'x')), "b7+200'" + std::string(100, 'x') + "'");
  EXPECT_EQ(value("\x95\1\0\0\0\0\0\0\0\x8c\1a\x94h\0\x86"s), "('a', 'a')");
  EXPECT_EQ(value("\x8c\3lib\x8c\4make\x93"), "lib.make");
  const auto refused = [&](const std::string& body) {
    return error_of<IoError>([&] { value(body); });
  };
  EXPECT_THAT(refused("\x8c\5posix\x8c\6system\x93"), HasSubstr("it names posix.system"));
  EXPECT_THAT(refused("K\1K\2\x93"), HasSubstr("names something by what is no text"));
  EXPECT_THAT(refused("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("cut short"));
  EXPECT_THAT(refused("\x97"), HasSubstr("the instruction 0x97 is none"));
  EXPECT_THAT(refused("\x80\5"), HasSubstr("protocol 5"));
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
  EXPECT_THAT(refusal("ccollections\nOrderedDict\n(K\1tR."), HasSubstr("with arguments"));
  EXPECT_THAT(refusal("K\1Nb."), HasSubstr("BUILD of a plain value"));
  EXPECT_THAT(refusal("clib\nmake\n)RNbNb."), HasSubstr("BUILD of a plain value"));
  EXPECT_THAT(refusal("\x8a\x09" + std::string(9, '\1')), HasSubstr("a whole number of 9 bytes"));
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

TEST(PickleTest, FindsKeys) {
  const Pickle p = parse("}(K\1K\2" + text("a") + "K\3u.");
  ASSERT_NE(p.find(p.root(), "a"), nullptr);
  EXPECT_EQ(p.find(p.root(), "a")->integer, 3);
  EXPECT_EQ(p.find(p.root(), "b"), nullptr);
  EXPECT_EQ(p.find(*p.find(p.root(), "a"), "a"), nullptr);
}

}  // namespace
}  // namespace gossamer
