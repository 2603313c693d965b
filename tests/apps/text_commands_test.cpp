// gossamer data tokenize from outside: what it says, exit codes, and what it writes.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using TextCommands = ProgramTest;

TEST_F(TextCommands, DocumentsBecomeIds) {
  write_text(folder / "books/a.txt", "one two one two\n<|endoftext|>\nthree one two\n");
  const Result text = run({"data", "tokenize", "books", "--tokenizer", "bpe:300", "--out", "ids",
                           "--val-fraction", "0.5"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("train: "), HasSubstr(" tokens of 1 document, "),
                              HasSubstr("\nval: "), HasSubstr("in ids (")));
  const Result json = run({"data", "tokenize", "books/a.txt", "--tokenizer", "ids", "--out", "more",
                           "--format", "nanogpt", "--json"});
  const Json j = Json::parse(json.out);
  EXPECT_EQ(j["train"]["documents"], 2);
  EXPECT_EQ(j["train"]["text_bytes"], 30);
  EXPECT_EQ(j["whole"], true);
  const data::TextSet set = data::open_text((folder / "more").string());
  EXPECT_EQ(j["vocabulary"], set.vocabulary);
  EXPECT_EQ(j["train"]["tokens"], set.train.tokens->size());
  EXPECT_TRUE(fs::exists(folder / "more/train.bin"));
}

TEST_F(TextCommands, PairsBecomeIds) {
  write_text(folder / "a.en", "one two\n\nthree\n");
  write_text(folder / "a.de", "eins zwei\nnichts\ndrei\n");
  const std::vector<std::string> command{
      "data",         "tokenize", "a.en",        "--target", "a.de",  "--val", "a.en",
      "--val-target", "a.de",     "--tokenizer", "bpe:300",  "--out", "ids"};
  const Result text = run(command);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr(" of 2 pairs\n"), HasSubstr("a side is empty: 2\n")));
  EXPECT_EQ(data::open_text((folder / "ids").string()).train.items, 2);
  const Result again = run(command);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("ids: holds other things"));
}

TEST_F(TextCommands, WrongTextIsOneSentence) {
  write_text(folder / "a.en", "one\ntwo\n");
  write_text(folder / "a.de", "eins\n");
  write_text(folder / "latin.txt", "gr\xfc\xdf\x65\n");
  const auto expect = [&](const std::vector<std::string>& arguments, int code,
                          const std::string& says) {
    std::vector<std::string> all{"data", "tokenize"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--out", "ids"});
    const Result r = run(all);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  expect({"a.en", "--target", "a.de", "--tokenizer", "bpe:300"}, 3,
         "a.de: has 1 line, but a.en:2 goes on");
  expect({"latin.txt", "--tokenizer", "bpe:300"}, 3, "latin.txt:1: byte 3 of the line is no UTF-8");
  expect({"latin.txt", "--tokenizer", "bpe:300"}, 3, "take any bytes as they are (--any-bytes)");
  expect({"none.txt", "--tokenizer", "bpe:300"}, 3, "none.txt");
  expect({"a.en", "--tokenizer", "none"}, 3, "none: there is no such file or folder");
  expect({"a.en", "--tokenizer", "bpe:1"}, 2, "a vocabulary of 1;");
  expect({"a.en"}, 2, "--tokenizer");
  // What the user gave is named as the user gave it.
  const auto wrong = [&](std::vector<std::string> more, int code, const std::string& option) {
    more.insert(more.begin(), {"a.en", "--tokenizer", "bpe:300"});
    expect(more, code, "(" + option + ")");
  };
  wrong({"--val-fraction", "2"}, 2, "--val-fraction");
  wrong({"--val-fraction", "0.1", "--val", "a.en"}, 2, "--val-fraction, --val");
  wrong({"--max-length", "-1"}, 2, "--max-length");
  wrong({"--max-length", "7"}, 2, "--max-length");
  wrong({"--threads", "0"}, 2, "--threads");
  wrong({"--target", "a.de", "--target", "a.de"}, 2, "--target");
  wrong({"--target", "a.de", "--val", "a.en"}, 2, "--val, --val-target");
  expect({"a.en", "--tokenizer", "bpe:x"}, 2, "(--tokenizer)");
}

}  // namespace
}  // namespace gossamer::apps
