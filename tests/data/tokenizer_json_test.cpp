// tokenizer.json: ids equal to those of the library tokenizers 0.23.3 on hard strings and on every
// code point (golden/hf_tokenizers.py), and errors that name the step.
#include "gossamer/data/text/tokenizer_json.h"

#include <array>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/steps/characters_utf8.h"
#include "gossamer/data/text/steps/fields.h"
#include "gossamer/data/text/steps/normalize.h"
#include "gossamer/data/text/steps/pre_tokenize.h"

namespace gossamer::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kFolder = GOSSAMER_SOURCE_DIR "/tests/golden/tokenizers";

Json golden_of(const std::filesystem::path& file) { return Json::parse(text_of(file)); }

std::vector<std::string> strings() {
  return golden_of(kFolder / "strings.json")["strings"].get<std::vector<std::string>>();
}

// CRC-32 as zlib has it.
std::string crc_of(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", ~crc);
  return text.data();
}

constexpr char32_t kBlock = 4096;

// As the script's.
std::string block_text(char32_t block) {
  std::string out;
  for (char32_t c = block * kBlock; c < (block + 1) * kBlock; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    out += 'a';
    append_utf8(c, out);
    out += ' ';
    append_utf8(c, out);
    out += '1';
  }
  return out;
}

std::string points_of(const Tokenizer& tokenizer, char32_t block) {
  const Ids ids = [&] {
    Ids out;
    tokenizer.encode_with_marks(block_text(block), out);
    return out;
  }();
  return crc_of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]});
}

Ids with_frame(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids = tokenizer.frame().before;
  tokenizer.encode_with_marks(text, ids);
  const Ids after = tokenizer.frame().after;
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

class TokenizerJson : public ::testing::TestWithParam<const char*> {
 protected:
  // Without tokenizer_config.json, which the library does not read.
  std::shared_ptr<const Tokenizer> tokenizer() const {
    const auto path = kFolder / GetParam() / "tokenizer.json";
    return read_tokenizer_json({path.string(), text_of(path)});
  }
  Json golden() const { return golden_of(kFolder / GetParam() / "golden.json"); }
};

TEST_P(TokenizerJson, EqualsTheLibraryOnHardStrings) {
  const auto own = tokenizer();
  const Json all = golden();
  std::vector<std::string> texts = strings();
  for (const auto& extra : all["extra"]) texts.push_back(extra.get<std::string>());
  ASSERT_GE(texts.size(), 89u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids ids = all["ids"][i].get<Ids>();
    const Json& plain = all["plain"][i];
    EXPECT_EQ(with_frame(*own, texts[i]), ids) << texts[i];
    EXPECT_EQ(ids_of(*own, texts[i]), plain.is_null() ? ids : plain.get<Ids>()) << texts[i];
    const Json& text = all["text"][i];
    EXPECT_EQ(text_from(*own, ids), text.is_null() ? texts[i] : text.get<std::string>());
  }
}

TEST_P(TokenizerJson, EqualsTheLibraryOnEveryCodePoint) {
  const auto own = tokenizer();
  const Json points = golden()["points"];
  ASSERT_EQ(points.size(), 0x110000u / kBlock);
  for (char32_t block = 0; block < 0x110000 / kBlock; ++block)
    ASSERT_EQ(points_of(*own, block), points[block].get<std::string>())
        << "one of the code points from " << block * kBlock;
}

INSTANTIATE_TEST_SUITE_P(Steps, TokenizerJson,
                         ::testing::Values("gpt2", "gpt2-prefix", "cl100k", "o200k", "llama3",
                                           "qwen2", "smollm", "llama2", "mistral", "metaspace-unk",
                                           "added"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Normalizer, EachEqualsTheLibrary) {
  const auto texts = strings();
  const Json all = golden_of(kFolder / "steps.json")["normalizers"];
  ASSERT_GE(all.size(), 16u);
  for (const auto& each : all) {
    const Json& step = each["step"];
    const Normalizer own = read_normalizer(Fields(step, "step"));
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(own(texts[i]),
                each["made"][i].is_null() ? texts[i] : each["made"][i].get<std::string>())
          << step << texts[i];
    for (std::size_t block = 0; block < each["points"].size(); ++block)
      EXPECT_EQ(crc_of(own(block_text(static_cast<char32_t>(block)))), each["points"][block])
          << step << " one of the code points from " << block * kBlock;
  }
}

TEST(PreTokenizer, EachEqualsTheLibrary) {
  const auto texts = strings();
  const Json all = golden_of(kFolder / "steps.json")["pre_tokenizers"];
  ASSERT_GE(all.size(), 100u);
  for (const auto& each : all) {
    const PreTokenizers own = read_pre_tokenizer(Fields(each["step"], "step"));
    std::string joined;
    for (const std::string& text : texts) {
      if (&text != &texts[0]) joined += '\1';
      bool first = true;
      own.run({text, true}, [&](std::string_view piece) {
        if (!first) joined += '\0';
        joined += piece;
        first = false;
      });
    }
    EXPECT_EQ(crc_of(joined), each["made"].get<std::string>()) << each["step"];
  }
}

// A file of bytes a, b and c, with what a test changes in it.
Json small() {
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}}},
            {"merges", {"a b"}}}}};
}
Json split(const char* pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}
std::shared_ptr<const Tokenizer> read(const Json& json) {
  return read_tokenizer_json({"t.json", json.dump()});
}

