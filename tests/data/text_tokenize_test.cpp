// From text to ids on disk: what is written reads back as the text, whatever files, threads and
// shards; and wrong text is an error with file and line.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/core/random.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/data/text/text_file.h"
#include "gossamer/data/text/tokenize.h"

namespace gossamer::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string words(int n, std::uint64_t seed) {
  static constexpr std::array kWords{"the", "ship", "sails", "über", "water,", "and", "1812", "a"};
  Rng rng(seed);
  std::string text;
  for (int i = 0; i < n; ++i) {
    text += kWords[rng.below(kWords.size())];
    text += rng.below(9) ? ' ' : '\n';
  }
  return text + '\n';
}

class Tokenize : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) {
    return folder_.write(name, to_bytes(text));
  }
  TokenizeReport run(TokenizeOptions options) {
    if (options.folder.empty()) options.folder = folder_ / ("out" + std::to_string(runs_++));
    out_ = options.folder;
    return tokenize(options, [](i64) { return true; });
  }
  std::string error(const TokenizeOptions& options) {
    return error_of<Error>([&] { run(options); });
  }
  static Ids ids_in(const TextPart& part, bool targets = false) {
    const TokenFiles& files = targets ? *part.targets : *part.tokens;
    Ids ids(static_cast<std::size_t>(files.size()));
    files.read(0, ids);
    return ids;
  }
  // The text of a part, with the names of marks.
  std::string text_in(bool val = false, bool targets = false) const {
    const TextSet set = open_text(out_);
    const TextPart& part = val ? set.val : set.train;
    return part.empty() ? "" : text_from(*set.tokenizer, ids_in(part, targets));
  }
  TempFolder folder_;
  std::string out_;
  int runs_ = 0;
};

TEST_F(Tokenize, DocumentsReadBackWithTheirMarks) {
  const std::string a = words(300, 1), b = words(50, 2), c = words(70, 3);
  put("in/b.txt", a + "<|endoftext|>\n" + b);
  put("in/sub/a.md.gz", gzipped(c));
  put("in/.hidden.txt", "no");
  put("in/picture.png", "no");
  const TokenizeReport report = run({.sources = {folder_ / "in"}, .tokenizer = "bpe:300"});
  EXPECT_EQ(text_in(), a + "<|endoftext|>" + b + "<|endoftext|>" + c + "<|endoftext|>");
  EXPECT_EQ(report.index.train.items, 3);
  EXPECT_EQ(report.index.train.text_bytes, static_cast<i64>(a.size() + b.size() + c.size()));
  EXPECT_EQ(report.index.vocabulary, open_text(out_).vocabulary);
  EXPECT_TRUE(open_text(out_).val.empty());
}

TEST_F(Tokenize, FilesWithoutTextAndOtherFilesAreLeftOutAndNamed) {
  put("in/a.TXT", "one");
  put("in/b.text", "two");
  put("in/c.Md.GZ", gzipped("three"));
  put("in/d.txt", "");
  put("in/e.txt.gz", gzipped(""));
  put("in/f.csv", "no");
  const TokenizeReport report = run({.sources = {folder_ / "in"}, .tokenizer = "bpe:257"});
  EXPECT_EQ(text_in(), "one<|endoftext|>two<|endoftext|>three<|endoftext|>");
  EXPECT_THAT(report.empty_files, ElementsAre(folder_ / "in/d.txt", folder_ / "in/e.txt.gz"));
  EXPECT_THAT(report.other_files, ElementsAre(folder_ / "in/f.csv"));
}

