// Tokenizers: ids equal to tiktoken's and merges equal to Hugging Face's, any bytes without loss,
// and errors that name file and line.
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/core/random.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/characters.h"
#include "gossamer/data/text/split_words.h"

namespace gossamer::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

const char* const kSample =
    "low low low low low lower lower newest newest newest newest newest newest widest widest "
    "widest für für Füße";

std::shared_ptr<const Tokenizer> small_vocabulary() {
  BytePairTrainer trainer;
  trainer.add(kSample);
  return trainer.train(275, {"<|endoftext|>"});
}

TEST(BytePairs, EqualTiktokenOnHardStrings) {
  const auto folder = text_folder() / "gpt2-bpe";
  NEEDS_TEXT(folder);
  const auto gpt2 = open_tokenizer(folder.string());
  EXPECT_EQ(gpt2->size(), 50257);
  EXPECT_EQ(gpt2->marks().end, 50256);
  EXPECT_EQ(gpt2->marks().pad, -1);
  const auto golden = nlohmann::json::parse(text_of(folder / "golden_tokens.json"));
  ASSERT_GE(golden["cases"].size(), 38u);
  for (const auto& each : golden["cases"]) {
    const auto text = each["text"].get<std::string>();
    EXPECT_EQ(ids_of(*gpt2, text), each["ids"].get<Ids>()) << text;
    EXPECT_EQ(text_from(*gpt2, each["ids"]), text);
  }
}

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

// Of text like "9-D 20".
Ranges ranges_of(const std::string& text) {
  Ranges out;
  std::istringstream in(text);
  for (std::string one; in >> one;) {
    const auto first = static_cast<char32_t>(std::stoul(one, nullptr, 16));
    const std::size_t dash = one.find('-');
    out.emplace_back(first, dash == std::string::npos ? first
                                                      : static_cast<char32_t>(std::stoul(
                                                            one.substr(dash + 1), nullptr, 16)));
  }
  return out;
}

std::string utf8_of(char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 63)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

// White space, letters and numbers are those of tiktoken and tokenizers
// (golden/unicode_classes.py).
TEST(WordSplitter, EveryCodePointIsWhatItIsToTiktoken) {
  const auto golden =
      nlohmann::json::parse(text_of(GOSSAMER_SOURCE_DIR "/tests/golden/unicode_classes.json"));
  const WordSplitter splitter;
  const auto is_one_piece = [&](const std::string& text) {
    int pieces = 0;
    splitter.split(text, [&](std::string_view) { ++pieces; });
    return pieces == 1;
  };
  for (const auto& [name, before] : {std::pair("space", "\n"), {"letter", "a"}, {"number", "1"}}) {
    Ranges found;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if ((c >= 0xD800 && c < 0xE000) || !is_one_piece(before + utf8_of(c))) continue;
      if (!found.empty() && found.back().second + 1 == c)
        ++found.back().second;
      else
        found.emplace_back(c, c);
    }
    std::string wanted;
    for (const auto& line : golden[name]) wanted += line.get<std::string>() + ' ';
    EXPECT_EQ(found, ranges_of(wanted)) << name;
  }
}

