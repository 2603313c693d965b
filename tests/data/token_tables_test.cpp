// The tables of tokenizers, as other formats list them, and tokenizers that they cannot describe.
// tests/interop/gguf_llamacpp.py asks llama.cpp for the ids.
#include "gossamer/data/text/token_tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/inner_error.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/tokenizer_json.h"

namespace gossamer::data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

const std::filesystem::path kGolden = GOSSAMER_SOURCE_DIR "/tests/golden";

TokenTables tables_of(const std::string& name) {
  return token_tables(*open_tokenizer((kGolden / "tokenizers" / name).string()));
}
Json json_file(const std::string& name) {
  return Json::parse(text_of(kGolden / "tokenizers" / name / "tokenizer.json"));
}
std::string refusal(const Json& json) {
  const auto tokenizer = read_tokenizer_json({"tokenizer.json", json.dump()});
  return error_of<DataError>([&] { token_tables(*tokenizer); });
}

TEST(TokenTables, OfBytesNameTheirSplit) {
  for (const auto& [name, split] : {std::pair{"gpt2", "gpt2"},
                                    {"cl100k", "cl100k"},
                                    {"llama3", "cl100k"},
                                    {"o200k", "o200k"},
                                    {"qwen2", "qwen2"},
                                    {"smollm", "digits"}}) {
    const TokenTables t = tables_of(name);
    const Json json = json_file(name);
    EXPECT_TRUE(t.byte_level);
    EXPECT_EQ(t.split, split);
    EXPECT_EQ(t.merges.size(), json["model"]["merges"].size()) << name;
    EXPECT_THAT(t.scores, IsEmpty());
    for (const auto& [token, id] : json["model"]["vocab"].items())
      EXPECT_EQ(t.tokens[id.get<std::size_t>()], token);
    for (const Json& each : json["added_tokens"]) {
      const auto id = each["id"].get<std::size_t>();
      EXPECT_EQ(t.tokens[id], each["content"]);
      EXPECT_EQ(t.kinds[id],
                each["special"] == true ? TokenKind::control : TokenKind::user_defined);
    }
    EXPECT_EQ(t.notes.empty(), std::string(name) != "qwen2") << "only that one is normalized";
  }
  EXPECT_TRUE(tables_of("llama3").ignore_merges);
  EXPECT_FALSE(tables_of("cl100k").ignore_merges);
}

TEST(TokenTables, OfGpt2sTwoFilesAreThoseOfTheirText) {
  BytePairTrainer trainer;
  trainer.add("the cat sat on the mat, and the dog ran at the cat.");
  const auto tokenizer = trainer.train(270, {"<|endoftext|>"});
  const TokenTables t = token_tables(*tokenizer);
  EXPECT_TRUE(t.byte_level);
  EXPECT_EQ(t.split, "gpt2");
  const auto end = static_cast<std::size_t>(tokenizer->marks().end);
  EXPECT_EQ(t.tokens[end], "<|endoftext|>");
  EXPECT_EQ(std::ranges::count(t.kinds, TokenKind::control), 1);
  EXPECT_EQ(static_cast<i64>(t.merges.size()), tokenizer->size() - 257);
  for (const std::string& merge : t.merges) {
    const std::size_t space = merge.find(' ');
    const std::string whole = merge.substr(0, space) + merge.substr(space + 1);
    EXPECT_EQ(std::ranges::count(t.tokens, whole), 1) << merge;
  }
}

