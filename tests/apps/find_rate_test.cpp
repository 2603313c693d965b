// The sweep of learning rates: its numbers, and what the program says and leaves behind.
#include "gossamer/apps/train/find_rate.h"

#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RateSweepOf, AConstantLossGoesToTheLastRate) {
  RateSweep sweep;
  while (sweep.add(2)) {
  }
  ASSERT_EQ(sweep.points().size(), static_cast<std::size_t>(kSweepGradients));
  EXPECT_DOUBLE_EQ(sweep.points().front().rate, 1e-6);
  EXPECT_DOUBLE_EQ(sweep.points().back().rate, 10);
  EXPECT_NEAR(sweep.points()[1].rate / sweep.points()[0].rate,
              sweep.points()[140].rate / sweep.points()[139].rate, 1e-9);
  for (const RateSweep::Point& p : sweep.points()) EXPECT_NEAR(p.loss, 2, 1e-12);
  EXPECT_FALSE(sweep.diverged());
  RateSweep rising;
  for (double loss = 2; rising.add(loss); loss += 0.001) {
  }
  EXPECT_FALSE(suggested(rising.points()).has_value());
}

// The smoothing is that of Adam's moments: beta 0.98, corrected for the start at zero.
TEST(RateSweepOf, ItEndsWhereTheLossDiverges) {
  RateSweep sweep;
  EXPECT_TRUE(sweep.add(1));
  EXPECT_TRUE(sweep.add(3));
  EXPECT_NEAR(sweep.points()[1].loss, (0.98 * 1 + 3) / 1.98, 1e-12);
  EXPECT_FALSE(sweep.add(100));
  EXPECT_TRUE(sweep.diverged());
  RateSweep infinite;
  EXPECT_TRUE(infinite.add(1));
  EXPECT_FALSE(infinite.add(INFINITY));
  EXPECT_TRUE(infinite.diverged());
  EXPECT_EQ(infinite.points().size(), 1u) << "what is no number is no point";
}

TEST(RateSweepOf, TheSuggestionIsTheMiddleOfTheLongestFallDespiteNoise) {
  std::vector<RateSweep::Point> points;
  for (int i = 0; i < 100; ++i)  // flat, a fall from 40 to 70, a rise
    points.push_back({std::pow(10, 0.05 * i - 4), i < 40   ? 2 + 0.001 * i
                                                  : i < 70 ? 2 - 0.02 * (i - 40)
                                                           : 1.4 + 0.1 * (i - 70)});
  points[3].loss = 9, points[5].loss = 2.5;  // steeper: noise of the first batches
  ASSERT_TRUE(suggested(points).has_value());
  EXPECT_NEAR(std::log10(suggested(points)->rate), std::log10(points[55].rate), 0.11);
  EXPECT_FALSE(suggested({points.begin(), points.begin() + 44}).has_value()) << "too short";
}

class FindRate : public ProgramTest {
 protected:
  std::map<std::string, std::string> files_of(const std::string& run) const {
    std::map<std::string, std::string> all;
    for (const auto& e : fs::recursive_directory_iterator(folder / "runs" / run))
      if (e.is_regular_file()) all[e.path()] = read_text(e.path());
    return all;
  }
};

TEST_F(FindRate, SuggestsOneAndLeavesOnlyThePicture) {
  const Result r = run(tiny({"--find-lr"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("\nsweep    "), HasSubstr("\nlr       suggestion: optim."),
                           HasSubstr("\nfiles    runs/t-lr.html\n")));
  EXPECT_FALSE(fs::exists(folder / "runs/t"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "runs"), {}), 1);
  EXPECT_THAT(read_text(folder / "runs/t-lr.html"),
              AllOf(HasSubstr("<polyline"), HasSubstr("suggestion"), HasSubstr(">1e-6<"),
                    Not(HasSubstr("nan"))));
}

TEST_F(FindRate, TheKeyIsForTheScalingAndARunIsLeftAlone) {
  ASSERT_EQ(run(tiny({"run.checkpoint_every=0.5"})).code, 0);
  const auto before = files_of("t");
  const Result r = run(tiny({"train.batch=4", "train.accumulate=2", "--find-lr", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(files_of("t"), before);
  const Json found = Json::parse(r.out);
  EXPECT_EQ(found["rates"].size(), found["losses"].size());
  const auto rate = found["rate"].get<double>();
  EXPECT_GT(rate, 1e-6);
  EXPECT_LT(rate, 10);
  EXPECT_DOUBLE_EQ(found["learning_rate"].get<double>(), rate / 8 * 256);
  const Result adam = run(tiny({"optim.name=adam", "--find-lr", "--json"}));
  const Json same = Json::parse(adam.out);
  EXPECT_EQ(same["learning_rate"], same["rate"]);
}

TEST_F(FindRate, IsOfOneWorkerAtItsStart) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--workers", "2"}, {"--resume", "runs/t"}}) {
    auto arguments = tiny({"--find-lr"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.err, AllOf(HasSubstr("--find-lr"), HasSubstr(more[0])));
  }
}

}  // namespace
}  // namespace gossamer::apps