TEST_F(Tokenize, JsonLinesAreReadByTheirField) {
  const std::string lines = R"({"text": "one\nline", "id": 1}
{"id": 2, "text": "zwölf"}

{"id": 3, "text": null}
{"text": "<|endoftext|>"}
)";
  put("in/a.jsonl", lines);
  put("in/b.JSONL.gz", gzipped(lines));
  const TokenizeReport report = run({.sources = {folder_ / "in"}, .tokenizer = "bpe:257"});
  const std::string one = "one\nline<|endoftext|>zwölf<|endoftext|><|endoftext|><|endoftext|>";
  EXPECT_EQ(text_in(), one + one);
  EXPECT_EQ(report.index.train.items, 6);
  const auto refused = [&](const std::string& text, const std::string& field = "text") {
    return error({.sources = {put("bad.jsonl", text)}, .tokenizer = "bpe:257", .field = field});
  };
  EXPECT_THAT(refused(lines, "id"), HasSubstr("bad.jsonl:1: field \"id\" is number, not a string"));
  EXPECT_THAT(refused("{\"text\": \"a\"}\n{\"body\": \"b\"}\n"),
              HasSubstr("bad.jsonl:2: there is no field \"text\"; name the field with "
                        "the text. The line has body"));
  EXPECT_THAT(refused("[1]\n"), HasSubstr("bad.jsonl:1: the line is no JSON object"));
  EXPECT_THAT(refused("{\n"), HasSubstr("bad.jsonl:1: the line is no JSON: "));
  EXPECT_EQ(refused("{\"body\": \"b\"}\n", "body"), "no error");
  // of pairs too
  put("a.jsonl", "{\"text\": \"one\"}\n");
  put("a.de", "eins\n");
  run({.sources = {folder_ / "a.jsonl"}, .targets = {folder_ / "a.de"}, .tokenizer = "bpe:259"});
  EXPECT_EQ(text_in(), "one</s>");
  EXPECT_EQ(text_in(false, true), "eins</s>");
}

// Standard input, while it lives, is a file with this text.
class StandardInputIs {
 public:
  explicit StandardInputIs(const std::string& path) : before_(dup(STDIN_FILENO)) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    dup2(file, STDIN_FILENO);
    close(file);
  }
  ~StandardInputIs() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }
  StandardInputIs(const StandardInputIs&) = delete;
  StandardInputIs& operator=(const StandardInputIs&) = delete;

 private:
  int before_;
};

TEST_F(Tokenize, StandardInputIsTextOrJsonLines) {
  const std::string tokenizer = put("v/characters.json", R"(["a", "b", "c", "\n"])");
  const auto text = put("in", "ab\n<|endoftext|>\nc\n");
  const auto lines = put("in.zst", zstd("{\"body\": \"abc\"}\n{\"body\": \"b\"}\n"));
  {
    const StandardInputIs in(text);
    EXPECT_EQ(run({.sources = {"-"}, .tokenizer = tokenizer}).index.train.items, 2);
    EXPECT_EQ(text_in(), "ab\nc\n");
  }
  {
    const StandardInputIs in(lines);
    EXPECT_EQ(run({.sources = {"-"}, .tokenizer = tokenizer, .field = "body"}).index.train.items,
              2);
    EXPECT_EQ(text_in(), "abcb");
  }
  {
    const StandardInputIs in(put("bad", "{\"body\": 1}\n"));
    EXPECT_THAT(error({.sources = {"-"}, .tokenizer = tokenizer, .field = "body"}),
                HasSubstr("standard input:1: field \"body\" is number"));
  }
  EXPECT_THAT(error({.sources = {"-"}, .tokenizer = "bpe:300"}),
              HasSubstr("reads all text twice, and standard input (-) can be read once"));
  EXPECT_THAT(error({.sources = {"-", "-"}, .tokenizer = tokenizer}),
              HasSubstr("standard input (-) is named 2 times"));
}

// A pipe that gives nothing does not keep the command from being stopped.
TEST_F(Tokenize, ItCanBeStoppedWhileStandardInputIsSilent) {
  const std::string tokenizer = put("v/characters.json", R"(["a"])");
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const StandardInputIs in("/dev/fd/" + std::to_string(ends[0]));
  const TokenizeReport report =
      tokenize({.sources = {"-"}, .folder = folder_ / "out", .tokenizer = tokenizer},
               [](i64) { return false; });
  EXPECT_FALSE(report.whole);
  for (const int end : ends) close(end);
}

