// What holds for runs on pictures, on text (GPT-2, LLaMA) and on translations alike: exact resume,
// record and replay, deaths, 16 bits, losses that are no number.
#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EveryTask : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (!pictures()) make_texts(folder);
  }
  bool pictures() const { return GetParam() == "pictures"; }
  std::string task() const { return GetParam() == "llama" ? "language" : GetParam(); }
  // A run of seconds, of about 20 gradients an epoch; later arguments win.
  std::vector<std::string> small(std::vector<std::string> more, int workers = 1) const {
    if (workers > 1) more.insert(more.end(), {"--workers", std::to_string(workers)});
    if (pictures()) {
      more.insert(more.begin(), "train.batch=4");
      return tiny(more);
    }
    std::vector<std::string> all{"train",
                                 "task=" + task(),
                                 "data.train=" + task(),
                                 "data.length=32",
                                 "model.layers=1",
                                 "model.width=16",
                                 "model.heads=2",
                                 task() == "language" ? "train.batch=8" : "train.batch=128",
                                 "train.epochs=1",
                                 "train.threads=1",
                                 "train.device=cpu",
                                 "run.name=t",
                                 "run.log_every=1"};
    if (task() == "translation") all.push_back("model.ff=32");
    all.push_back(GetParam() == "llama" ? "model.name=llama" : "model.dropout=0.1");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Steps of text take less than a millisecond: so many times as many epochs are as long.
  std::string epochs(int of_pictures) const {
    return "train.epochs=" + std::to_string(of_pictures * (pictures() ? 1 : 4));
  }
  // Images or ids of a gradient.
  double gradient() const { return pictures() ? 4 : task() == "language" ? 8 * 32 : 128; }
  // Images, or ids that are predicted, of the validation data.
  double validated() const {
    if (pictures()) return 40;
    const data::TextSet set = data::open_text((folder / task()).string());
    return static_cast<double>(set.pairs ? set.val.targets->size() : set.val.tokens->size() - 1);
  }
  double validated(const Json& s) const { return s[pictures() ? "val_images" : "val_tokens"]; }
  std::string val() const { return "data.val=" + (pictures() ? "s/val" : task()); }
};

INSTANTIATE_TEST_SUITE_P(Of, EveryTask,
                         ::testing::Values("pictures", "language", "llama", "translation"),
                         [](const auto& of) { return of.param; });

TEST_P(EveryTask, AWarmUpThatIsCutIsSaid) {
  const auto says = [&](const std::string& warmup) {
    const Result r = run(small({"train.epochs=2", "optim.warmup_epochs=" + warmup, "--dry-run"}));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out.find("optim.warmup_epochs=" + warmup + " is more than half of train.epochs=2") !=
           std::string::npos;
  };
  EXPECT_FALSE(says("1"));
  EXPECT_TRUE(says("1.5"));
}

TEST_P(EveryTask, ResumedTrainingEqualsUninterruptedTrainingBitForBit) {
  for (const std::string dtype : {"f32", "f16"}) {
    fs::remove_all(folder / "runs/whole");
    ASSERT_EQ(run(small({"train.epochs=2", "run.checkpoint_every=0.75", "run.keep=9",
                         "run.name=whole", "train.dtype=" + dtype}))
                  .code,
              0);
    // In the first and in the second epoch, and at the end: each goes on in a run of its own.
    const std::vector<std::string> labels = checkpoints("runs/whole");
    ASSERT_EQ(labels.size(), 3u);
    for (const std::string& label : labels) {
      if (dtype == "f16" && label != labels[1]) continue;
      const std::string name = "from-" + dtype + label;
      const Result r = run({"train", "runs/whole/config.toml", "run.name=" + name, "--resume",
                            "runs/whole/checkpoints/" + label});
      ASSERT_EQ(r.code, 0) << r.err;
      expect_same_tensors(folder / "runs/whole/model.safetensors",
                          folder / "runs" / name / "model.safetensors");
    }
  }
}

