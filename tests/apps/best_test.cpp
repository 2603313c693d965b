// The best models of a run: which are kept, in which files, and that they survive a resume.
#include "gossamer/apps/train/best.h"

#include <set>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "apps/program.h"
#include "gossamer/apps/train/patience.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Score scored(double top1, double loss, double samples) {
  return {.top1 = top1, .loss = loss, .items = 10, .samples = samples, .epoch = samples / 100};
}

class Best : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gossamer-best-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    run = pattern;
  }
  void TearDown() override { fs::remove_all(run); }

  // A model whose only weight is the number of samples.
  static bool offer(BestModels& best, const Score& s) {
    return best.offer(s, [&](const fs::path& path, const auto& metadata) {
      write_safetensors(path, {{"w", Tensor::full({1}, static_cast<float>(s.samples))}}, metadata);
    });
  }
  float weight_of_best() const {
    return *read_safetensors(run / "best.safetensors").find("w")->as<float>();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(run / "best")) names.push_back(e.path().filename());
    std::ranges::sort(names);
    return names;
  }
  fs::path run;
};

TEST_F(Best, TheBestAreKeptAndOfEqualOnesTheEarlier) {
  BestModels best(run, 2, "top1");
  EXPECT_TRUE(offer(best, scored(0.5, 1.0, 100)));
  EXPECT_FALSE(offer(best, scored(0.25, 0.1, 200)));
  EXPECT_FALSE(offer(best, scored(0.5, 1.0, 300))) << "it is not better";
  EXPECT_THAT(files(), ElementsAre("top1-0.50000-epoch-0001.00.safetensors",
                                   "top1-0.50000-epoch-0003.00.safetensors"));
  EXPECT_EQ(weight_of_best(), 100);
  EXPECT_FALSE(offer(best, scored(0.25, 1.0, 400)));
  EXPECT_FALSE(offer(best, scored(NAN, NAN, 500)));
  EXPECT_TRUE(offer(best, scored(0.75, 1.0, 600)));
  EXPECT_THAT(files(), ElementsAre("top1-0.50000-epoch-0001.00.safetensors",
                                   "top1-0.75000-epoch-0006.00.safetensors"));
  EXPECT_EQ(weight_of_best(), 600);
  EXPECT_EQ(read_safetensors_metadata(run / "best.safetensors").at("epoch"), "6");
}

TEST_F(Best, CanBeThatOfTheLowestLoss) {
  BestModels best(run, 1, "loss");
  EXPECT_TRUE(offer(best, scored(0.5, 1.0, 100)));
  EXPECT_FALSE(offer(best, scored(0.75, 1.5, 200)));
  EXPECT_TRUE(offer(best, scored(0.25, 0.5, 300)));
  EXPECT_THAT(files(), ElementsAre("loss-0.50000-epoch-0003.00.safetensors"));
}

TEST_F(Best, LossAndTop1BreakEachOthersTies) {
  {
    BestModels best(run, 1, "top1");
    EXPECT_TRUE(offer(best, scored(1, 0.475, 100)));
    EXPECT_TRUE(offer(best, scored(1, 0.002, 200)));
    EXPECT_FALSE(offer(best, scored(1, 0.3, 300)));
    EXPECT_EQ(weight_of_best(), 200);
    EXPECT_THAT(files(), ElementsAre("top1-1.00000-epoch-0002.00.safetensors"));
  }
  EXPECT_TRUE(is_better(scored(0.6, 1, 2), scored(0.5, 1, 1), "loss"));
  EXPECT_FALSE(is_better(scored(0.5, 1, 2), scored(0.5, 1, 1), "loss"));
  EXPECT_FALSE(is_better(scored(0.5, NAN, 2), scored(0.5, 1, 1), "top1"));
}

TEST_F(Best, AreFoundAgain) {
  {
    BestModels best(run, 3, "top1");
    offer(best, scored(0.5, 1.0, 100));
    offer(best, scored(0.75, 1.0, 200));
  }
  write_text(run / "best/top1-0.99000-epoch-0009.00.safetensors", "cut short");
  BestModels best(run, 1, "top1");
  EXPECT_EQ(best.all().size(), 1u) << "no more than are wanted now";
  EXPECT_FALSE(offer(best, scored(0.75, 1.0, 200))) << "the same evaluation again";
  EXPECT_FALSE(offer(best, scored(0.6, 1.0, 300)));
  EXPECT_TRUE(offer(best, scored(0.8, 1.0, 400)));
  EXPECT_THAT(files(), ElementsAre("top1-0.80000-epoch-0004.00.safetensors",
                                   "top1-0.99000-epoch-0009.00.safetensors"))
      << "only what it can read is its own";
  fs::remove_all(run / "best");
  BestModels again(run, 1, "top1");
  ASSERT_EQ(again.all().size(), 1u) << "from best.safetensors";
  EXPECT_FALSE(offer(again, scored(0.7, 1.0, 500)));
  EXPECT_EQ(weight_of_best(), 400);
}

