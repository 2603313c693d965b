// Safetensors: what is written is read again, and every way in which a file can be wrong is refused
// with its reason.
#include "gossamer/core/io/safetensors.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/text/printable.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Safetensors : public InTempFolder {};

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + rest;
}
std::string made(const std::string& header, std::size_t data) {
  return with_length(header.size(), header + std::string(data, '\1'));
}

SafeTensors parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "f.safetensors");
}

// The text of the error, or "accepted".
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}
std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
std::string one(const std::string& type, const std::string& shape, const std::string& offsets) {
  return "{\"a\":" + entry(type, shape, offsets) + "}";
}
std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(Safetensors, AllTypesShapesAndMetadataComeBackAsTheyWere) {
  Tensor f = Tensor::from(std::vector<float>{1, -2, 3.5f, 4, 5, 6}, {2, 3});
  Tensor n = Tensor::zeros({}, DType::i64);
  *n.as<i64>() = -7;
  const Tensor half = f.to(DType::bf16), fp16 = f.to(DType::f16), whole = f.to(DType::i32),
               bytes = Tensor::full({3}, 9, DType::u8), none = Tensor::zeros({0, 4});
  write_safetensors(file("a"),
                    {{"bytes", bytes},
                     {"none", none},
                     {"f \"\u00e4\"", f},
                     {"half", half},
                     {"fp16", fp16},
                     {"whole", whole},
                     {"n", n}},
                    {{"model", "resnet8"}, {"quote", "\"\n"}});
  const SafeTensors back = read_safetensors(file("a"));
  EXPECT_EQ(back.metadata,
            (std::map<std::string, std::string>{{"model", "resnet8"}, {"quote", "\"\n"}}));
  ASSERT_EQ(back.tensors.size(), 7u);
  for (const auto& [name, tensor] : std::vector<NamedTensor>{{"bytes", bytes},
                                                             {"none", none},
                                                             {"f \"\u00e4\"", f},
                                                             {"half", half},
                                                             {"fp16", fp16},
                                                             {"whole", whole},
                                                             {"n", n}}) {
    const Tensor* read = back.find(name);
    ASSERT_NE(read, nullptr) << name;
    EXPECT_EQ(read->dtype(), tensor.dtype());
    EXPECT_EQ(read->shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(read->data(), tensor.data(), tensor.bytes()), 0) << name;
  }
  EXPECT_EQ(back.find("nothing"), nullptr);
  write_safetensors(file("b"), back.tensors, back.metadata);
  EXPECT_EQ(contents(file("a")), contents(file("b")));
}