TEST(TokenizerJsonFiles, AnUnknownStepIsNamed) {
  const auto error = [](const char* key, const Json& value) {
    Json file = small();
    file[Json::json_pointer(key)] = value;
    return error_of([&] { read(file); });
  };
  EXPECT_EQ(error("/version", "1.0"), "no error");
  EXPECT_EQ(error("/truncation", {{"max_length", 5}}), "no error");  // not ours
  EXPECT_THAT(error("/version", "2.0"), HasSubstr("t.json: is of a version"));
  EXPECT_THAT(error("/other", 1), HasSubstr("t.json: has the key \"other\""));
  EXPECT_THAT(error("/model/type", "WordPiece"), HasSubstr("model: is of the type WordPiece"));
  EXPECT_THAT(error("/model/type", "Unigram"), HasSubstr(".model file"));
  EXPECT_THAT(error("/model/dropout", 0.1), HasSubstr("has dropout"));
  EXPECT_THAT(error("/model/end_of_word_suffix", "</w>"), HasSubstr("has end_of_word_suffix"));
  EXPECT_THAT(error("/model/unk_token", "?"), HasSubstr("needs the token \"?\""));
  EXPECT_THAT(error("/model/merges", {"a c"}), HasSubstr("needs the token \"ac\""));
  EXPECT_THAT(error("/model/merges", {"abc"}), HasSubstr("merge 0, which is not two tokens"));
  EXPECT_THAT(error("/model/merges", {1}), HasSubstr("merge 0, which is not two tokens"));
  EXPECT_THAT(error("/model/vocab/d", 3), HasSubstr("the id 3; each token has one of its own"));
  EXPECT_THAT(error("/model/vocab/d", -3), HasSubstr("each token has one of its own"));
  EXPECT_THAT(error("/model/vocab/d", 100'000'000), HasSubstr("at most 4194303 is possible"));
  EXPECT_THAT(error("/normalizer", {{"type", "Nmt"}}), HasSubstr("normalizer: is of the type Nmt"));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "Punctuation"}}),
              HasSubstr("pre_tokenizer: is of the type Punctuation"));
  EXPECT_THAT(error("/pre_tokenizer",
                    {{"type", "Sequence"},
                     {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "WhitespaceSplit"}}}}}),
              HasSubstr("pretokenizers[1]: follows ByteLevel"));
  EXPECT_THAT(error("/decoder", {{"type", "CTC"}}), HasSubstr("decoder: is of the type CTC"));
  EXPECT_THAT(error("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post_processor: is of the type BertProcessing"));
  EXPECT_THAT(error("/added_tokens", {{{"id", 0}, {"content", "z"}}}),
              HasSubstr("added_tokens[0]: has the id 0, which is that of \"a\""));
  EXPECT_THAT(error("/added_tokens", {{{"id", 1}, {"content", "a"}}}),
              HasSubstr("the vocabulary gives \"a\" the id 0"));
}

// What Oniguruma and PCRE2 understand differently.
TEST(TokenizerJsonFiles, APatternThatMeansSomethingElseIsRefused) {
  for (const char* pattern : {R"(\p{N}{1,3}+)",
                              R"(\h+)",
                              R"(\w+)",
                              R"(\bword)",
                              "[[:alpha:]]",
                              "(?m)a",
                              "(?i)a",
                              R"(\X)",
                              R"(a\K)",
                              R"(\R)",
                              "[a-z&&[^b]]",
                              "^a",
                              "a$",
                              "(a)\\1",
                              "(?<n>a)",
                              "a{,3}",
                              "{",
                              "*a",
                              "a**",
                              "a{2}?",
                              R"([\P{L}])",
                              R"(\p{Greek})",
                              "[",
                              "[]a]",
                              "\\",
                              "(?~a)",
                              "a{2}{3}",
                              R"(\x{D800})"}) {
    Json file = small();
    file["pre_tokenizer"] = split(pattern);
    EXPECT_THAT(error_of([&] { read(file); }), AllOf(HasSubstr("E-DATA-04"), HasSubstr("pattern")))
        << pattern;
  }
}