TEST_P(EveryTask, AnInterruptedRunSavesAndGoesOnBitForBit) {
  ASSERT_EQ(run(small({epochs(6), "run.name=whole"})).code, 0);
  start(small({epochs(6), slowed(1, 5)}));
  ASSERT_TRUE(wait_for("step", 3));
  kill(running, SIGTERM);
  const Result stopped = wait();
  ASSERT_EQ(stopped.code, 143) << stopped.err;
  ASSERT_EQ(events("interrupted").size(), 1u);
  const Result r = run({"train", "--resume", "runs/t/"});
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same_tensors(folder / "runs/whole/model.safetensors", folder / "runs/t/model.safetensors");
}

TEST_P(EveryTask, ARunGoesOnWithoutTheFilesThatItWasInitialisedFrom) {
  ASSERT_EQ(run(small({"run.name=base"})).code, 0);
  const std::vector<std::string> keys{epochs(6), "model.init=runs/base"};
  auto whole = keys, slow = keys;
  whole.push_back("run.name=whole");
  slow.push_back(slowed(1, 5));
  ASSERT_EQ(run(small(whole)).code, 0) << read_text(folder / "err");
  start(small(slow));
  ASSERT_TRUE(wait_for("step", 3));
  kill(running, SIGTERM);
  ASSERT_EQ(wait().code, 143);
  fs::remove_all(folder / "runs/base");
  const Result r = run({"train", "--resume", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same_tensors(folder / "runs/whole/model.safetensors", folder / "runs/t/model.safetensors");
  // and once more, with what the command of the start said
  const Result again = run(small({epochs(7), "model.init=runs/base", "--resume", "auto"}));
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_P(EveryTask, AFailedReplayIsAFailedRun) {
  const auto with = [&](const std::string& key) { return run(small({key}, 3)); };
  const Result recorded = with("run.record=record");
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  const Result repeated = with("run.replay=record");
  EXPECT_EQ(repeated.code, 0) << repeated.err;
  i64 events_of_all = 0;
  for (const char* rank : {"0", "1", "2"}) {
    const std::string lines = read_text(folder / ("record/events-" + std::string(rank) + ".jsonl"));
    events_of_all +=
        Json::parse(lines.substr(lines.rfind("{\"event\":\"end\"")))["events"].get<i64>();
  }
  EXPECT_GT(events_of_all, 0);
  EXPECT_THAT(
      repeated.out + repeated.err,
      HasSubstr(std::to_string(events_of_all) + " events repeated, digests of 3 workers equal"));
  EXPECT_EQ(summary()["replayed_events"], events_of_all);
  // the digest of one worker is another
  const fs::path file = folder / "record/events-0.jsonl";
  std::string text = read_text(file);
  char& digit = text.at(text.rfind("\"}") - 1);
  digit = digit == '0' ? '1' : '0';
  write_text(file, text);
  const Result failed = with("run.replay=record");
  EXPECT_EQ(failed.code, 5) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("the parameters are not those of the recorded run"));
  // The others end it, unless they lose worker 0 before.
  EXPECT_THAT(failed.err, ::testing::AnyOf(HasSubstr("only 2 of 3 workers came to the end"),
                                           HasSubstr("the loss of worker 0 has happened instead")));
}

TEST_P(EveryTask, TheOthersGoOnWhenOneOfFourIsKilled) {
  start(small({epochs(30), slowed(4, 3)}, 4));
  const auto pids = workers_at_work(4);
  ASSERT_EQ(pids.size(), 4u) << read_text(folder / "err");
  kill(pids.at(2), SIGKILL);
  const Result r = wait();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(r.err, HasSubstr("worker 2 died (signal 9)"));
  bool dead_seen = false;
  for (const Json& e : events("fault")) dead_seen |= e["peer"] == 2;
  EXPECT_TRUE(dead_seen);
  EXPECT_EQ(summary()["workers_at_end"], 3);
  EXPECT_EQ(validated(summary()), validated());
  // Each survivor trained on after the death.
  const double when = events("fault").at(0)["time"];
  std::map<int, int> later;
  for (const Json& e : events("step"))
    if (e["time"].get<double>() > when) ++later[e["rank"]];
  for (const int rank : {0, 1, 3}) EXPECT_GT(later[rank], 2) << rank;
}

TEST_P(EveryTask, AKilledWorkerIsStartedAgainAndFinishesWithTheOthers) {
  // not over before it is back
  const Result r =
      run(small({epochs(60), slowed(3, 3) + ",kill:rank=1@step=10,restart:rank=1@t=0"}, 3));
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(r.err,
              AllOf(HasSubstr("worker 1 died (signal 9)"), HasSubstr("worker 1 is started again"),
                    HasSubstr("worker 1 takes part again")));
  EXPECT_EQ(summary()["workers_at_end"], 3);
  EXPECT_EQ(validated(summary()), validated());
  std::map<int, int> joined, steps_after;
  for (const Json& e : events("joined")) ++joined[e["rank"]];
  EXPECT_EQ(joined[0], 1);
  EXPECT_EQ(joined[2], 1);
  double again = 0, samples = 0;
  for (const Json& e : events("start"))
    if (e.contains("rejoined")) again = e["time"], samples = e["samples"];
  EXPECT_GT(samples, 10 * 3 * gradient() / 2);  // it takes up the run where it is
  for (const Json& e : events("step"))
    if (e["time"].get<double>() > again) ++steps_after[e["rank"]];
  for (const int rank : {0, 1, 2}) EXPECT_GT(steps_after[rank], 5) << rank;
}

TEST_P(EveryTask, ALossThatIsNoNumberStopsWithTheStepAndAdvice) {
  const Result r =
      run(small({"optim.learning_rate=1e30", "optim.warmup_epochs=0", "optim.schedule=constant"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, AllOf(HasSubstr("the loss is not a number at step"), HasSubstr("worker 0"),
                           HasSubstr("optim.learning_rate")));
}

TEST_P(EveryTask, TwoWorkersInBf16SaveAModelInF32) {
  const Result r = run(small({"train.dtype=bf16"}, 2));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  for (const NamedTensor& t : read_safetensors(folder / "runs/t/model.safetensors").tensors)
    EXPECT_NE(t.tensor.dtype(), DType::bf16) << t.name;
}

TEST_P(EveryTask, TwoWorkersInF16CountWhatOverflowedAndSaveAModelInF32) {
  const Result r = run(small({"train.dtype=f16", "optim.clip_norm=1"}, 2));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_THAT(r.out, HasSubstr("f16, loss scale 1024"));
  EXPECT_EQ(summary()["loss_scale"], 1024);
  EXPECT_EQ(summary()["skipped_steps"], 0);
  for (const Json& step : events("step")) EXPECT_EQ(step["skipped_steps"], 0);
  for (const NamedTensor& t : read_safetensors(folder / "runs/t/model.safetensors").tensors)
    EXPECT_NE(t.tensor.dtype(), DType::f16) << t.name;
  EXPECT_EQ(run({"eval", "runs/t/model.safetensors", val(), "train.dtype=f16"}).code, 0);
  // The configuration may be that of a run of several workers.
  const Result e = run({"eval", "runs/t/model.safetensors", "runs/t/config.toml",
                        "dist.min_workers=2", "dist.inject=kill:rank=1@step=5"});
  EXPECT_EQ(e.code, 0) << e.err;
}

TEST_P(EveryTask, AScaleThatOverflowsEveryStepStopsTheRunAndSaysWhatToDo) {
  const Result r = run(small({"train.dtype=f16", "train.loss_scale=16777216", "train.epochs=4"}));
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_THAT(r.err, HasSubstr("train.loss_scale = 16777216 is too large"));
  EXPECT_THAT(run(small({"train.loss_scale=1000"})).err, HasSubstr("train.loss_scale"));
}

}  // namespace
}  // namespace gossamer::apps