TEST(WordSplitter, TheMongolianVowelSeparatorIsNoSpace) {
  std::vector<std::string> pieces;
  WordSplitter().split(" \u180e!", [&](std::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_THAT(pieces, ElementsAre(" \u180e!"));
}

// SHA-256 of the ids as u16, by the program of that name.
std::string sha256_of(const Ids& ids) {
  const TempFolder folder;
  Bytes bytes;
  for (const std::int32_t id : ids) {
    bytes.push_back(static_cast<std::byte>(id & 255));
    bytes.push_back(static_cast<std::byte>(id >> 8));
  }
  std::array<char, 65> text{};
  FILE* out = popen(("sha256sum " + folder.write("ids", bytes)).c_str(), "r");
  if (!out) return "";
  const bool read = std::fread(text.data(), 1, 64, out) == 64;
  pclose(out);
  return read ? text.data() : "";
}

TEST(BytePairs, EqualTiktokenOnAWholeFile) {
  const auto folder = text_folder();
  NEEDS_TEXT(folder);
  const auto gpt2 = open_tokenizer((folder / "gpt2-bpe" / "encoder.json").string());
  const auto golden = nlohmann::json::parse(text_of(folder / "gpt2-bpe" / "golden_tokens.json"));
  int files = 0;
  for (const auto& each : golden["files"]) {
    const auto path = folder / each["file"].get<std::string>();
    if (path.extension() == ".gz") continue;
    const std::string text = text_of(path);
    const Ids ids = ids_of(*gpt2, text);
    EXPECT_EQ(static_cast<int>(ids.size()), each["tokens"].get<int>());
    EXPECT_EQ(sha256_of(ids), each["sha256_u16le"].get<std::string>());
    EXPECT_EQ(text_from(*gpt2, ids), text);
    // Cut where the split allows it, the parts give the same ids.
    Ids joined;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end = word_boundary(text, at + 1000);
      gpt2->encode(std::string_view(text).substr(at, end - at), joined);
    }
    EXPECT_EQ(joined, ids);
    ++files;
  }
  EXPECT_GE(files, 1);
}

// The merges that tokenizers 0.23.3 finds (ByteLevel without prefix space, min_frequency=2).
TEST(BytePairs, TrainingEqualsHuggingFace) {
  const auto small = small_vocabulary();
  EXPECT_EQ(small->files()[1].bytes, R"(#version: 0.2
e s
es t
l o
lo w
e w
n ew
Ġ low
Ġ new
Ġnew est
d est
i dest
w idest
Ã ¼
Ġ widest
e r
f Ã¼
Ġ fÃ¼
Ġlow er
)");
  EXPECT_EQ(ids_of(*small, "lowest für"), (Ids{260, 258, 273, 82}));
  EXPECT_EQ(small->marks().end, 0);
  // Written and read again: the same vocabulary.
  const auto files = small->files();
  EXPECT_EQ(read_byte_pairs(files[0], files[1])->hash(), small->hash());
}

TEST(BytePairs, FilesThatSayTheSameGiveTheSameIds) {
  const auto made = small_vocabulary();
  const auto files = made->files();
  const auto with = [&](std::string vocabulary, std::string merges) {
    return read_byte_pairs({"v", std::move(vocabulary)}, {"m", std::move(merges)});
  };
  const nlohmann::json tokens = nlohmann::json::parse(files[0].bytes);
  std::string merges = files[1].bytes.substr(files[1].bytes.find('\n') + 1);
  const auto same = with(tokens.dump(2), merges);
  EXPECT_NE(same->hash(), made->hash());
  EXPECT_TRUE(same->same_ids(*made));
  // Of other merges, of the same ones in another order, and of ids that changed places.
  EXPECT_FALSE(with(files[0].bytes, merges.substr(0, merges.rfind("Ġlow er")))->same_ids(*made));
  std::string order = merges;
  order.replace(0, 9, "es t\ne s\n");
  EXPECT_FALSE(with(files[0].bytes, order)->same_ids(*made));
  nlohmann::json moved = tokens;
  std::swap(moved["a"], moved["b"]);
  EXPECT_FALSE(with(moved.dump(), merges)->same_ids(*made));

  const auto characters = [](const char* text) { return read_characters({"c.json", text}); };
  EXPECT_TRUE(characters(R"(["a", "b"])")->same_ids(*characters(R"(["a","b"])")));
  EXPECT_FALSE(characters(R"(["a", "b"])")->same_ids(*characters(R"(["b", "a"])")));
  EXPECT_FALSE(characters(R"(["a", "b"])")->same_ids(*characters(R"(["a"])")));
}

// A word without repetition, as DNA is: each merge goes to its own places, not through the word. It
// took minutes when each of the merges read the whole word.
TEST(BytePairs, TrainingOnAHugeWordTakesNoLongTime) {
  Rng rng(3);
  std::string word;
  for (int i = 0; i < 2'000'000; ++i) word += "ACGT"[rng.below(4)];
  BytePairTrainer trainer;
  trainer.add(word);
  EXPECT_EQ(trainer.longest_word(), 2'000'000);
  const auto made = trainer.train(4000, {});
  EXPECT_EQ(made->size(), 4000);
  EXPECT_EQ(text_from(*made, ids_of(*made, word)), word);
}

TEST(BytePairs, TrainingStopsWhereNoPairOccursTwice) {
  BytePairTrainer trainer;
  trainer.add("ab ab abc");
  // "ab", " ab"
  EXPECT_EQ(trainer.train(1000, {"<s>"})->size(), 1 + 256 + 2);
  EXPECT_THAT(error_of<ConfigError>([&] { trainer.train(256, {"<s>"}); }),
              HasSubstr("a vocabulary of 256; it has 257 marks and bytes"));
}

// A text that is full of a mark's name may not take the mark's id for a merge.
TEST(BytePairs, NoMergeBecomesAMark) {
  BytePairTrainer trainer;
  trainer.add("<s><s><s><s><s><s>");
  const auto made = trainer.train(300, {"<s>"});
  EXPECT_EQ(made->marks().begin, 0);
  EXPECT_EQ(std::ranges::count(ids_of(*made, "<s><s>"), 0), 0);
}

TEST(BytePairs, MarksComeOfTextOnlyWhereAllowed) {
  const auto small = small_vocabulary();
  const std::string text = "low<|endoftext|>low<|endoftext|>";
  EXPECT_EQ(std::ranges::count(ids_of(*small, text), 0), 0);
  Ids ids;
  small->encode_with_marks(text, ids);
  const Ids low = ids_of(*small, "low");
  Ids wanted = low;
  wanted.push_back(0);
  wanted.insert(wanted.end(), low.begin(), low.end());
  wanted.push_back(0);
  EXPECT_EQ(ids, wanted);
  EXPECT_EQ(text_from(*small, ids), text);
}

TEST(BytePairs, AnyBytesComeBack) {
  const auto small = small_vocabulary();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text : {all, std::string("\xff\xfe\xf0\x9f\x98"), std::string("low\xc3"),
                                  std::string(3, '\0'), std::string("\xed\xa0\x80 \xc0\x80")})
    EXPECT_EQ(text_from(*small, ids_of(*small, text)), text);
  Rng rng(5);
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (std::uint32_t i = rng.below(200); i > 0; --i)
      text += rng.below(3) ? static_cast<char>(rng.word()) : kSample[rng.below(60)];
    ASSERT_EQ(text_from(*small, ids_of(*small, text)), text);
  }
}