TEST_F(Best, ThoseOfAnotherValidationSetAreNotCompared) {
  {
    BestModels best(run, 1, "top1", "aa");
    EXPECT_TRUE(offer(best, scored(0.9, 1.0, 100)));
  }
  BestModels best(run, 1, "top1", "bb");
  EXPECT_TRUE(best.all().empty());
  EXPECT_TRUE(offer(best, scored(0.5, 1.0, 200)));
  EXPECT_EQ(weight_of_best(), 200);
  EXPECT_THAT(files(), ElementsAre("top1-0.50000-epoch-0002.00.safetensors",
                                   "top1-0.90000-epoch-0001.00.safetensors"))
      << "the old one is left alone";
}

TEST_F(Best, AModelThatIsNoNumberIsNeverTheBest) {
  BestModels best(run, 2, "top1");
  EXPECT_FALSE(offer(best, scored(0.1, NAN, 100)));
  EXPECT_FALSE(fs::exists(run / "best.safetensors"));
}

TEST_F(Best, OnAFullDiskWorseOnesMakeRoomAndTheBestStays) {
  BestModels best(run, 3, "top1");
  offer(best, scored(0.2, 1.0, 100));
  offer(best, scored(0.3, 1.0, 200));
  const auto offer_on_full_disk = [&](const Score& s, std::size_t room) {
    return best.offer(s, [&](const fs::path& path, const auto& metadata) {
      check<IoError>(files().size() < room, "no space left");
      write_safetensors(path, {{"w", Tensor::full({1}, static_cast<float>(s.samples))}}, metadata);
    });
  };
  EXPECT_THROW(offer_on_full_disk(scored(0.1, 1.0, 300), 2), IoError) << "the others are better";
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(offer_on_full_disk(scored(0.4, 1.0, 400), 2));
  EXPECT_THAT(files(), ElementsAre("top1-0.30000-epoch-0002.00.safetensors",
                                   "top1-0.40000-epoch-0004.00.safetensors"));
  EXPECT_THROW(offer_on_full_disk(scored(0.5, 1.0, 500), 0), IoError);
  EXPECT_EQ(weight_of_best(), 400);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Best, ARunUnderAnotherNameTakesThoseOfItsPast) {
  BestModels old(run / "old", 3, "top1");
  for (const Score& s : {scored(0.5, 1, 100), scored(0.75, 1, 200), scored(0.9, 1, 300)})
    offer(old, s);
  fs::create_directories(run / "new");
  BestModels best(run / "new", 3, "top1");
  best.bring(run / "old", 200);
  ASSERT_EQ(best.all().size(), 2u);
  EXPECT_EQ(best.all()[0].score.samples, 200);
  EXPECT_EQ(read_safetensors_metadata(run / "new/best.safetensors").at("top1"), "0.75");
  EXPECT_EQ(old.all().size(), 3u);
}

TEST_F(Best, AFailedWriteLeavesTheGoodOnes) {
  BestModels one(run, 1, "top1");
  const auto failing = [](const fs::path&, const auto&) { fail<IoError>("full"); };
  EXPECT_THROW(one.offer(scored(0.5, 1, 100), failing), IoError);
  EXPECT_FALSE(fs::exists(run / "best")) << "no empty folder";
  offer(one, scored(0.5, 1, 100));
  EXPECT_THROW(one.offer(scored(0.75, 1, 200), failing), IoError);
  EXPECT_EQ(weight_of_best(), 100);

  BestModels two(run, 2, "top1");
  offer(two, scored(0.4, 1, 300));
  int tries = 0;
  EXPECT_TRUE(two.offer(scored(0.9, 1, 400), [&](const fs::path& path, const auto& metadata) {
    if (++tries == 1) fail<IoError>("full");
    EXPECT_EQ(files().size(), 1u) << "the worst has made room";
    write_safetensors(path, {{"w", Tensor::full({1}, 400.0f)}}, metadata);
  }));
  EXPECT_EQ(weight_of_best(), 400);
}

