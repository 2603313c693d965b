// The other files of tokenizers, SentencePiece's and tiktoken's, vocabularies that are made here
// with a chosen split, and chats.
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/sentence_piece.h"
#include "gossamer/data/text/tiktoken.h"
#include "gossamer/data/text/tokenizer_json.h"

namespace gossamer::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

const std::filesystem::path kGolden = GOSSAMER_SOURCE_DIR "/tests/golden";

Tokenizer::StoredFile file_of(const std::filesystem::path& path) {
  return {path.filename().string(), text_of(path)};
}

class SentencePiece : public ::testing::TestWithParam<const char*> {};

// sentencepiece 0.2.3
TEST_P(SentencePiece, EqualsTheLibraryOnHardStrings) {
  const std::string name = GetParam();
  const auto folder = kGolden / "sentencepiece";
  const auto own = open_tokenizer((folder / (name + ".model")).string());
  const Json golden = Json::parse(text_of(folder / "golden.json"));
  ASSERT_GE(golden["strings"].size(), 90u);
  for (std::size_t i = 0; i < golden["strings"].size(); ++i) {
    const auto text = golden["strings"][i].get<std::string>();
    const auto ids = golden[name][i].get<Ids>();
    EXPECT_EQ(ids_of(*own, text), ids) << text;
    EXPECT_EQ(text_from(*own, ids), golden[name + "_text"][i].get<std::string>()) << text;
  }
  EXPECT_EQ(own->marks().begin, 1);
  EXPECT_EQ(own->marks().end, 2);
  EXPECT_EQ(own->files()[0].name, "tokenizer.model");
  Ids marked;
  own->encode_with_marks("</s>", marked);
  EXPECT_EQ(marked, Ids{2});
}
INSTANTIATE_TEST_SUITE_P(Models, SentencePiece, ::testing::Values("bpe", "unigram"));

TEST(SentencePieceFiles, DamageIsNamed) {
  const auto whole = file_of(kGolden / "sentencepiece" / "bpe.model");
  const auto error = [&](std::string bytes) {
    return error_of([&] { read_sentence_piece({"x.model", std::move(bytes)}); });
  };
  EXPECT_EQ(error(whole.bytes), "no error");
  EXPECT_THAT(error(""), HasSubstr("x.model: is no model of SentencePiece"));
  EXPECT_THAT(error("text"), HasSubstr("x.model: is no model of SentencePiece"));
  EXPECT_THAT(error(whole.bytes.substr(0, whole.bytes.size() - 1)), HasSubstr("damaged at byte"));
}

TEST(Tiktoken, GivesTheIdsOfItsTokenizerJson) {
  const auto folder = kGolden / "tokenizers";
  const auto own = open_tokenizer((folder / "cl100k" / "ranks.tiktoken").string(), "cl100k");
  const auto strings =
      Json::parse(text_of(folder / "strings.json"))["strings"].get<std::vector<std::string>>();
  const Json golden = Json::parse(text_of(folder / "cl100k" / "golden.json"));
  for (std::size_t i = 0; i < strings.size(); ++i)
    EXPECT_EQ(ids_of(*own, strings[i]),
              golden[golden["plain"][i].is_null() ? "ids" : "plain"][i].get<Ids>())
        << strings[i];
  EXPECT_EQ(own->marks().end, 500);  // behind the ranks
  EXPECT_EQ(own->files()[0].name, "tokenizer.json");
}

TEST(Tiktoken, ErrorsNameTheLine) {
  const auto error = [](const char* text) {
    return error_of([&] { read_tiktoken({"x.tiktoken", text}, "cl100k"); });
  };
  EXPECT_THAT(error(""), HasSubstr("x.tiktoken: has no tokens"));
  EXPECT_THAT(error("IQ== 0\nIQ== 1\n"), HasSubstr("x.tiktoken:2: \"IQ== 1\" is there twice"));
  EXPECT_THAT(error("IQ== 0\nIg== 0\n"), HasSubstr("has a rank that another token has"));
  EXPECT_THAT(error("IQ== 0\nI*== 1\n"), HasSubstr("is no base64"));
  EXPECT_THAT(error("IQ==\n"), HasSubstr("is no base64"));
  EXPECT_THAT(error("IQ== 99999999\n"), HasSubstr("with a rank below"));
  EXPECT_THAT(error("IQ== 0\nIg== 2\n"), HasSubstr("no token has the rank 1"));
  EXPECT_THAT(error("IQ== 0\n"), HasSubstr("has no token for byte 0"));
  EXPECT_THAT(error_of<ConfigError>([] { open_tokenizer("x.tiktoken"); }),
              HasSubstr("name its split: gpt2, cl100k"));
  EXPECT_THAT(error_of<ConfigError>([] {
                read_tiktoken({"x", ""}, "klingon");
              }),
              HasSubstr("there is no split \"klingon\""));
}