// Pieces without end are merged in n log n, and split in n.
TEST(BytePairs, LongPiecesTakeNoLongTime) {
  const auto small = small_vocabulary();
  for (const std::string& text :
       {std::string(2'000'000, 'o'), std::string(2'000'000, ' '), std::string(2'000'000, '\xff'),
        std::string(2'000'000, '!'), std::string(1'000'000, '\n') + "x"})
    EXPECT_EQ(text_from(*small, ids_of(*small, text)), text);
}

TEST(BytePairs, IdsThatAreNotThereAreErrors) {
  const auto small = small_vocabulary();
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(small->size())})
    EXPECT_THAT(error_of([&] { text_from(*small, {id}); }),
                HasSubstr("there is no id " + std::to_string(id) + "; the vocabulary has " +
                          std::to_string(small->size())));
}

TEST(BytePairs, ErrorsNameFileAndLine) {
  const auto files = small_vocabulary()->files();
  const auto error = [&](const std::string& vocabulary, const std::string& merges) {
    return error_of([&] { read_byte_pairs({"v.json", vocabulary}, {"m.txt", merges}); });
  };
  const std::string v = files[0].bytes, m = files[1].bytes;
  EXPECT_EQ(error(v, m), "no error");
  EXPECT_EQ(error(v, ""), "no error");  // bytes alone
  EXPECT_THAT(error("", m), AllOf(HasSubstr("E-DATA-05 v.json: is no JSON"), HasSubstr("line 1")));
  EXPECT_THAT(error("1e999", m), HasSubstr("v.json: is no JSON"));  // no double
  EXPECT_THAT(error("[1]", m), HasSubstr("v.json: is no vocabulary"));
  EXPECT_THAT(error("{}", m), HasSubstr("v.json: is no vocabulary"));
  EXPECT_THAT(error(R"({"a": 0, "b": 2})", m),
              HasSubstr(R"(token "b" has the id 2; the ids of 2 tokens are 0 to 1)"));
  EXPECT_THAT(error(R"({"a": 0, "b": 0})", m), HasSubstr(R"(token "b" has the id 0;)"));
  EXPECT_THAT(error(R"({"a": 0, "b": "1"})", m), HasSubstr(R"(has the id "1")"));
  EXPECT_THAT(error(R"({"a": 0, "": 1})", m), HasSubstr("token is empty"));
  EXPECT_THAT(error(R"({"a": 0})", m), HasSubstr("v.json: has no token for byte 0"));
  EXPECT_THAT(error(v, m + "q q\n"),
              AllOf(HasSubstr("m.txt:"), HasSubstr(R"("q q" needs the token "qq", which v.json)")));
  EXPECT_THAT(error(v, "#version: 0.2\nl o\nlo\n"),
              HasSubstr(R"(m.txt:3: "lo" is no merge; that is two tokens with a space)"));
  EXPECT_THAT(error(v, "l o\nl o\n"), HasSubstr(R"(m.txt:2: "l o" is there twice)"));
}