// Neighbours are merged by scores as by the list of merges: the test merges by both.
std::vector<std::string> merged_by_scores(const TokenTables& t, std::vector<std::string> parts) {
  for (;;) {
    std::size_t at = parts.size();
    float best = -1e30f;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = std::ranges::find(t.tokens, parts[i] + parts[i + 1]);
      if (found == t.tokens.end()) continue;
      const auto id = static_cast<std::size_t>(found - t.tokens.begin());
      if (t.kinds[id] != TokenKind::normal || t.scores[id] <= best) continue;
      best = t.scores[id];
      at = i;
    }
    if (at == parts.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Every way to cut a token in two is a merge, as in published tokenizers of pieces.
Json with_every_split(Json json) {
  Json& model = json["model"];
  std::vector<std::string> order;
  for (const Json& m : model["merges"]) {
    std::string token =
        m.is_string() ? m.get<std::string>() : m[0].get<std::string>() + m[1].get<std::string>();
    std::erase(token, ' ');
    if (std::ranges::find(order, token) == order.end()) order.push_back(token);
  }
  Json merges = Json::array();
  for (const std::string& token : order)
    for (std::size_t at = utf8_length(token); at < token.size();
         at += utf8_length(std::string_view(token).substr(at))) {
      const std::string left = token.substr(0, at), right = token.substr(at);
      if (model["vocab"].contains(left) && model["vocab"].contains(right))
        merges.push_back({left, right});
    }
  model["merges"] = merges;
  return json;
}

TEST(TokenTables, OfPiecesHaveScoresThatMakeTheIdsOfTheMerges) {
  for (const char* name : {"llama2", "mistral"}) {
    const auto tokenizer =
        read_tokenizer_json({"tokenizer.json", with_every_split(json_file(name)).dump()});
    const TokenTables t = token_tables(*tokenizer);
    EXPECT_FALSE(t.byte_level);
    EXPECT_TRUE(t.space_in_front);
    EXPECT_EQ(std::ranges::count(t.kinds, TokenKind::byte), 256);
    EXPECT_EQ(std::ranges::count(t.kinds, TokenKind::unknown), 1);
    for (const char* word : {"therefore", "ungrateful", "kings", "aaaaaaa", "question"}) {
      std::vector<std::string> parts{"\u2581"};
      for (const char* c = word; *c; ++c) parts.emplace_back(1, *c);
      std::vector<std::int32_t> ids;
      tokenizer->encode(word, ids);
      std::vector<std::string> wanted;
      for (const std::int32_t id : ids) wanted.push_back(t.tokens[static_cast<std::size_t>(id)]);
      EXPECT_EQ(merged_by_scores(t, parts), wanted) << name << ": " << word;
    }
  }
  const TokenTables model =
      token_tables(*open_tokenizer((kGolden / "sentencepiece/bpe.model").string()));
  EXPECT_FALSE(model.byte_level);
  EXPECT_EQ(model.tokens[1], "<s>");
  EXPECT_EQ(model.kinds[1], TokenKind::control);
  EXPECT_EQ(model.scores.size(), model.tokens.size());
}

TEST(TokenTables, RefuseWhatTheyCannotSay) {
  EXPECT_THAT(error_of<DataError>([] { tables_of("gpt2-prefix"); }),
              HasSubstr("puts a space in front of each text"));
  EXPECT_THAT(error_of<DataError>([] { tables_of("metaspace-unk"); }),
              HasSubstr("changes text in other ways"));
  EXPECT_THAT(error_of<DataError>([] {
                token_tables(*open_tokenizer((kGolden / "sentencepiece/unigram.model").string()));
              }),
              HasSubstr("is a model of unigrams"));
  Json json = json_file("qwen2");
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a+|[^a]+";
  EXPECT_THAT(refusal(json), HasSubstr("by a pattern without a name"));
  json = json_file("gpt2");
  json["pre_tokenizer"]["use_regex"] = nullptr;
  EXPECT_THAT(refusal(json), HasSubstr("is written in another way"));
  json = json_file("gpt2");
  json["normalizer"] = {{"type", "NFKC"}};
  EXPECT_THAT(refusal(json), HasSubstr("normalizes text by NFKC"));
  json = json_file("llama2");
  json["model"]["byte_fallback"] = false;
  EXPECT_THAT(refusal(json), HasSubstr("by no tokens of their bytes"));
  // By scores a token would be made of parts that no merge joins.
  EXPECT_THAT(refusal(json_file("llama2")), HasSubstr("does not make \""));
  json = with_every_split(json_file("llama2"));
  Json& merges = json["model"]["merges"];
  merges.push_back(merges.front());  // the later one counts
  EXPECT_THAT(refusal(json), HasSubstr("in two places"));
}

TEST(InnerError, LosesItsCode) {
  EXPECT_EQ(without_code("E-DATA-05 a.json:1: is no JSON"), "a.json:1: is no JSON");
  EXPECT_EQ(without_code("a.json:1: E-DATA-05 stands in it"), "a.json:1: E-DATA-05 stands in it");
  EXPECT_EQ(without_code("E-DATA-05"), "E-DATA-05");
}

}  // namespace
}  // namespace gossamer::data
