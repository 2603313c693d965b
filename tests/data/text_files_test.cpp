// Files of ids and the index of a tokenized text: written and read alike, and every damage is one
// sentence that names the file.
#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/data/text/characters.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Bytes words(const std::vector<std::int32_t>& values) {
  const auto* at = reinterpret_cast<const std::byte*>(values.data());
  return {at, at + values.size() * 4};
}

Bytes halves(const std::vector<std::uint16_t>& values) {
  const auto* at = reinterpret_cast<const std::byte*>(values.data());
  return {at, at + values.size() * 2};
}

// llm.c's header, and these bytes behind it.
Bytes with_header(std::int32_t magic, std::int32_t version, std::int32_t count, const Bytes& ids) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  Bytes all(sizeof(std::int32_t) * header.size() + ids.size());
  std::memcpy(all.data(), header.data(), sizeof(std::int32_t) * header.size());
  std::ranges::copy(ids, all.end() - static_cast<std::ptrdiff_t>(ids.size()));
  return all;
}

Ids read_all(const TokenFiles& files) {
  Ids ids(static_cast<std::size_t>(files.size()));
  files.read(0, ids);
  return ids;
}

TEST(TokenFiles, OfLlmcAndNanogptAreRead) {
  const TempFolder folder;
  const auto a = folder.write("a.bin", halves({1, 2, 65535}));
  const auto b = folder.write("b.bin", with_header(20240520, 1, 2, halves({3, 4})));
  const auto c = folder.write("c.bin", with_header(20240801, 7, 2, words({100'000, 5})));
  const TokenFiles files({a, b, c}, 0);
  EXPECT_THAT(read_all(files), ElementsAre(1, 2, 65535, 3, 4, 100'000, 5));
  Ids some(3);
  files.read(2, some);
  EXPECT_THAT(some, ElementsAre(65535, 3, 4));
  files.read(7, std::span(some).first(0));
  EXPECT_EQ(files.place(3), b + ": id 0");
}

TEST(TokenFiles, DamageIsNamed) {
  const TempFolder folder;
  const auto error = [&](const Bytes& bytes, i64 vocabulary = 0) {
    const auto path = folder.write("x.bin", bytes);
    return error_of([&] { read_all(TokenFiles({path}, vocabulary)); });
  };
  const Bytes ids = halves({1, 2, 3});
  EXPECT_THAT(error({}), AllOf(HasSubstr("E-DATA-05"), HasSubstr("x.bin: the file is empty")));
  EXPECT_THAT(error(Bytes(7)), HasSubstr("x.bin: 7 bytes are no file of u16 ids"));
  Bytes cut = with_header(20240520, 1, 3, ids);
  EXPECT_EQ(error(cut), "no error");
  cut.resize(cut.size() - 3);
  EXPECT_THAT(error(cut),
              HasSubstr("x.bin: its header says 3 ids, and it has 1; it was cut short"));
  cut.resize(500);
  EXPECT_THAT(error(cut), HasSubstr("x.bin: ends at byte 500, inside its header"));
  EXPECT_THAT(error(with_header(20240520, 2, 3, ids)), HasSubstr("x.bin: is of version 2;"));
  EXPECT_THAT(error(with_header(20240801, 1, 3, ids)), HasSubstr("version 7 is known"));
  EXPECT_THAT(error(with_header(20240520, 1, 2, ids)), HasSubstr("says 2 ids, and it has 3"));
  EXPECT_THAT(error(with_header(20240520, 1, -1, ids)), HasSubstr("says -1 ids"));
  EXPECT_THAT(error(with_header(20240520, 1, 3, ids), 3),
              HasSubstr("x.bin: id 2 is 3; the vocabulary has 3"));
  EXPECT_THAT(error(with_header(20240801, 7, 1, words({-5}))), HasSubstr("x.bin: id 0 is -5"));
  EXPECT_THAT(error_of([&] { TokenFiles({folder / "none.bin"}, 0); }), HasSubstr("none.bin"));
}

TEST(TokenWriter, WritesWhatTheReaderReads) {
  const TempFolder folder;
  const Ids ids{1, 2, 3, 4, 5, 6, 7};
  TokenWriter writer(folder / "t", TokenFormat::llmc, 100, 3);
  writer.add(std::span(ids).first(2));
  writer.add(std::span(ids).subspan(2));
  EXPECT_EQ(writer.size(), 7);
  EXPECT_FALSE(std::filesystem::exists(folder / "t-00000.bin"));
  EXPECT_THAT(writer.close(), ElementsAre("t-00000.bin", "t-00001.bin", "t-00002.bin"));
  const TokenFiles files({folder / "t-00000.bin", folder / "t-00001.bin", folder / "t-00002.bin"},
                         8);
  EXPECT_EQ(read_all(files), ids);
  EXPECT_EQ(text_of(folder / "t-00002.bin").size(), 1024u + 2);

  TokenWriter plain(folder / "p", TokenFormat::nanogpt, 65536, 3);
  plain.add(ids);
  EXPECT_THAT(plain.close(), ElementsAre("p.bin"));
  EXPECT_EQ(text_of(folder / "p.bin").size(), 14u);
  EXPECT_EQ(read_all(TokenFiles({folder / "p.bin"}, 0)), ids);

  TokenWriter wide(folder / "w", TokenFormat::llmc, 65537, 100);
  wide.add(Ids{65536});
  EXPECT_THAT(wide.close(), ElementsAre("w-00000.bin"));
  EXPECT_THAT(read_all(TokenFiles({folder / "w-00000.bin"}, 0)), ElementsAre(65536));
  EXPECT_THAT(
      error_of<ConfigError>([&] { TokenWriter(folder / "n", TokenFormat::nanogpt, 65537, 3); }),
      HasSubstr("65537 ids does not fit nanoGPT's u16"));
  EXPECT_THAT(error_of<ConfigError>([&] { parse_token_format("gpt"); }), HasSubstr("\"gpt\""));
}

TEST(TokenWriter, SaysWhyAFileCannotBePutInPlace) {
  const TempFolder folder;
  TokenWriter writer(folder / "t", TokenFormat::llmc, 100, 3);
  writer.add(Ids{1, 2});
  std::filesystem::create_directory(folder / "t-00000.bin");
  errno = 0;
  EXPECT_THAT(error_of<IoError>([&] { writer.close(); }),
              HasSubstr("cannot be put in place: Is a directory"));
}

TEST(TokenWriter, LeavesNothingBehindIfItIsNotClosed) {
  const TempFolder folder;
  {
    TokenWriter writer(folder / "t", TokenFormat::llmc, 100, 2);
    writer.add(Ids{1, 2, 3});
    EXPECT_TRUE(std::filesystem::exists(folder / "t-00001.bin.tmp"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.str()));
  TokenWriter writer(folder / "none/t", TokenFormat::llmc, 100, 2);
  EXPECT_THAT(error_of<IoError>([&] { writer.add(Ids{1}); }), HasSubstr("none/t-00000.bin.tmp"));
}

// A folder as data tokenize makes it.
struct SmallText {
  TempFolder folder;
  TextIndex index;
  SmallText() {
    CharacterSet characters;
    characters.add("abc", "");
    const auto tokenizer = characters.tokenizer();
    folder.write("characters.json", to_bytes(tokenizer->files()[0].bytes));
    TokenWriter writer(folder / "train", TokenFormat::llmc, 3, 100);
    writer.add(Ids{0, 1, 2, 1});
    index.train.files = writer.close();
    index.train.tokens = 4;
    index.train.text_bytes = 4;
    index.vocabulary = 3;
    index.tokenizer = tokenizer->hash();
    store();
  }
  void store() const { folder.write("index.json", to_bytes(encode_text_index(index))); }
};

TEST(TextSet, AFolderWithAnIndexIsRead) {
  const SmallText text;
  const TextSet set = open_text(text.folder.str());
  EXPECT_EQ(set.vocabulary, 3);
  EXPECT_FALSE(set.pairs);
  EXPECT_EQ(set.train.text_bytes, 4);
  EXPECT_THAT(read_all(*set.train.tokens), ElementsAre(0, 1, 2, 1));
  EXPECT_TRUE(set.val.empty());
  EXPECT_EQ(text_from(*set.tokenizer, {0, 1, 2}), "abc");
}

TEST(TextSet, WhatDoesNotFitTheIndexIsNamed) {
  SmallText text;
  const auto error = [&] { return error_of([&] { open_text(text.folder.str()); }); };
  text.index.train.tokens = 5;
  text.store();
  EXPECT_THAT(error(), HasSubstr("index.json says 5 ids, and train-00000.bin has 4"));
  text.index.train.tokens = 4;
  text.index.tokenizer ^= 1;
  text.store();
  EXPECT_THAT(error(), HasSubstr("its tokenizer is another one than the text was made with"));
  text.index.tokenizer ^= 1;
  text.index.train.files = {"other.bin"};
  text.store();
  EXPECT_THAT(error(), HasSubstr("other.bin"));
  std::filesystem::remove(text.folder / "characters.json");
  EXPECT_THAT(error(), HasSubstr("is no tokenizer"));
  EXPECT_THAT(error_of([&] { open_text(text.folder / "none"); }), HasSubstr("E-DATA-01"));
}

TEST(TextIndex, ErrorsNameTheFileAndTheKey) {
  TextIndex index;
  index.vocabulary = 10;
  index.marks.end = 9;
  index.pairs = true;
  index.tokenizer = 0x0123456789abcdef;
  index.train.files = {"a.bin"};
  const std::string good = encode_text_index(index);
  EXPECT_EQ(encode_text_index(decode_text_index(good, "i")), good);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return error_of([&] { decode_text_index(text, "i.json"); });
  };
  EXPECT_THAT(error("{", ""), HasSubstr("E-DATA-05 i.json: is no JSON"));
  EXPECT_THAT(error("\"vocabulary\": 10", "\"vocabulary\": 1e999"), HasSubstr("is no JSON"));
  EXPECT_THAT(error("gossamer text", "other"), HasSubstr("i.json: is no index of tokenized text"));
  EXPECT_THAT(error("\"version\": 1", "\"version\": 2"), HasSubstr("is of version 2; version 1"));
  EXPECT_THAT(error("\"vocabulary\": 10", "\"vocabulary\": 0"), HasSubstr("\"vocabulary\" is 0"));
  EXPECT_THAT(error("\"vocabulary\": 10", "\"vocabulary\": 9"),
              HasSubstr("\"end\" is 9, not in the vocabulary"));
  EXPECT_THAT(error("\"vocabulary\": 10", "\"vocabulary\": 3000000000"), HasSubstr("2147483647"));
  EXPECT_THAT(error("a.bin", "../a.bin"),
              HasSubstr("names \"../a.bin\"; files of the same folder"));
  EXPECT_THAT(error("\"pairs\"", "\"songs\""), HasSubstr("\"kind\" is \"songs\""));
  EXPECT_THAT(error("0123456789abcdef", "xyz"), HasSubstr("no hash of 16 digits"));
  EXPECT_THAT(error("\"items\"", "\"things\""), HasSubstr("i.json, train: \"items\" is missing"));
  EXPECT_THAT(error("\"text_bytes\": 0", "\"text_bytes\": -1"), HasSubstr("\"text_bytes\" is -1"));
  EXPECT_THAT(error("\"text_bytes\": 0", "\"text_bytes\": 1e3"), HasSubstr("a whole number"));
}

TEST(TextSet, ShardsOfOthersFollowEachOtherByName) {
  const TempFolder folder;
  folder.write("fineweb_train_000002.bin", with_header(20240520, 1, 2, halves({4, 5})));
  folder.write("fineweb_train_000001.bin", with_header(20240520, 1, 2, halves({2, 3})));
  folder.write("fineweb_val_000000.bin", with_header(20240520, 1, 1, halves({1})));
  folder.write("oval.bin", halves({6}));
  folder.write(".hidden.bin", halves({7}));
  folder.write("README.md", to_bytes("no"));
  const TextSet set = open_text(folder.str());
  EXPECT_THAT(read_all(*set.train.tokens), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(read_all(*set.val.tokens), ElementsAre(1));
}

TEST(TextSet, BareFilesOfOthersAreRead) {
  const TempFolder folder;
  folder.write("train.bin", halves({1, 2, 3}));
  folder.write("val.bin", halves({4}));
  const TextSet set = open_text(folder.str());
  EXPECT_THAT(read_all(*set.train.tokens), ElementsAre(1, 2, 3));
  EXPECT_THAT(read_all(*set.val.tokens), ElementsAre(4));
  EXPECT_EQ(set.tokenizer, nullptr);
  EXPECT_EQ(set.vocabulary, 0);
  EXPECT_THAT(read_all(*open_text(folder / "val.bin").train.tokens), ElementsAre(4));
  // With a tokenizer beside them, ids are checked.
  folder.write("characters.json", to_bytes(R"(["a", "b", "c", "d"])"));
  EXPECT_THAT(error_of([&] { read_all(*open_text(folder.str()).val.tokens); }),
              HasSubstr("val.bin: id 0 is 4; the vocabulary has 4"));
  const TempFolder empty;
  EXPECT_THAT(error_of([&] { open_text(empty.str()); }),
              HasSubstr("has neither index.json nor a .bin file of ids"));
  EXPECT_THAT(error_of([&] { open_text(empty.write("a.txt", to_bytes("a"))); }),
              HasSubstr("a.txt: is no .bin file of ids"));
}

}  // namespace
}  // namespace gossamer::data
