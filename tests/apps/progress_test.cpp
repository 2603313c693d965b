// The progress lines of a run, with a clock of the test's own.
#include "gossamer/apps/report/progress.h"

#include <cstdio>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/apps/commands/data_progress.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A display that writes to a file, which is no terminal.
class ProgressLines : public ::testing::Test {
 protected:
  void step(double at_s, double samples, bool last = false) {
    now = at_s;
    progress.update({.samples = samples, .total = 1000, .epoch_size = 500, .loss = 2.5}, last);
  }
  std::vector<std::string> lines() const {
    std::rewind(file.get());
    std::vector<std::string> out;
    char line[400];
    while (std::fgets(line, sizeof line, file.get())) out.emplace_back(line);
    return out;
  }

  double now = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), std::fclose};
  Progress progress{file.get(), false, [this] { return now; }};
};

TEST_F(ProgressLines, TheFirstStepIsShownThenOneAtLeastEveryFiveSeconds) {
  EXPECT_TRUE(progress.due());
  step(2, 10);
  EXPECT_FALSE(progress.due());
  step(3, 20);
  step(6.9, 30);
  step(7, 60);   // 5 s after the first
  step(30, 70);  // one long step
  EXPECT_THAT(lines(), ElementsAre(AllOf(HasSubstr("  1.0%"), HasSubstr("loss 2.5"),
                                         Not(HasSubstr("images/s"))),
                                   AllOf(HasSubstr("  6.0%"), HasSubstr(" 10 images/s")),
                                   AllOf(HasSubstr("  7.0%"), HasSubstr("0:30 elapsed"))));
}

TEST_F(ProgressLines, OfTextSayStepsAndIds) {
  progress.update({.samples = 51'200, .total = 1'536'000, .step = 768, .unit = "tokens"});
  EXPECT_THAT(lines(), ElementsAre(AllOf(HasSubstr("  3.3%  step 67/2000  51.2k/1.536M tokens  "),
                                         Not(HasSubstr("epoch")))));
}

// Of commands that go through data; stderr is no terminal in tests.
TEST(ProgressLine, SaysHowManyAndHowFastOnceInHalfAMinute) {
  double now = 0;
  const auto lines = [&](ProgressLine::Options options) {
    testing::internal::CaptureStderr();
    {
      now = 0;
      ProgressLine line("eval", options, [&] { return now; });
      line.show(100);
      now = 2, line.show(500);
      now = 20, line.show(600);
      now = 32, line.show(800);
    }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(lines({.total = 1000, .unit = "images"}),
            "eval 500/1000 (50 %)  250 images/s  0:02 left\n"
            "eval 800/1000 (80 %)  25 images/s  0:08 left\n");
  EXPECT_EQ(lines({.unit = "ids"}), "eval 500  250 ids/s\neval 800  25 ids/s\n");
  EXPECT_EQ(lines({.total = 1000, .silent = true}), "");
  if (isatty(STDERR_FILENO) == 0) EXPECT_FALSE(progress_is_seen(false));
}

TEST_F(ProgressLines, TheLastLineIsNotPrintedTwice) {
  step(1, 10);
  step(6, 1000);
  step(6, 1000, true);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("  1.0%"), HasSubstr("100.0%")));
}

TEST_F(ProgressLines, TheLastStepIsShownSoonAfterAnotherLine) {
  step(1, 10);
  step(1.1, 1000, true);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("  1.0%"), HasSubstr("100.0%")));
}

TEST_F(ProgressLines, ExchangesAreShownOnlyWhereThereAreSome) {
  progress.update({.alive = 4, .workers = 4});
  now = 10;
  progress.update({.samples = 1, .exchanges = true, .alive = 3, .workers = 4});
  EXPECT_THAT(lines(), ElementsAre(AllOf(Not(HasSubstr("exchanges")), Not(HasSubstr("consensus"))),
                                   AllOf(HasSubstr("exchanges/step"), HasSubstr("consensus"),
                                         HasSubstr("3 of 4 workers"))));
}

TEST(Progress, OtherWorkersAreSilent) {
  std::FILE* file = std::tmpfile();
  Progress progress(file, true);
  EXPECT_FALSE(progress.due());
  progress.update({}, true);
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

TEST_F(ProgressLines, ARateThatIsNotReachedIsShownWithWhatWasAskedFor) {
  ProgressState s{.samples = 10, .total = 1000, .exchanges_per_step = 1.04, .exchanges = true};
  progress.update(s);
  s.samples = 20, s.asked_per_step = 2;
  now = 10;
  progress.update(s);
  EXPECT_THAT(lines(), ElementsAre(AllOf(HasSubstr("exchanges/step 1.04"), Not(HasSubstr("asked"))),
                                   HasSubstr("exchanges/step 1.04 of 2 asked")));
}

}  // namespace
}  // namespace gossamer::apps