TEST(BytePairs, AFolderWithoutATokenizerIsNamed) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { open_tokenizer(folder.str()); }),
              AllOf(HasSubstr("E-DATA-04"), HasSubstr("is no tokenizer; that is a folder with")));
  EXPECT_THAT(error_of([&] { open_tokenizer(folder / "none"); }),
              AllOf(HasSubstr("E-DATA-01"), HasSubstr("no such file")));
  folder.write("vocab.json", to_bytes("{}"));
  EXPECT_THAT(error_of([&] { open_tokenizer(folder.str()); }), HasSubstr("merges.txt"));
  for (const auto& file : small_vocabulary()->files())
    folder.write(file.name, to_bytes(file.bytes));
  EXPECT_EQ(open_tokenizer(folder.str())->hash(), small_vocabulary()->hash());
  EXPECT_EQ(open_tokenizer(folder / "merges.txt")->hash(), small_vocabulary()->hash());
}

TEST(ByteNames, AreGpt2s) {
  std::string names;
  for (const char byte : std::string("a b\0\xff\xad", 6))
    names += byte_names()[static_cast<unsigned char>(byte)];
  EXPECT_EQ(names, "aĠbĀÿŃ");
  EXPECT_EQ(from_byte_names("aĠbĀÿŃ"), std::string("a b\0\xff\xad", 6));
  EXPECT_EQ(from_byte_names("a b"), std::nullopt);
  EXPECT_EQ(from_byte_names("日"), std::nullopt);
}

TEST(Utf8, IsWhatUnicodeCallsWellFormed) {
  for (const char* good : {"a", "é", "日", "😀", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80"})
    EXPECT_EQ(valid_utf8(good), std::strlen(good)) << good;
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe6\x97",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_EQ(valid_utf8("12345678901234" + std::string(bad)), 14u);
}

TEST(Characters, AreIdsInTheirOrder) {
  CharacterSet set;
  set.add("héllo\n", "a.txt");
  const auto made = set.tokenizer();
  EXPECT_EQ(made->size(), 5);
  EXPECT_THAT(ids_of(*made, "hélo\n"), ElementsAre(1, 4, 2, 3, 0));
  EXPECT_EQ(text_from(*made, {1, 4, 2, 3, 0}), "hélo\n");
  EXPECT_EQ(made->marks().end, -1);
  EXPECT_EQ(read_characters(made->files()[0])->hash(), made->hash());
  EXPECT_THAT(
      error_of([&] { ids_of(*made, "hx"); }),
      HasSubstr("\"x\" at byte 2 of the text is none of the 5 characters of the vocabulary"));
  EXPECT_THAT(error_of([&] { ids_of(*made, "h\xff"); }), HasSubstr("no character of UTF-8"));
  EXPECT_THAT(error_of([&] { set.add("ok\xff", "b.txt"); }),
              HasSubstr("b.txt: byte 2 is no UTF-8"));
  const auto error = [](const char* text) {
    return error_of([&] { read_characters({"c.json", text}); });
  };
  EXPECT_THAT(error("["), HasSubstr("c.json: is no JSON"));
  // whose tree has more levels than a stack
  const std::string deep = "[" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "]";
  EXPECT_THAT(error(deep.c_str()), HasSubstr("c.json: is no JSON that can be read: 1000001 lists"));
  EXPECT_THAT(error("{}"), HasSubstr("c.json: is no vocabulary"));
  EXPECT_THAT(error(R"(["a", "bc"])"), HasSubstr(R"(c.json: entry 1 is "bc"; one character)"));
  EXPECT_THAT(error(R"(["a", "a"])"), HasSubstr(R"(c.json: entry 1, "a", is there twice)"));
}

}  // namespace
}  // namespace gossamer::data