TEST_F(Tokenize, ZstdIsReadLikeGzip) {
  std::string all;
  for (std::uint64_t d = 0; d < 3; ++d) all += words(60'000, d);
  // several frames, and one to be skipped in front, as pzstd writes them
  const std::string skipped("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);
  const std::string packed = skipped + zstd(all.substr(0, 500'000)) + zstd(all.substr(500'000));
  put("in/a.txt.zst", packed);
  put("in/b.jsonl.ZST", zstd("{\"text\": \"more\"}\n"));
  put("in/c.txt.zst", zstd(""));
  const TokenizeReport report = run({.sources = {folder_ / "in"}, .tokenizer = "bpe:300"});
  EXPECT_EQ(text_in(), all + "<|endoftext|>more<|endoftext|>");
  EXPECT_THAT(report.empty_files, ElementsAre(folder_ / "in/c.txt.zst"));
  // Zeros come out of few bytes, so that the library has text left when the file is over.
  const std::string zeros(5'000'000, 'a');
  run({.sources = {put("zeros.zst", zstd(zeros + "\n"))}, .tokenizer = "characters"});
  EXPECT_EQ(text_in(), zeros + "\n");
  std::string damaged = zstd(all);
  EXPECT_THAT(error({.sources = {put("cut.zst", damaged.substr(0, damaged.size() / 2))},
                     .tokenizer = "bpe:300"}),
              HasSubstr("cut.zst: damaged zstd before byte"));
  damaged[5] = static_cast<char>(damaged[5] ^ 0xf0);
  EXPECT_THAT(error({.sources = {put("hit.zst", damaged)}, .tokenizer = "bpe:300"}),
              HasSubstr("hit.zst: damaged zstd before byte"));
}

TEST_F(Tokenize, TheHashOfATextHoldsItBack) {
  std::string all;
  for (int d = 0; d < 400; ++d)  // every document twice
    all += "document " + std::to_string(d % 200) + "\n<|endoftext|>\n";
  const auto a = put("a.txt", all);
  const auto options = [&](std::vector<std::string> sources) {
    return TokenizeOptions{.sources = std::move(sources),
                           .tokenizer = "bpe:257",
                           .val_fraction = 0.1,
                           .val_by = HeldOut::hash};
  };
  const TokenizeReport report = run(options({a}));
  const std::string held = text_in(true);
  EXPECT_GT(report.index.val.items, 20);
  EXPECT_LT(report.index.val.items, 60);
  EXPECT_EQ(report.index.val.items % 2, 0);
  for (int d = 0; d < 200; ++d) {
    const std::string document = "document " + std::to_string(d) + "\n<|endoftext|>";
    EXPECT_NE(held.find(document) != held.npos, text_in().find(document) != std::string::npos);
  }
  EXPECT_EQ(report.index.made.options.at("val_by"), "hash");
  EXPECT_EQ(report.index.made.options.at("val_fraction"), "0.1");
  // other text around them moves none
  const auto more = put("b.txt", "one\n<|endoftext|>\ntwo\n");
  run(options({more, a}));
  EXPECT_NE(text_in(true).find(held), std::string::npos);
  // of pairs the source decides
  std::string source, target;
  for (int i = 0; i < 100; ++i)
    source += "source " + std::to_string(i % 50) + "\n", target += std::to_string(i) + "\n";
  TokenizeOptions pairs = options({put("a.en", source)});
  pairs.targets = {put("a.de", target)};
  pairs.tokenizer = "bpe:259";
  EXPECT_EQ(run(pairs).index.val.items % 2, 0);
  pairs.val_fraction = 0;
  EXPECT_THAT(error(pairs), HasSubstr("the validation fraction is 0"));
}

TEST_F(Tokenize, TheIndexSaysWhatItWasMadeOf) {
  const auto a = put("a.jsonl", "{\"body\": \"ab\"}\n"), b = put("b.txt", "ba");
  run({.sources = {a}, .val_sources = {b}, .tokenizer = "characters", .field = "body"});
  const TextIndex index = decode_text_index(text_of(out_ + "/index.json"), "index.json");
  EXPECT_EQ(index.made.tokenizer, "characters");
  EXPECT_THAT(index.made.text, ElementsAre(a));
  EXPECT_THAT(index.made.val_text, ElementsAre(b));
  EXPECT_EQ(index.made.options, (std::map<std::string, std::string>{{"field", "body"}}));
}

TEST_F(Tokenize, AVocabularyThatIsSmallerThanAskedForIsSaid) {
  put("a.txt", std::string(20'000, 'a'));
  const TokenizeReport report = run({.sources = {folder_ / "a.txt"}, .tokenizer = "bpe:2000"});
  EXPECT_LT(report.index.vocabulary, 300);
  EXPECT_EQ(report.ids_asked, 2000);
  EXPECT_EQ(report.longest_word, 20'000);
}

TEST_F(Tokenize, ThreadsAndShardsChangeNothing) {
  std::string all;
  for (std::uint64_t d = 0; d < 30; ++d) all += words(30'000, d) + "<|endoftext|>\n";
  put("all.txt", all);
  put("all.txt.gz", gzipped(all.substr(0, 1000)) + gzipped(all.substr(1000)));
  run({.sources = {folder_ / "all.txt"}, .tokenizer = "bpe:400", .threads = 1});
  const Ids wanted = ids_in(open_text(out_).train);
  const std::string tokenizer = out_;
  const auto text = text_in();
  EXPECT_EQ(text.size(), all.size() - 30);  // the line feeds behind the marks
  for (const TokenFormat format : {TokenFormat::llmc, TokenFormat::nanogpt}) {
    const TokenizeReport report = run({.sources = {folder_ / "all.txt.gz"},
                                       .tokenizer = tokenizer,
                                       .format = format,
                                       .shard_tokens = 100'000,
                                       .threads = 3});
    EXPECT_EQ(report.index.train.files.size(),
              format == TokenFormat::llmc ? (wanted.size() + 99'999) / 100'000 : 1u);
    EXPECT_EQ(ids_in(open_text(out_).train), wanted);
  }
}

TEST_F(Tokenize, ValidationDataIsAnEvenPartOrTheEnd) {
  std::string all;
  for (int d = 0; d < 20; ++d) all += "document " + std::to_string(d) + "\n<|endoftext|>\n";
  put("a.txt", all);
  const TokenizeReport report =
      run({.sources = {folder_ / "a.txt"}, .tokenizer = "bpe:257", .val_fraction = 0.1});
  EXPECT_EQ(report.index.train.items, 18);
  EXPECT_EQ(text_in(true), "document 9\n<|endoftext|>document 19\n<|endoftext|>");
  EXPECT_THAT(error({.sources = {folder_ / "a.txt"}, .tokenizer = "bpe:257", .val_fraction = 0.01}),
              HasSubstr("the validation fraction 0.01 of 20 documents is none of them; take a "
                        "larger one, or name files of validation text"));

  put("one.txt", "abcdefghi\xc3\xa4jklmnopq");  // 19 bytes; 9.5 from the start
  run({.sources = {folder_ / "one.txt"}, .tokenizer = "characters", .val_fraction = 0.5});
  EXPECT_EQ(text_in(), "abcdefghi");
  EXPECT_EQ(text_in(true), "\xc3\xa4jklmnopq");

  put("val.txt", "ab");
  run({.sources = {folder_ / "one.txt"},
       .val_sources = {folder_ / "val.txt"},
       .tokenizer = "characters"});
  EXPECT_EQ(text_in(true), "ab");
}

TEST_F(Tokenize, PairsKeepTheirOrder) {
  put("a.en", "one\n\ntwo two\r\nthree\nfour a b c d e f g h\n");
  put("a.de", "eins\nnichts\nzwei zwei\ndrei\nvier");
  put("v.en", "five\n");
  put("v.de", "fünf\n");
  const TokenizeReport report = run({.sources = {folder_ / "a.en"},
                                     .targets = {folder_ / "a.de"},
                                     .val_sources = {folder_ / "v.en"},
                                     .val_targets = {folder_ / "v.de"},
                                     .tokenizer = "bpe:259",
                                     .max_length = 10});
  EXPECT_EQ(report.empty, 1);
  EXPECT_EQ(report.too_long, 1);
  EXPECT_EQ(report.index.train.items, 3);
  EXPECT_EQ(text_in(), "one</s>two two</s>three</s>");
  EXPECT_EQ(text_in(false, true), "eins</s>zwei zwei</s>drei</s>");
  EXPECT_EQ(text_in(true, true), "fünf</s>");
  EXPECT_EQ(report.index.val.text_bytes, 5);
  const TextSet set = open_text(out_);
  EXPECT_TRUE(set.pairs);
  EXPECT_EQ(set.marks.pad, 0);
  PairLoader loader(set.train, set.marks, {.tokens = 100});
  EXPECT_EQ(loader.size(), 3);
}

TEST_F(Tokenize, WrongTextIsNamedWithFileAndLine) {
  const std::string bpe = "bpe:300";
  const auto bad = put("bad.txt",
                       "good\nb\xff"
                       "d\n");
  EXPECT_THAT(error({.sources = {bad}, .tokenizer = bpe}),
              HasSubstr("bad.txt:2: byte 2 of the line is no UTF-8"));
  EXPECT_EQ(error({.sources = {bad}, .tokenizer = bpe, .any_bytes = true}), "no error");
  EXPECT_EQ(text_in(),
            "good\nb\xff"
            "d\n<|endoftext|>");
  EXPECT_THAT(error({.sources = {put("empty.txt", "")}, .tokenizer = bpe}),
              HasSubstr("there is no text to train on"));
  EXPECT_THAT(error({.sources = {put("sep.txt", "<|endoftext|>\n")}, .tokenizer = bpe}),
              HasSubstr("there is no text to train on"));
  EXPECT_THAT(error({.sources = {folder_ / "none.txt"}, .tokenizer = bpe}), HasSubstr("none.txt"));
  EXPECT_THAT(error({.sources = {std::filesystem::path(put("no/a.png", "x")).parent_path()},
                     .tokenizer = bpe}),
              AllOf(HasSubstr("E-DATA-01"), HasSubstr("no: holds no text")));
  const auto a = put("a.en", "1\n2\n3\n"), b = put("a.de", "1\n2\n");
  EXPECT_THAT(error({.sources = {a}, .targets = {b}, .tokenizer = bpe}),
              HasSubstr("a.de: has 2 lines, but " + a + ":3 goes on"));
  EXPECT_THAT(error({.sources = {b}, .targets = {a}, .tokenizer = bpe}),
              HasSubstr("a.de: has 2 lines, but " + a + ":3 goes on"));
  std::string zip = gzipped(words(5000, 1));
  EXPECT_THAT(error({.sources = {put("cut.gz", zip.substr(0, zip.size() / 2))}, .tokenizer = bpe}),
              HasSubstr("cut.gz: damaged gzip before byte"));
  zip[zip.size() / 2] ^= 0x55;
  EXPECT_THAT(error({.sources = {put("hit.gz", zip)}, .tokenizer = bpe}),
              HasSubstr("hit.gz: damaged gzip before byte"));
  const auto characters = put("v/characters.json", R"(["a", "\n"])");
  EXPECT_THAT(error({.sources = {put("ab.txt", "a\n<|endoftext|>\nab")}, .tokenizer = characters}),
              HasSubstr("ab.txt:3: encode: \"b\" at byte 2 of the text is none of the 2"));
  // An error leaves no ids behind.
  EXPECT_THAT(std::filesystem::is_empty(out_), true);
}

TEST_F(Tokenize, OptionsThatMakeNoSenseAreNamed) {
  const auto a = put("a.txt", "some text\n");
  EXPECT_THAT(error({.sources = {a}}), HasSubstr("no tokenizer is given"));
  EXPECT_THAT(error({.sources = {a}, .tokenizer = "bpe:many"}), HasSubstr("bpe:many"));
  EXPECT_THAT(error({.sources = {a}, .tokenizer = "bpe:10"}), HasSubstr("a vocabulary of 10"));
  EXPECT_THAT(error({.sources = {a}, .tokenizer = "bpe:300", .val_fraction = 1}),
              HasSubstr("validation fraction 1"));
  EXPECT_THAT(
      error({.sources = {a}, .val_sources = {a}, .tokenizer = "bpe:300", .val_fraction = .1}),
      HasSubstr("Give one of them"));
  EXPECT_THAT(error({.sources = {a}, .targets = {a, a}, .tokenizer = "bpe:300"}),
              HasSubstr("1 files of sources and 2 of targets"));
  EXPECT_THAT(error({.sources = {a}, .val_targets = {a}, .tokenizer = "bpe:300"}),
              HasSubstr("which pairs alone have"));
  EXPECT_THAT(error({.sources = {a}, .tokenizer = "bpe:300", .max_length = 5}),
              HasSubstr("a maximal length is for pairs"));
  EXPECT_THAT(error({.sources = {a}, .tokenizer = "bpe:300", .threads = 0}),
              HasSubstr("0 threads"));
  EXPECT_THAT(error({.sources = {a}, .targets = {a}, .tokenizer = "characters"}),
              HasSubstr("characters have no marks for pairs"));
  EXPECT_THAT(error({.sources = {put("empty.txt", "")}, .tokenizer = "characters"}),
              HasSubstr("the text is empty"));
  run({.sources = {a}, .tokenizer = "bpe:300"});
  EXPECT_THAT(error({.sources = {a}, .targets = {a}, .tokenizer = out_}),
              HasSubstr("lacks one of the marks"));
  EXPECT_THAT(error({.sources = {a}, .folder = folder_.str(), .tokenizer = "bpe:300"}),
              HasSubstr("holds other things"));
}

TEST_F(Tokenize, StoppedItLeavesNothing) {
  put("a.txt", words(1000, 1) + "<|endoftext|>\n" + words(1000, 2));
  int calls = 0;
  const TokenizeReport report =
      tokenize({.sources = {folder_ / "a.txt"}, .folder = folder_ / "out", .tokenizer = "bpe:300"},
               [&](i64) { return ++calls < 4; });
  EXPECT_FALSE(report.whole);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(Tokenize, CompressedFilesGiveTiktokensIds) {
  const auto text = text_folder();
  NEEDS_TEXT(text);
  const auto golden = nlohmann::json::parse(text_of(text / "gpt2-bpe" / "golden_tokens.json"));
  for (const auto& each : golden["files"]) {
    // One document, as it stands: no line is a separator.
    run({.sources = {(text / each["file"].get<std::string>()).string()},
         .tokenizer = (text / "gpt2-bpe").string(),
         .separator = "",
         .format = TokenFormat::nanogpt});
    const Ids ids = ids_in(open_text(out_).train);
    ASSERT_EQ(static_cast<int>(ids.size()), each["tokens"].get<int>() + 1);
    EXPECT_EQ(ids.back(), 50256);
    std::filesystem::resize_file(out_ + "/train.bin", 2 * (ids.size() - 1));
    std::array<char, 65> hash{};
    FILE* program = popen(("sha256sum " + out_ + "/train.bin").c_str(), "r");
    ASSERT_NE(program, nullptr);
    EXPECT_EQ(std::fread(hash.data(), 1, 64, program), 64u);
    pclose(program);
    EXPECT_EQ(std::string(hash.data()), each["sha256_u16le"].get<std::string>()) << each["file"];
  }
}

TEST_F(Tokenize, LinesAreFoundAcrossBlocks) {
  std::string text;
  std::vector<std::string> lines;
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    lines.push_back(std::string(rng.below(700), static_cast<char>('a' + i % 26)) + "\n");
    text += lines.back();
  }
  lines.push_back("last");
  text += lines.back();
  for (const std::string& path : {put("a.txt", text), put("a.gz", gzipped(text))}) {
    TextFile file(path);
    std::vector<std::string> found;
    for (std::string line; file.next(line);) found.push_back(line);
    EXPECT_EQ(found, lines);
  }
}

}  // namespace
}  // namespace gossamer::data