TEST_F(Safetensors, TheHeaderIsPaddedToEightBytesAndWideTypesComeFirst) {
  write_safetensors(file("a"), {{"z", Tensor::zeros({1}, DType::u8)},
                                {"b", Tensor::zeros({1})},
                                {"a", Tensor::zeros({1})},
                                {"n", Tensor::zeros({}, DType::i64)}});
  const std::string bytes = contents(file("a"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.size(), 8 + length + 8 + 4 + 4 + 1);
  std::string order;
  for (const NamedTensor& t : read_safetensors(file("a")).tensors) order += t.name;
  EXPECT_EQ(order, "nabz");
}

TEST_F(Safetensors, AnEmptyFileOfTensorsIsAFile) {
  write_safetensors(file("a"), {});
  EXPECT_TRUE(read_safetensors(file("a")).tensors.empty());
  EXPECT_TRUE(parse(made("{}", 0)).tensors.empty());
  EXPECT_TRUE(parse(made("{}      ", 0)).tensors.empty());  // padding
}

TEST_F(Safetensors, TensorsMayBeDescribedInAnyOrder) {
  const SafeTensors two = parse(made(
      "{\"b\":" + entry("U8", "[2]", "[4,6]") + ",\"a\":" + entry("F32", "[]", "[0,4]") + "}", 6));
  ASSERT_EQ(two.tensors.size(), 2u);
  EXPECT_EQ(two.tensors[0].name, "a");
  EXPECT_EQ(two.tensors[0].tensor.shape(), Shape{});
}

struct Bad {
  const char* what;
  std::string bytes;
  const char* text;
};
class Refused : public testing::TestWithParam<Bad> {};
TEST_P(Refused, NamesTheFileAndTheDefect) {
  const std::string text = refusal(GetParam().bytes);
  EXPECT_THAT(text, HasSubstr(GetParam().text));
  EXPECT_THAT(text, HasSubstr("f.safetensors"));
}
INSTANTIATE_TEST_SUITE_P(
    Safetensors, Refused,
    testing::Values(
        Bad{"Empty", "", "0 bytes are too few"},
        Bad{"SevenBytes", std::string(7, '\0'), "7 bytes are too few"},
        Bad{"HeaderAboveTheCap", with_length(100'000'001, "{}"), "the limit is 100000000"},
        Bad{"HeaderOfMaximalLength", with_length(~0ull, "{}"), "the limit"},
        Bad{"HeaderLongerThanTheFile", with_length(100, "{}"), "cut short"},
        Bad{"NoHeader", made("", 0), "does not start with '{'"},
        Bad{"LeadingSpace", made(" {}", 0), "does not start with '{'"},
        Bad{"List", made("[]", 0), "does not start with '{'"},
        Bad{"BrokenJson", made("{\"a\":", 0), "not valid JSON"},
        Bad{"BadUtf8", made("{\"a\xff\":" + entry("U8", "[1]", "[0,1]") + "}", 1),
            "not valid JSON"},
        Bad{"OverlongUtf8", made("{\"\xc0\xaf\":" + entry("U8", "[1]", "[0,1]") + "}", 1),
            "not valid JSON"},
        Bad{"NulByte", made("{}" + std::string(1, '\0') + "{{{", 0), "NUL"},
        Bad{"TextAfterTheObject", made("{}x", 0), "not valid JSON"},
        Bad{"Comment", made("{/* */}", 0), "not valid JSON"},
        Bad{"DuplicateTensor",
            made("{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"a\":" + entry("U8", "[1]", "[1,2]") +
                     "}",
                 2),
            "\"a\" appears twice"},
        Bad{"DuplicateByEscape",
            made("{\"a\":" + entry("U8", "[1]", "[0,1]") +
                     ",\"\\u0061\":" + entry("U8", "[1]", "[1,2]") + "}",
                 2),
            "\"a\" appears twice"},
        Bad{"DuplicateField",
            made("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 1),
            "appears twice"},
        Bad{"DuplicateMetadata", made("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0),
            "appears twice"},
        Bad{"MetadataNumber", made("{\"__metadata__\":{\"k\":1}}", 0), "a number"},
        Bad{"MetadataText", made("{\"__metadata__\":\"k\"}", 0), "a string"},
        Bad{"MetadataObject", made("{\"__metadata__\":{\"k\":{}}}", 0), "is an object"},
        Bad{"TypeNumber", made("{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1),
            "a number"},
        Bad{"NegativeExtent", made(one("U8", "[-1]", "[0,1]"), 1), "negative number -1"},
        Bad{"FractionalExtent", made(one("U8", "[1.5]", "[0,1]"), 1),
            "1.5, which is no 64-bit whole number"},
        Bad{"HugeExtent", made(one("U8", "[18446744073709551616]", "[0,1]"), 1),
            "no 64-bit whole number"},
        Bad{"ExtentAboveSigned", made(one("U8", "[9223372036854775808]", "[0,1]"), 1), "overflows"},
        Bad{"ProductOverflows", made(one("U8", "[4294967296,4294967296]", "[0,0]"), 0),
            "overflows"},
        Bad{"BytesOverflow", made(one("F32", "[4611686018427387904]", "[0,0]"), 0), "overflows"},
        Bad{"UnknownTypeReversed", made(one("F31", "[1]", "[4,0]"), 4), "data_offsets [4, 0]"},
        Bad{"HalfAByte", made(one("F4", "[3]", "[0,2]"), 2), "its type and shape take"},
        Bad{"DoublesOfAnotherSize", made(one("F64", "[2]", "[0,8]"), 8), "take 16 bytes"},
        Bad{"ManyNumbers",
            made(one("U8", "[1" + std::string(200, ' ') + repeated(",1", 100) + "]", "[0,1]"), 1),
            "more than 64"},
        Bad{"OffsetsReversed", made(one("U8", "[1]", "[1,0]"), 1), "data_offsets [1, 0]"},
        Bad{"OffsetsOfAnotherSize", made(one("F32", "[2]", "[0,4]"), 4), "take 8 bytes"},
        Bad{"OneOffset", made(one("U8", "[1]", "[0]"), 1), "has 1 numbers"},
        Bad{"ThreeOffsets", made(one("U8", "[1]", "[0,1,2]"), 1), "has 3 numbers"},
        Bad{"NestedShape", made(one("U8", "[[1]]", "[0,1]"), 1), "a list"},
        Bad{"ShapeObject", made(one("U8", "{}", "[0,1]"), 1), "is an object"},
        Bad{"NestingBomb", made("{\"a\":" + std::string(100000, '['), 0),
            "stands where the description"},
        Bad{"MissingField", made("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1),
            "lacks \"data_offsets\""},
        Bad{"UnknownField", made("{\"a\":{\"dtype\":\"U8\",\"strides\":[1]}}", 1),
            "unknown field \"strides\""},
        Bad{"EntryIsNull", made("{\"a\":null}", 0), "null stands where"},
        Bad{"EntryIsText", made("{\"a\":\"U8\"}", 0), "a string stands where"},
        Bad{"FirstNotAtZero", made(one("U8", "[1]", "[1,2]"), 2), "a hole"},
        Bad{"Hole",
            made("{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"b\":" + entry("U8", "[1]", "[2,3]") +
                     "}",
                 3),
            "a hole"},
        Bad{"Overlap",
            made("{\"a\":" + entry("U8", "[2]", "[0,2]") + ",\"b\":" + entry("U8", "[2]", "[1,3]") +
                     "}",
                 3),
            "an overlap"},
        Bad{"SamePlaceTwice",
            made("{\"a\":" + entry("U8", "[2]", "[0,2]") + ",\"b\":" + entry("U8", "[2]", "[0,2]") +
                     "}",
                 2),
            "an overlap"},
        Bad{"BeyondTheEnd", made(one("U8", "[3]", "[0,3]"), 2), "there are only 2"},
        Bad{"TrailingBytes", made(one("U8", "[1]", "[0,1]"), 3), "2 bytes follow the last tensor"}),
    [](const auto& test) { return test.param.what; });

TEST_F(Safetensors, AFileCutAnywhereIsRefused) {
  write_safetensors(file("a"), {{"w", Tensor::zeros({3, 5})}, {"n", Tensor::zeros({}, DType::i64)}},
                    {{"k", "v"}});
  const std::string whole = contents(file("a"));
  ASSERT_EQ(refusal(whole), "accepted");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(refusal(whole.substr(0, n)), "accepted") << n;
  std::ofstream(file("cut"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  EXPECT_THROW(read_safetensors(file("cut")), IoError);
}

TEST_F(Safetensors, AChangedByteNeverDoesMoreThanThrow) {
  write_safetensors(file("a"), {{"w", Tensor::zeros({2})}, {"v", Tensor::zeros({1}, DType::u8)}},
                    {{"k", "v"}});
  const std::string whole = contents(file("a"));
  int refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      refused += refusal(damaged) != "accepted";
    }
  EXPECT_EQ(refused, static_cast<int>(8 * whole.size()));
}

TEST_F(Safetensors, AFileWithoutChecksumsIsReadAndMayChangeUnseen) {
  std::string bytes = made(one("U8", "[3]", "[0,3]"), 3);
  EXPECT_EQ(refusal(bytes), "accepted");
  bytes.back() = '\7';
  EXPECT_EQ(refusal(bytes), "accepted");
  write_file(file("a"), bytes);
  check_safetensors(file("a"));
  write_file(file("a"), bytes + "x");
  EXPECT_THROW(check_safetensors(file("a")), IoError);
}

// Where `text` stands in a file, its last letter is changed.
void damage(const fs::path& path, const std::string& text) {
  std::string bytes = contents(path);
  const std::size_t at = bytes.find(text);
  ASSERT_NE(at, std::string::npos) << text;
  bytes[at + text.size() - 1] ^= 1;
  write_file(path, bytes);
}
template <class Read>
std::string problem(Read&& read) {
  try {
    read();
  } catch (const IoError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(Safetensors, EveryReadChecksWhatItReads) {
  const auto write = [&] {
    write_safetensors(file("a"),
                      {{"first", Tensor::full({300'000}, 1.5f)},
                       {"odd\x1b[2J", Tensor::full({1000}, 7, DType::u8)}},
                      {{"key", "value"}});
  };
  write();
  check_safetensors(file("a"));
  const auto wrong = testing::AllOf(HasSubstr(file("a").string()), HasSubstr("checksum"),
                                    HasSubstr("Copy the file again"));
  damage(file("a"), std::string(500, '\7'));
  for (const auto& text : {problem([&] { read_safetensors(file("a")); }),
                           problem([&] { check_safetensors(file("a")); })})
    EXPECT_THAT(text, testing::AllOf(wrong, HasSubstr("tensor \"odd\\x1b[2J\"")));
  EXPECT_EQ(read_safetensors_metadata(file("a")).at("key"), "value") << "which is not damaged";
  for (const char* part : {"value", "first", "U8", "[300000", "\"gossamer_xxh3\":\"0", " 0"}) {
    write();
    std::string bytes = contents(file("a"));
    if (bytes.find(part) == std::string::npos) continue;  // the digits may not begin with 0
    damage(file("a"), part);
    for (const auto& text : {problem([&] { read_safetensors(file("a")); }),
                             problem([&] { read_safetensors_metadata(file("a")); }),
                             problem([&] { check_safetensors(file("a")); })})
      EXPECT_THAT(text, testing::AllOf(wrong, HasSubstr("its header"))) << part;
  }
}

// The digits are those of the command xxhsum -H3.
TEST_F(Safetensors, ChecksumsAreThoseOfXxh3) {
  write_safetensors(file("a"), {{"none", Tensor::zeros({0})}});
  EXPECT_THAT(contents(file("a")), HasSubstr(" 2d06800538d394c2\"}"));
}

TEST_F(Safetensors, ACopyOfOurMetadataInAFileOfOthersMakesNoPromise) {
  write_safetensors(file("a"), {{"a", Tensor::full({1}, 5, DType::u8)}}, {{"format", "pt"}});
  const std::string ours = contents(file("a"));
  const std::size_t begin = ours.find("\"__meta"), end = ours.find('}') + 1;
  const SafeTensors copy = parse(made(
      "{" + ours.substr(begin, end - begin) + ",\"b\":" + entry("U8", "[2]", "[0,2]") + "}", 2));
  EXPECT_EQ(copy.tensors.at(0).name, "b");
  EXPECT_EQ(copy.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST_F(Safetensors, ChecksumsThatAreHandedOnAreNotWritten) {
  write_safetensors(file("a"), {{"a", Tensor::zeros({1})}}, {{"gossamer_xxh3", "stale"}});
  EXPECT_TRUE(read_safetensors(file("a")).metadata.empty());
  EXPECT_TRUE(read_safetensors_metadata(file("a")).empty());
}

TEST_F(Safetensors, TensorsOfTypesThatGossamerLacksAreSkippedByName) {
  const SafeTensors read = parse(made(
      "{\"mask\":" + entry("BOOL", "[2]", "[0,2]") + ",\"a\":" + entry("U8", "[2]", "[2,4]") +
          ",\"tiny\":" + entry("F4", "[4]", "[4,6]") + ",\"new\":" + entry("I3", "[8]", "[6,9]") +
          ",\"deep\":" + entry("U8", "[1,1,1,1,1,1,1]", "[9,10]") + "}",
      10));
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.tensors[0].name, "a");
  EXPECT_EQ(*read.find("a")->as<std::uint8_t>(), 1);
  std::string unread;
  for (const UnreadTensor& t : read.unread) unread += t.name + ":" + t.kind + " ";
  EXPECT_EQ(unread, "mask:BOOL tiny:F4 new:I3 deep:U8 of 7 dimensions ");
}

TEST_F(Safetensors, DoublesAreRoundedAndSaid) {
  std::string bytes = made(one("F64", "[40000]", "[0,320000]"), 0);
  for (int i = 0; i < 40000; ++i) {
    const double value = i + 1e-12;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const SafeTensors read = parse(bytes);
  const Tensor* a = read.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype(), DType::f32);
  for (int i : {0, 1, 39999}) EXPECT_EQ(a->as<float>()[i], static_cast<float>(i + 1e-12));
  EXPECT_THAT(read.notes, testing::ElementsAre("f.safetensors: 1 tensor of f64 rounded to f32"));
}

TEST_F(Safetensors, NoMessageHoldsRawBytesOfTheFile) {
  for (const std::string& bytes :
       {made(one("F32", "[1]", "[0,3]").replace(2, 1, "\\u001b[31m"), 3),
        made("{\"\x1b]0;title\x07\xff", 0), made("{\"a\":{\"\\u009b2J\":1}}", 0)}) {
    const std::string text = refusal(bytes);
    EXPECT_NE(text, "accepted");
    EXPECT_EQ(text, printable(text));
  }
}

TEST_F(Safetensors, AMissingFileAndAFolderAreNamedWithTheReason) {
  try {
    read_safetensors(file("none"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr(file("none").string()), HasSubstr("No such file")));
  }
  EXPECT_THROW(read_safetensors(folder_), IoError);
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THROW(read_safetensors(file("pipe")), IoError);  // and does not hang
}

TEST_F(Safetensors, WritingReplacesTheFileAndLeavesNothingElse) {
  write_file(file("text"), "old and longer");
  write_file(file("text"), "new");
  EXPECT_EQ(contents(file("text")), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1);
  write_file(file("empty"), "");
  EXPECT_EQ(fs::file_size(file("empty")), 0u);
}

TEST_F(Safetensors, WritingThroughALinkReplacesWhatItPointsAt) {
  write_file(file("real"), "1");
  fs::create_symlink("real", file("link"));
  write_file(file("link"), "2");
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(contents(file("real")), "2");
}

TEST_F(Safetensors, AFailedWriteKeepsTheOldFileAndNamesTheReason) {
  try {
    write_file(file("no/such/folder"), "x");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("no/such/folder"), HasSubstr("No such file or directory"),
                               HasSubstr("folder exist?")));
  }
  EXPECT_THROW(write_file(folder_, "x"), IoError);
  EXPECT_THROW(write_file("/dev/null", "x"), IoError);  // rename would replace the device
  write_file(file("a"), "old");
  EXPECT_THROW(write_safetensors(file("a"), {{"t", Tensor::zeros({1})}, {"t", Tensor::zeros({1})}}),
               IoError);
  EXPECT_THROW(write_safetensors(file("a"), {{"__metadata__", Tensor::zeros({1})}}), IoError);
  EXPECT_THROW(write_safetensors(file("a"), {{"\xff", Tensor::zeros({1})}}), IoError);
  EXPECT_EQ(contents(file("a")), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1);
}

TEST_F(Safetensors, LeftoversOfADeadProcessOfTheSameNumberAreSteppedOver) {
  const int count = 3000;  // more than the other tests of this process write
  for (int i = 0; i < count; ++i)
    std::ofstream(file("a").string() + ".tmp-" + std::to_string(::getpid()) + "-" +
                  std::to_string(i))
        << "left";
  write_file(file("a"), "new");
  EXPECT_EQ(contents(file("a")), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), count + 1);
}

TEST_F(Safetensors, AWriteThatFailsHalfWayKeepsTheOldFile) {
  // A file-size limit makes write() fail half way, as a full disk does.
  struct Limit {
    rlimit old{};
    void (*handler)(int);
    Limit() {
      ::getrlimit(RLIMIT_FSIZE, &old);
      rlimit small = old;
      small.rlim_cur = 4096;
      handler = std::signal(SIGXFSZ, SIG_IGN);
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~Limit() {
      ::setrlimit(RLIMIT_FSIZE, &old);
      std::signal(SIGXFSZ, handler);
    }
  };
  write_file(file("a"), "old");
  std::string text;
  {
    const Limit limit;
    try {
      write_file(file("a"), std::string(100'000, 'x'));
    } catch (const IoError& error) {
      text = error.what();
    }
  }
  EXPECT_THAT(text, testing::AllOf(HasSubstr("cannot write"), HasSubstr("File too large")));
  EXPECT_EQ(contents(file("a")), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1);
}

}  // namespace
}  // namespace gossamer