// The c that they want is there, but not behind an a.
TEST(TokenizerJsonFiles, ASearchWithoutEndIsBrokenOff) {
  for (const char* pattern : {"(a+)+c", "(a|aa)+c", "(?:(?:a*)*)*c", "a*a*a*a*a*a*c", "(?=(a+)+c)a",
                              "(?:(?:a{1,9}){1,9}){1,9}c"}) {
    Json file = small();
    file["pre_tokenizer"] = split(pattern);
    EXPECT_THAT(error_of([&] { ids_of(*read(file), std::string(1000, 'a') + "bc"); }),
                HasSubstr("does not end in time"))
        << pattern;
  }
}

// One that begins another token, and many that begin alike.
TEST(TokenizerJsonFiles, ManyAddedTokensTakeNoLongTime) {
  Json file = small();
  for (int i = 0; i < 20'000; ++i)
    file["added_tokens"].push_back({{"id", 4 + i},
                                    {"content", std::string(200, 'a') + std::to_string(i)},
                                    {"special", false}});
  const auto own = read(file);
  EXPECT_EQ(ids_of(*own, std::string(1000, 'a')).size(), 1000u);
  EXPECT_EQ(ids_of(*own, std::string(201, 'a') + "77").size(), 2u);
}

TEST(TokenizerJsonFiles, TheFilesBesideItDecideAboutMarks) {
  const auto folder = kFolder / "llama2";
  const Tokenizer::StoredFile json{"tokenizer.json", text_of(folder / "tokenizer.json")};
  const auto with = [&](const char* config) {
    return read_tokenizer_json(json, Tokenizer::StoredFile{"tokenizer_config.json", config});
  };
  EXPECT_EQ(read_tokenizer_json(json)->frame().before, Ids{1});  // as the template says
  EXPECT_EQ(with("{}")->frame().before, Ids{1});
  EXPECT_EQ(with(R"({"add_bos_token": false})")->frame().before, Ids{});
  const auto ends = with(R"({"add_eos_token": true, "eos_token": {"content": "<unk>"}})");
  EXPECT_EQ(ends->frame().after, Ids{0});
  EXPECT_EQ(ends->marks().end, 0);
  EXPECT_EQ(with(R"({"bos_token": null})")->marks().begin, -1);
  EXPECT_THAT(error_of([&] { with(R"({"eos_token": "<none>"})"); }),
              HasSubstr("eos_token \"<none>\", which is none of the tokens that"));
  EXPECT_EQ(ends->files().size(), 2u);
  EXPECT_NE(ends->hash(), read_tokenizer_json(json)->hash());
}

// As generate does it: the first id loses the space in front, those behind it do not.
TEST(TokenizerJsonFiles, IdsAreDecodedOneAfterTheOther) {
  const auto own = open_tokenizer((kFolder / "llama2").string());
  for (const std::string text : {"Hello world, hello", " a", "caf\u00e9 \u65e5\u672c"}) {
    const Ids ids = ids_of(*own, text);
    std::string whole, rest;
    TextOfIds all(*own), behind(*own, true);
    for (const std::int32_t id : ids) {
      all.add(id, whole);
      behind.add(id, rest);
    }
    EXPECT_EQ(whole, text);
    EXPECT_EQ(rest, " " + text);
  }
}

// Where text may be cut, the ids of the parts are those of the whole.
TEST(TokenizerJsonFiles, PartsGiveTheIdsOfTheWholeWhereTheyMayBeCut) {
  const std::string left = "the King's 1234 men", right = " a word 5 there", whole = left + right;
  int cuts = 0;
  for (const char* name : {"gpt2", "gpt2-prefix", "cl100k", "o200k", "llama3", "qwen2", "smollm",
                           "llama2", "mistral", "metaspace-unk", "added"}) {
    const auto own = open_tokenizer((kFolder / name).string());
    if (!own->can_cut_at_words()) continue;
    Ids parts;
    own->encode(left, parts);
    own->encode(right, parts);
    EXPECT_EQ(parts, ids_of(*own, whole)) << name;
    ++cuts;
  }
  EXPECT_EQ(cuts, 7);  // not where a space is put in front
}

}  // namespace
}  // namespace gossamer::data
