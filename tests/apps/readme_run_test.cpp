// A newcomer's path: the commands of READMEs, run as they stand there.
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

}  // namespace
}  // namespace gossamer::apps