// The vocabulary's merges are within the pieces of the split, and its file says so.
TEST(BytePairTrainer, TakesAnySplit) {
  const std::string text = "12345 12345 12345 don't DON'T don't DON'T it's a\n\n\nb\n\n\nc";
  for (const char* split : {"cl100k", "qwen2", "o200k", "tekken"}) {
    BytePairTrainer trainer(split);
    trainer.add(text);
    const auto made = trainer.train(300, {"<|endoftext|>"});
    ASSERT_EQ(made->files()[0].name, "tokenizer.json");
    EXPECT_EQ(made->marks().end, 0);
    EXPECT_EQ(text_from(*made, ids_of(*made, text)), text);
    const auto again = read_tokenizer_json(made->files()[0]);
    EXPECT_TRUE(again->same_ids(*made));
    EXPECT_EQ(again->hash(), made->hash());
    // "12345" is one piece to no split: three digits, or one
    EXPECT_GE(ids_of(*made, "12345").size(), 2u) << split;
  }
  BytePairTrainer gpt2;
  gpt2.add(text);
  EXPECT_EQ(ids_of(*gpt2.train(300, {}), "12345").size(), 1u);
}

// transformers 5.24: apply_chat_template()
TEST(Chats, EqualTheTemplates) {
  const auto folder = kGolden / "tokenizers";
  const Json golden = Json::parse(text_of(folder / "chats.json"));
  int texts = 0;
  for (const auto& [name, conversations] : golden.items()) {
    const auto tokenizer = open_tokenizer((folder / name).string());
    const std::string chat = chat_of(*tokenizer);
    for (const auto& each : conversations) {
      std::vector<ChatMessage> messages;
      for (const auto& message : each["messages"])
        messages.push_back({message["role"], message["content"]});
      const auto write = [&] {
        return chat_text(chat, *tokenizer, messages, each["add_generation_prompt"].get<bool>());
      };
      if (each.contains("error")) {
        EXPECT_THAT(error_of<ConfigError>([&] { write(); }),
                    HasSubstr(each["error"].get<std::string>()));
        continue;
      }
      EXPECT_EQ(write(), each["text"].get<std::string>()) << name;
      Ids ids;
      tokenizer->encode_with_marks(write(), ids);
      EXPECT_EQ(ids, each["ids"].get<Ids>()) << name;
      ++texts;
    }
  }
  EXPECT_EQ(texts, 14);
}

TEST(Chats, OthersAreNamed) {
  const auto folder = kGolden / "tokenizers" / "llama2";
  const auto json = file_of(folder / "tokenizer.json");
  const auto with = [&](const char* config) {
    return error_of([&] {
      chat_of(*read_tokenizer_json(json, Tokenizer::StoredFile{"tokenizer_config.json", config}));
    });
  };
  EXPECT_THAT(with("{}"), HasSubstr("has no chat template; name one of chatml, "));
  EXPECT_THAT(with(R"({"chat_template": "{{ hello }}"})"),
              HasSubstr("begins with \"{{ hello }}\", is none of those that are known"));
  const auto tokenizer = read_tokenizer_json(json);
  EXPECT_THAT(error_of<ConfigError>([&] { chat_text("x", *tokenizer, {}, true); }),
              HasSubstr("there is no chat template \"x\""));
}

TEST(Chats, Llama2AndGemmaAsTheirTemplatesHaveThem) {
  const auto tokenizer = open_tokenizer((kGolden / "tokenizers" / "llama2").string());
  const std::vector<ChatMessage> messages{
      {"system", "Be brief."}, {"user", " Hi \n"}, {"assistant", "Hello."}, {"user", "Bye"}};
  EXPECT_EQ(chat_text("llama2", *tokenizer, messages, true),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Hello. </s><s>[INST] Bye "
            "[/INST]");
  EXPECT_EQ(chat_text("gemma", *tokenizer, std::span(messages).subspan(1), true),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
}

}  // namespace
}  // namespace gossamer::data
