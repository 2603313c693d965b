// Completion in real shells, and the man page as groff reads it: both know every command, option
// and key.
#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/config.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

bool on_path(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;
}

class Shell : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    for (const char* shell : {"bash", "zsh"})
      write_text(folder / shell, run({"completion", shell}).out);
  }
  // What the shell prints for a script in `folder`.
  std::vector<std::string> lines(const std::string& shell, const std::string& script) {
    write_text(folder / "script", script);
    const std::string command = "cd " + folder.string() + " && " + shell + " script > said 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(folder / "said");
    std::istringstream in(read_text(folder / "said"));
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
  // What bash offers at the end of this line. breaks: characters at which a word ends.
  std::vector<std::string> bash(const std::string& line, const std::string& breaks = "=:") {
    return lines("bash", "source ./bash\ncompopt() { :; }\nCOMP_WORDBREAKS='" + breaks +
                             "'\nCOMP_LINE='" + line +
                             "'\nCOMP_POINT=${#COMP_LINE}\n_gossamer\n"
                             "(( ${#COMPREPLY[@]} )) && printf '%s\\n' \"${COMPREPLY[@]}\"\ntrue");
  }
  // The same for zsh, whose widgets print what they are given.
  std::vector<std::string> zsh(const std::string& line) {
    return lines(
        "zsh -f",
        R"(
compdef() { :; }
compadd() { while [[ $1 == -* ]]; do [[ $1 == -S ]] && shift; shift; done; print -l -- "$@"; }
_describe() { [[ $1 == -o ]] && shift; print -l -- "${(@P)2}"; }
_files() { print files; }
compset() { :; }
source ./zsh
words=(${=:-)" +
            line + "x})\nwords[-1]=${words[-1]%x}\nCURRENT=$#words\nPREFIX=$words[-1]\n_gossamer");
  }
};

TEST_F(Shell, BashCompletesCommandsOptionsKeysAndValues) {
  EXPECT_THAT(bash("gossamer tra"), ElementsAre("train", "translate", "trace"));
  EXPECT_THAT(bash("gossamer data "),
              AllOf(Contains("pack"), Contains("check"), Contains("--help")));
  EXPECT_THAT(bash("gossamer data pack --cop"), ElementsAre("--copy"));
  EXPECT_THAT(bash("gossamer data pack --label-base "), ElementsAre("auto", "0", "1"));
  EXPECT_THAT(bash("gossamer bench step --model resnet18"),
              ElementsAre("resnet18", "resnet18-cifar"));
  EXPECT_THAT(bash("gossamer simulate timeline --lat"), ElementsAre("--latency-s"));
  EXPECT_THAT(bash("build/gossamer train x.toml --work"), ElementsAre("--workers"));
  EXPECT_THAT(bash("gossamer train --workers 2 optim.warm"),
              ElementsAre("optim.warmup_epochs=", "optim.warmup_from="));
  EXPECT_THAT(bash("gossamer run train train.pair"), ElementsAre("train.pairing="));
  EXPECT_THAT(bash("gossamer completion "), Contains("zsh"));
  EXPECT_THAT(bash("gossamer config train.pair"), ElementsAre("train.pairing"));
}

// Readline takes = and : for ends of words, unless the user has changed that.
TEST_F(Shell, BashCompletesTheValuesOfKeys) {
  EXPECT_THAT(bash("gossamer train train.dtype=b"), ElementsAre("bf16"));
  EXPECT_THAT(bash("gossamer train train.dtype=b", ""), ElementsAre("train.dtype=bf16"));
  EXPECT_THAT(bash("gossamer train data.shard=di"), ElementsAre("dirichlet:"));
  EXPECT_THAT(bash("gossamer train data.shard=dirichlet:"), ElementsAre(""));
  EXPECT_THAT(bash("gossamer train data.train="), IsEmpty()) << "files, by bash itself";
  EXPECT_THAT(bash("gossamer train --resume ru"), IsEmpty());
  write_text(folder / "my.toml", "");
  EXPECT_THAT(bash("gossamer train "), AllOf(Contains("my.toml"), Contains("train.batch=")));
}

TEST_F(Shell, ZshOffersTheSameWithTheirMeaning) {
  if (!on_path("zsh")) GTEST_SKIP() << "there is no zsh";
  EXPECT_THAT(zsh("gossamer "), Contains(HasSubstr("eval:Top-1 and top-5")));
  EXPECT_THAT(zsh("gossamer data pack --"), Contains("--copy:copy the files unchanged"));
  EXPECT_THAT(zsh("gossamer data pack --label-base "), ElementsAre("auto", "0", "1"));
  EXPECT_THAT(zsh("gossamer simulate timeline --"), Contains(HasSubstr("--latency-s:seconds")));
  EXPECT_THAT(zsh("gossamer train optim."),
              AllOf(Contains(HasSubstr("optim.gamma:step: factor")), Contains("files")));
  EXPECT_THAT(zsh("gossamer run train train.dtype="), ElementsAre("f32", "bf16", "f16"));
  EXPECT_THAT(zsh("gossamer train data.train="), ElementsAre("files"));
  EXPECT_THAT(zsh("gossamer train --resume "), ElementsAre("files"));
}

TEST_F(Shell, CompletionIsForBashOrZsh) {
  const Result r = run({"completion", "fish"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, AllOf(HasSubstr("fish"), HasSubstr("bash"), HasSubstr("zsh")));
}

TEST_F(Shell, TheManPageHoldsEveryCommandOptionAndKey) {
  if (!on_path("groff")) GTEST_SKIP() << "there is no groff";
  write_text(folder / "page.1", run({"man"}).out);
  const auto said = lines("sh",
                          "groff -man -Tutf8 -ww page.1 > narrow.txt; "
                          "groff -man -Tutf8 -ww -rLL=400n page.1 > page.txt");
  EXPECT_THAT(said, IsEmpty());
  lines("sh", "sed 's/\\x1b\\[[0-9;]*m//g; s/.\\x08//g' page.txt > plain.txt");
  const std::string page = read_text(folder / "plain.txt");
  const auto expect = [&](const std::string& text) {  // the page is too long for a message
    EXPECT_NE(page.find(text), std::string::npos) << text;
  };
  for (const KeyText& key : key_texts()) expect(key.name + " = ");
  // Every option of every command, as completion knows them.
  int commands = 0;
  std::function<void(const std::string&)> look = [&](const std::string& command) {
    ++commands;
    expect(command);
    for (const std::string& word : bash(command + " "))
      if (word.starts_with('-'))
        expect(word);
      else if (command == "gossamer" || command == "gossamer data" || command == "gossamer bench")
        look(command + " " + word);
  };
  look("gossamer");
  EXPECT_GT(commands, 15);
  expect("tfevents…");
  EXPECT_EQ(page.find('\\'), std::string::npos);
}

}  // namespace
}  // namespace gossamer::apps
