// Small texts for the tests of the program, tokenized by it: documents that repeat themselves, and
// pairs of few sentences, so that small models learn them by heart.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "apps/program.h"
#include "gossamer/data/text/tokenize.h"

namespace gossamer::apps {

struct Pairs {
  std::string source, target;  // lines
};
// Line i is sentence i of 24.
inline Pairs pairs_of_sentences(int count) {
  struct Word {
    const char *source, *target;
  };
  const Word who[] = {{"the cat", "die Katze"},
                      {"the dog", "der Hund"},
                      {"a boy", "ein Junge"},
                      {"a girl", "ein Kind"}};
  const Word does[] = {{"sees", "sieht"}, {"likes", "mag"}, {"hears", "hört"}};
  const Word what[] = {{"music.", "Musik."}, {"the sea.", "das Meer."}};
  Pairs out;
  for (int i = 0; i < count; ++i) {
    const Word &a = who[i % 4], &b = does[i / 4 % 3], &c = what[i / 12 % 2];
    out.source += std::string(a.source) + " " + b.source + " " + c.source + "\n";
    out.target += std::string(a.target) + " " + b.target + " " + c.target + "\n";
  }
  return out;
}

// Writes FOLDER/language (characters) and FOLDER/translation (byte pairs), tokenized.
inline void make_texts(const fs::path& folder) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "the cat sat on the mat, and the dog ran.\n";
  write_text(folder / "text.txt", text);
  const Pairs train = pairs_of_sentences(192), val = pairs_of_sentences(24);
  write_text(folder / "train.en", train.source);
  write_text(folder / "train.de", train.target);
  write_text(folder / "val.en", val.source);
  write_text(folder / "val.de", val.target);
  const auto path = [&](const char* name) { return (folder / name).string(); };
  data::tokenize({.sources = {path("text.txt")},
                  .folder = path("language"),
                  .tokenizer = "characters",
                  .val_fraction = 0.1},
                 [](i64) { return true; });
  data::tokenize({.sources = {path("train.en")},
                  .targets = {path("train.de")},
                  .val_sources = {path("val.en")},
                  .val_targets = {path("val.de")},
                  .folder = path("translation"),
                  .tokenizer = "bpe:310"},
                 [](i64) { return true; });
}

// A folder with these texts.
class TextTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    make_texts(folder);
  }

  // Waits until the program has printed so many lines.
  bool says_lines(int count) const {
    for (int i = 0; i < static_cast<int>(kLimit * 50); ++i) {
      if (std::ranges::count(read_text(folder / "out"), '\n') >= count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Gives the program a line when it has answered the one before.
  void expect_an_answer_to_each_line(const std::vector<std::string>& command,
                                     const std::string& line) {
    const std::string pipe = (folder / "in").string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    in_child = [pipe] { dup2(open(pipe.c_str(), O_RDONLY), 0); };
    start(command);
    const int in = open(pipe.c_str(), O_WRONLY);
    for (int count = 1; count <= 3; ++count) {
      ASSERT_EQ(write(in, line.data(), line.size()), static_cast<ssize_t>(line.size()));
      EXPECT_TRUE(says_lines(count)) << "no answer to line " << count;
    }
    close(in);
    EXPECT_EQ(wait().code, 0);
    in_child = nullptr;
  }
};

// Of language models: TextTest with a small one to train.
class LanguageTest : public TextTest {
 protected:
  static std::vector<std::string> small(std::vector<std::string> more) {
    std::vector<std::string> all{"train",
                                 "task=language",
                                 "data.train=language",
                                 "data.length=16",
                                 "model.layers=1",
                                 "model.width=16",
                                 "model.heads=2",
                                 "train.batch=8",
                                 "train.epochs=2",
                                 "train.threads=1",
                                 "optim.name=adamw",
                                 "optim.learning_rate=0.01",
                                 "optim.warmup_epochs=0",
                                 "run.log_every=1",
                                 "run.name=t"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string model(const std::string& run_name = "t") const {
    return read_text(folder / "runs" / run_name / "model.safetensors");
  }
  // A run that is stopped after its first checkpoint, and goes on, ends with the bits of a whole
  // one.
  void expect_resumes_bit_for_bit(std::vector<std::string> command) {
    command.insert(command.end(), {"run.checkpoint_every=0.4", "run.keep=99"});
    const Result r = run(command);
    ASSERT_EQ(r.code, 0) << r.err;
    const std::string whole = model();
    const std::vector<std::string> labels = checkpoints();
    ASSERT_GE(labels.size(), 3u);
    for (std::size_t i = 1; i < labels.size(); ++i)
      fs::remove_all(folder / "runs/t/checkpoints" / labels[i]);
    fs::remove(folder / "runs/t/model.safetensors");
    const Result again = run({"train", "--resume", "runs/t"});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(model(), whole);
  }
  // After four epochs by two workers.
  double loss_of_two(std::vector<std::string> command, const std::string& method) {
    command.insert(command.end(), {"--workers", "2", "train.method=" + method, "train.epochs=4",
                                   "eval.every=2", "eval.of=mean", "--json"});
    const Result r = run(command);
    EXPECT_EQ(r.code, 0) << r.err;
    fs::remove_all(folder / "runs");
    const Json summary = Json::parse(r.out, nullptr, false);
    if (!summary.is_object()) return NAN;
    EXPECT_EQ(summary["workers_at_end"], 2);
    return summary["loss"];
  }
};

}  // namespace gossamer::apps
