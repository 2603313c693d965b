// train.deterministic: what it promises holds, and what cannot be promised is refused.
#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Deterministic : public ProgramTest {
 protected:
  Result start_of(std::vector<std::string> more) {
    more.insert(more.end(), {"train.deterministic=true", "--dry-run"});
    return run(tiny(more));
  }
  // Two workers with two threads each.
  Result pair(const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"run.name=" + name, "train.threads=2", "train.deterministic=true",
                             "--workers", "2"});
    return run(tiny(more));
  }
  void expect_same_models(const std::string& a, const std::string& b) const {
    SCOPED_TRACE(a + " and " + b);
    expect_same_tensors(folder / "runs" / a / "model.safetensors",
                        folder / "runs" / b / "model.safetensors");
  }
};

TEST_F(Deterministic, GossipOfSeveralWorkersIsRefusedAndTheTextSaysWhatToDo) {
  const Result live = start_of({"--workers", "2"});
  EXPECT_EQ(live.code, 2) << live.out;
  EXPECT_THAT(live.err, AllOf(HasSubstr("train.deterministic = true; it must be false with "
                                        "train.method=a2cid2 and 2 workers"),
                              HasSubstr("run.record=FOLDER"), HasSubstr("run.replay=FOLDER"),
                              HasSubstr("allreduce")));
  // here nobody meets, or all meet in rounds
  for (const std::vector<std::string>& fine : {std::vector<std::string>{},
                                               {"train.rate=0", "--workers", "2"},
                                               {"train.method=allreduce", "--workers", "2"}}) {
    const Result r = start_of(fine);
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

TEST_F(Deterministic, ARecordedGossipIsRepeatedBitForBit) {
  ASSERT_EQ(pair("first", {"run.record=record"}).code, 0) << read_text(folder / "err");
  const Result r = pair("again", {"run.replay=record"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GT(summary("again")["replayed_events"], 10);
  expect_same_models("first", "again");
}

class DeterministicMethods : public Deterministic,
                             public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Of, DeterministicMethods,
                         ::testing::Values("allreduce", "dpsgd", "local-sgd", "diloco"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// What comes before a checkpoint does not matter, so the run that goes on is a run of its own.
TEST_P(DeterministicMethods, TwoRunsOfTwoWorkersAndAResumedOneHaveTheSameBits) {
  const std::vector<std::string> keys{"train.method=" + GetParam(), "train.epochs=2",
                                      "run.checkpoint_every=0.75", "run.keep=9"};
  for (const char* name : {"first", "again"})
    ASSERT_EQ(pair(name, keys).code, 0) << read_text(folder / "err");
  expect_same_models("first", "again");
  const std::vector<std::string> labels = checkpoints("runs/first");
  ASSERT_GE(labels.size(), 2u);
  const Result r = run({"train", "runs/first/config.toml", "run.name=resumed", "--workers", "2",
                        "--resume", "runs/first/checkpoints/" + labels[0]});
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same_models("first", "resumed");
}

}  // namespace
}  // namespace gossamer::apps
