// Workers that lie, and workers of unlike speeds whose steps count alike, in whole runs.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Attack : public ProgramTest {
 protected:
  double top1(const std::string& inject) {
    const Result r = run(tiny({"data.val=s/train", "train.epochs=40", "dist.inject=" + inject}));
    EXPECT_EQ(r.code, 0) << r.err;
    return summary()["top1"].get<double>();
  }
  Result three(const std::string& method, const std::string& inject) {
    auto arguments = tiny({"train.method=" + method, "dist.inject=" + inject});
    arguments.insert(arguments.end(), {"--workers", "3"});
    return run(arguments);
  }
};

// Ten kinds of shapes: who guesses has one right in ten.
TEST_F(Attack, WrongLabelsTeachWhatIsWrong) {
  EXPECT_GT(top1(""), .3);
  EXPECT_LT(top1("attack:0:label-flip"), .1);
}

TEST_F(Attack, ALiarLiesFromItsStepOnAndTheLogSaysSo) {
  const Result r = three("dpsgd", "attack:2:sign-flip@step=1");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::vector<Json> lies = events("inject");
  ASSERT_EQ(lies.size(), 1u);
  EXPECT_EQ(lies[0]["rank"], 2);
  EXPECT_THAT(lies[0]["what"].get<std::string>(), HasSubstr("sign-flip"));
}

TEST_F(Attack, WhatOthersDoNotMixIsNoPlaceForLies) {
  const Result r = three("allreduce", "attack:2:sign-flip");
  EXPECT_EQ(r.code, 2) << r.out;
  EXPECT_THAT(r.err, HasSubstr("without attacks but label-flip, unless train.method is"));
}

// The slow worker sets the longest step; the other's rates are divided by how often it steps
// meanwhile, and a replay takes them from the record.
TEST_F(Attack, StepsOfUnlikeWorkersCountAlikeAndAreRepeated) {
  const auto with = [&](const std::string& key) {
    auto arguments =
        tiny({"train.epochs=20", "train.equal_weight=true", "dist.inject=slow:rank=1:x6",
              "optim.learning_rate=.1", "optim.schedule=constant", "optim.warmup_epochs=0",
              "optim.scaling=none", key});
    arguments.insert(arguments.end(), {"--workers", "2"});
    return run(arguments);
  };
  const Result recorded = with("run.record=record");
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  std::map<int, std::vector<double>> rates;
  for (const int rank : {0, 1}) {
    std::istringstream lines(
        read_text(folder / ("record/events-" + std::to_string(rank) + ".jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (const Json e = Json::parse(line); e.contains("learning_rate"))
        rates[rank].push_back(e["learning_rate"]);
    ASSERT_GT(rates[rank].size(), 10u);
    std::ranges::sort(rates[rank]);
  }
  const auto middle = [&](int rank) { return rates[rank][rates[rank].size() / 2]; };
  EXPECT_LT(2 * middle(0), middle(1));
  EXPECT_LE(middle(1), .11);  // a step as it is now may be a twentieth longer than was said
  const Result repeated = with("run.replay=record");
  EXPECT_EQ(repeated.code, 0) << repeated.err;
  EXPECT_THAT(repeated.out + repeated.err, HasSubstr("digests of 2 workers equal"));
}

}  // namespace
}  // namespace gossamer::apps