TEST(PatienceOf, EvaluationsCountsThoseThatWereNotBetter) {
  Patience patience(2, "top1");
  for (const double top1 : {0.5, 0.4, 0.6, 0.6}) {
    patience.look(scored(top1, 1, 100));
    EXPECT_FALSE(patience.exhausted());
  }
  Patience resumed(2, "top1"), other(2, "loss"), none(0, "top1");
  for (Patience* p : {&resumed, &other, &none}) {
    p->restore(patience.text());
    p->look(scored(0.3, 1, 400));
  }
  EXPECT_TRUE(resumed.exhausted());
  EXPECT_EQ(resumed.sentence(), "2 evaluations without a better top-1 than 60.00 % at epoch 1.00");
  EXPECT_FALSE(other.exhausted()) << "it counts something else";
  EXPECT_FALSE(none.exhausted());
}

class BestRun : public ProgramTest {
 protected:
  std::vector<std::string> kept(const std::string& run) const {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(folder / "runs" / run / "best"))
      names.push_back(e.path().filename());
    std::ranges::sort(names);
    return names;
  }
  double evaluated(const std::string& file) {
    const Result r = run({"eval", file, "data.val=s/val", "train.threads=1", "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["top1"].get<double>();
  }
};

TEST_F(BestRun, KeepsTheBestAndNamesIt) {
  const Result r = run(tiny({"train.epochs=3", "eval.every=0.5", "run.keep_best=2"}));
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<double> all;
  for (const Json& e : events("eval")) all.push_back(e["top1"].get<double>());
  EXPECT_EQ(all.size(), 6u);
  const Json best = summary()["best"];
  EXPECT_EQ(best["top1"].get<double>(), *std::ranges::max_element(all));
  EXPECT_EQ(kept("t").size(), 2u);
  EXPECT_EQ(evaluated("runs/t/best.safetensors"), best["top1"].get<double>());
  EXPECT_THAT(r.out, AllOf(HasSubstr(", the best so far\n"), HasSubstr("\nbest     top-1 "),
                           HasSubstr(": runs/t/best.safetensors\n")));
  struct stat status {};
  ASSERT_EQ(stat((folder / "runs/t/best.safetensors").c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 2u) << "no second copy";
}

TEST_F(BestRun, NothingIsKeptWithoutEvaluationsOrWithZero) {
  ASSERT_EQ(run(tiny({})).code, 0);
  EXPECT_FALSE(fs::exists(folder / "runs/t/best.safetensors"));
  ASSERT_EQ(run(tiny({"eval.every=0.5", "run.keep_best=0", "run.name=u"})).code, 0);
  EXPECT_FALSE(fs::exists(folder / "runs/u/best"));
}

TEST_F(BestRun, AResumedRunEndsWithTheSameFiles) {
  const Result whole = run(tiny({"train.epochs=2", "eval.every=0.25", "run.keep_best=3",
                                 "run.checkpoint_every=0.5", "run.keep=99", "run.name=whole"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  for (const char* label : {"samples-000000000048", "samples-000000000144"}) {
    const Result r = run({"train", "runs/whole/config.toml", std::string("run.name=") + label,
                          "--resume", std::string("runs/whole/checkpoints/") + label});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(kept(label), kept("whole"));
    Json best = summary(label)["best"], wanted = summary("whole")["best"];
    best.erase("file"), wanted.erase("file");
    EXPECT_EQ(best, wanted);
    for (const std::string& name : kept("whole"))
      EXPECT_EQ(read_text(folder / "runs" / label / "best" / name),
                read_text(folder / "runs/whole/best" / name));
  }
}

TEST_F(BestRun, SeveralWorkersMeetForTheAverage) {
  for (const std::string method : {"a2cid2", "allreduce", "dpsgd"}) {
    const Result r =
        run(tiny({"train.epochs=4", "eval.every=1", "eval.of=mean", "eval.consensus_every=1",
                  "train.method=" + method, "run.name=" + method, "--workers", "2"}));
    ASSERT_EQ(r.code, 0) << r.err;
    const auto evals = events("eval", method);
    ASSERT_EQ(evals.size(), 4u) << "three on the way, one at the end";
    for (const Json& e : evals) {
      EXPECT_EQ(e["of"], "averaged model");
      EXPECT_EQ(e["images"], 40);
    }
    const Json best = summary(method)["best"];
    EXPECT_EQ(evaluated("runs/" + method + "/best.safetensors"), best["top1"].get<double>());
    EXPECT_EQ(events("consensus", method).size(), 6u);
  }
}

// Also from a checkpoint at the end.
TEST_F(BestRun, PatienceEndsARunAndAResumedOneAtTheSamePlace) {
  const Result whole =
      run(tiny({"train.epochs=60", "eval.every=0.5", "train.patience=2", "optim.learning_rate=1e-6",
                "run.checkpoint_every=0.5", "run.keep=999", "run.name=whole"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("early    the run ends after 2 evaluations without a better"));
  const auto evals = events("eval", "whole");
  ASSERT_GE(evals.size(), 4u);
  const std::size_t n = evals.size() - 1;  // the last is of the end
  EXPECT_EQ(evals[n]["top1"], evals[n - 1]["top1"]);
  double best = -1;
  int since = 0;
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_LT(since, 2);
    since = evals[i]["top1"].get<double>() > best ? 0 : since + 1;
    best = std::max(best, evals[i]["top1"].get<double>());
  }
  EXPECT_EQ(since, 2);
  EXPECT_EQ(summary("whole")["stopped_early"], true);
  EXPECT_LT(summary("whole")["epochs"].get<double>(), 60);
  std::vector<std::string> labels;
  for (const auto& e : fs::directory_iterator(folder / "runs/whole/checkpoints"))
    labels.push_back(e.path().filename());
  std::ranges::sort(labels);
  for (const std::string& label : {labels.front(), labels[labels.size() - 2], labels.back()}) {
    const Result r = run({"train", "runs/whole/config.toml", "run.name=" + label, "--resume",
                          "runs/whole/checkpoints/" + label});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(summary(label)["samples"], summary("whole")["samples"]) << label;
    EXPECT_EQ(read_text(folder / "runs" / label / "model.safetensors"),
              read_text(folder / "runs/whole/model.safetensors"));
  }
}

TEST_F(BestRun, ARunThatPatienceEndedGoesOnWithMore) {
  const std::vector<std::string> again{"train", "--resume", "runs/t"};
  ASSERT_EQ(run(tiny({"train.epochs=30", "eval.every=0.5", "train.patience=1",
                      "optim.learning_rate=1e-6", "run.checkpoint_every=0.5"}))
                .code,
            0);
  const double before = summary()["samples"].get<double>();
  ASSERT_LT(before, 30 * 96);
  const Result same = run(again);
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.err, HasSubstr("to train on, give more: train.patience=2, or 0"));
  const Result more = run({"train", "--resume", "runs/t", "train.patience=0"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(summary()["samples"], 30 * 96);
}

TEST_F(BestRun, WorkersStopTogether) {
  for (const std::string method : {"a2cid2", "dpsgd"}) {
    const Result r = run(tiny({"train.epochs=90", "eval.every=1", "eval.of=mean",
                               "train.patience=2", "optim.learning_rate=1e-6",
                               "train.method=" + method, "run.name=" + method, "--workers", "2"}));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(summary(method)["stopped_early"], true);
    EXPECT_EQ(summary(method)["workers_at_end"], 2);
    EXPECT_LT(summary(method)["epochs"].get<double>(), 60);
    EXPECT_TRUE(events("fault", method).empty());
  }
}

// A worker's model on its share can't be compared with the average on the whole set.
TEST_F(BestRun, AfterALossOnlyTheEndIsCompared) {
  const Result r =
      run(tiny({"train.epochs=12", "eval.every=1", "eval.of=mean", "run.keep_best=99",
                "train.patience=99", "--workers", "2", "--inject", "kill:rank=1@step=20"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("some worker was lost: from now on each worker evaluates its own "
                               "model, and train.patience ends nothing"));
  std::set<std::string> of;
  for (const Json& e : events("eval")) of.insert(e["of"]);
  EXPECT_THAT(of, ElementsAre("averaged model", "own model on its share"));
  for (const std::string& name : kept("t"))
    EXPECT_EQ(read_safetensors_metadata(folder / "runs/t/best" / name).at("images"), "40") << name;
}

TEST_F(BestRun, WithoutAMeetingTheySayThatNoneIsKept) {
  const Result r = run(tiny({"train.epochs=2", "eval.every=1", "--workers", "2"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("best     not kept, since each worker evaluates its own model"));
  EXPECT_FALSE(fs::exists(folder / "runs/t/best"));
}

TEST_F(BestRun, WhatCannotBeWrittenIsAWarning) {
  write_text(folder / "runs/t/best", "a file in the place of the folder");
  const Result r = run(tiny({"train.epochs=2", "eval.every=0.5"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("the best model was not written, training goes on"));
  EXPECT_TRUE(fs::exists(folder / "runs/t/model.safetensors"));
}

}  // namespace
}  // namespace gossamer::apps
