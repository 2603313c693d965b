// A newcomer's path: the commands of apps/README.md, run as they stand there.
#include <sstream>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class ReadmeRun : public ProgramTest {
 protected:
  // The lines of the first code block below a heading.
  static std::vector<std::string> commands_below(const std::string& heading) {
    std::istringstream in(read_text(GOSSAMER_SOURCE_DIR "/apps/README.md"));
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
  const std::vector<std::string> lines = commands_below("## Your own pictures");
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

}  // namespace
}  // namespace gossamer::apps
