// A newcomer's path: the commands of READMEs, run as they stand there; and every command of every
// page exists with its options.
#include <regex>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/text_data.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class ReadmeRun : public ProgramTest {
 protected:
  // The lines of the first code block below a heading.
  static std::vector<std::string> commands_below(const std::string& readme,
                                                 const std::string& heading) {
    std::istringstream in(read_text(fs::path(GOSSAMER_SOURCE_DIR) / readme));
    std::vector<std::string> lines;
    bool below = false, inside = false;
    for (std::string line; std::getline(in, line);) {
      below |= line == heading;
      if (!below) continue;
      if (line == "```") {
        if (inside) return lines;
        inside = true;
      } else if (inside) {
        lines.push_back(line);
      }
    }
    return {};
  }
  Result run_line(const std::string& line) {
    std::istringstream words(line);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    EXPECT_EQ(arguments.at(0), "gossamer") << line;
    arguments.erase(arguments.begin());
    return run(arguments);
  }
};

TEST_F(ReadmeRun, AFolderOfPicturesBecomesAModelAReportAndAnOnnxFile) {
  fs::create_symlink(shapes() / "train", folder / "my");
  const std::vector<std::string> lines = commands_below("apps/README.md", "## Your own pictures");
  ASSERT_EQ(lines.size(), 5u);
  for (const std::string& line : lines) {
    const Result r = run_line(line);
    // A build without ONNX's library says so.
    if (r.code == 2 && r.err.find("libonnx-dev") != std::string::npos) GTEST_SKIP() << r.err;
    ASSERT_EQ(r.code, 0) << line << "\n" << r.out << r.err;
    if (line.find(" classify ") != std::string::npos) EXPECT_THAT(r.out, HasSubstr(".jpg"));
  }
  const std::string report = read_text(folder / "runs/mine/report.html");
  EXPECT_THAT(report, HasSubstr("top-1 <b>"));
  EXPECT_THAT(report, HasSubstr("data.val_split=0.2")) << "the command line";
  EXPECT_GT(fs::file_size(folder / "mine.onnx"), 40u << 20) << "the weights of a ResNet-18";
}

TEST_F(ReadmeRun, TwoFilesOfLinesBecomeATranslation) {
  make_texts(folder);
  fs::copy_file(folder / "val.en", folder / "test.en");
  fs::copy_file(folder / "val.de", folder / "test.de");
  fs::create_symlink(GOSSAMER_SOURCE_DIR "/apps", folder / "apps");
  fs::create_symlink(GOSSAMER_PROGRAM, folder / "gossamer");
  std::string script = "set -e\nPATH=.:$PATH\n";
  for (const std::string& line : commands_below("apps/text/README.md", "## Translating"))
    script += line + "\n";
  program = "/bin/sh";
  const Result r = run({"-c", script});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(r.out, HasSubstr("BLEU = "));
  const std::string translated = read_text(folder / "test.out");
  EXPECT_EQ(std::ranges::count(translated, '\n'), 24);
}

// Those of "Use it" on the first page that need neither data nor a run.
TEST_F(ReadmeRun, TheCommandsOfTheFirstPage) {
  std::istringstream page(read_text(GOSSAMER_SOURCE_DIR "/README.md"));
  std::string script = "set -e\nPATH=.:$PATH\n";
  int commands = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("    gossamer ")) continue;
    line.resize(std::min(line.size(), line.find(" #")));
    if (line.find_first_of("[|") != std::string::npos || line.find("NAME") != std::string::npos)
      continue;
    script += line + "\n";
    ++commands;
  }
  EXPECT_EQ(commands, 7);
  fs::create_symlink(GOSSAMER_PROGRAM, folder / "gossamer");
  program = "/bin/sh";
  const Result r = run({"-c", script});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(read_text(folder / "lesson.html"), ::testing::StartsWith("<!doctype html>"));
}

TEST_F(ReadmeRun, EveryCommandOfEveryPageExistsWithItsOptions) {
  std::map<std::string, std::string> helps;
  const auto help = [&](const std::string& command) -> const std::string& {
    auto [found, fresh] = helps.try_emplace(command);
    if (fresh) {
      std::istringstream words(command + " --help");
      std::vector<std::string> arguments;
      for (std::string word; words >> word;) arguments.push_back(word);
      const Result r = run(arguments);
      EXPECT_EQ(r.code, 0) << command << "\n" << r.err;
      found->second = r.out;
    }
    return found->second;
  };
  // in a block or between backticks; a line that ends with a backslash goes on
  const std::regex said("(?:^|\n *|\\$ |`|build/)gossamer((?: (?:[^\n`\\\\]|\\\\\n)+)*)"),
      option("(^|\\s)(--[a-z][a-z0-9-]*)");
  const std::set<std::string> with_parts{"simulate", "data", "bench", "trace", "course"};
  int commands = 0, options = 0;
  for (const char* at : {"README.md", "core", "nn", "models", "data", "dist", "apps", "tests"}) {
    std::vector<fs::path> files{fs::path(GOSSAMER_SOURCE_DIR) / at};
    if (fs::is_directory(files[0])) {
      const fs::path below = std::exchange(files, {})[0];
      for (const auto& entry : fs::recursive_directory_iterator(below))
        if (entry.path().extension() == ".md") files.push_back(entry.path());
    }
    for (const fs::path& file : files) {
      const std::string text = read_text(file);
      for (std::sregex_iterator it(text.begin(), text.end(), said), end; it != end; ++it) {
        std::string rest = (*it)[1];
        rest.resize(std::min(rest.size(), rest.find(" #")));
        std::istringstream words(rest);
        std::string command, part;
        words >> command;
        static const std::regex word("[a-z][a-z-]*");
        if (!std::regex_match(command, word)) continue;  // of a sentence: gossamer's
        if (with_parts.contains(command) && words >> part && std::regex_match(part, word))
          command += " " + part;
        ++commands;
        const std::string& known = help(command);
        for (std::sregex_iterator o(rest.begin(), rest.end(), option); o != end; ++o) {
          ++options;
          EXPECT_TRUE(std::regex_search(known, std::regex((*o)[2].str() + "\\b")))
              << file << ": gossamer " << command << " has no " << (*o)[2];
        }
      }
    }
  }
  EXPECT_GT(commands, 100);
  EXPECT_GT(options, 100);
}

}  // namespace
}  // namespace gossamer::apps
