// The folder of a run: older results stay, one run at a time writes, a summary counts all legs.
#include <set>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/report/run_claim.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunFolders : public ProgramTest {
 protected:
  static std::vector<std::string> with_workers(int n, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--workers", std::to_string(n)});
    return arguments;
  }
  std::vector<std::string> entries(const fs::path& where) const {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(folder / where))
      names.push_back(e.path().filename());
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(RunFolders, TheSummaryOfAResumedRunIsOfAllItsLegs) {
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    fs::remove_all(folder / "runs");
    ASSERT_EQ(run(with_workers(workers, tiny({"run.checkpoint_every=1"}))).code, 0);
    EXPECT_EQ(summary()["legs"], 1);
    EXPECT_FALSE(summary().contains("last_leg"));
    // A gossip worker may do a step after it has saved, which is not counted.
    const RunFigures first = find_checkpoint(folder / "runs/t").figures;
    EXPECT_GT(first.gradients, 0);
    EXPECT_LE(first.gradients, summary()["gradients"].get<double>());
    const Result r = run({"train", "--resume", "runs/t", "train.epochs=2"});
    ASSERT_EQ(r.code, 0) << r.err;
    const Json s = summary(), leg = s["last_leg"];
    EXPECT_EQ(s["legs"], 2);
    const double gradients = s["gradients"].get<double>(), of_leg = leg["gradients"].get<double>();
    EXPECT_EQ(gradients, first.gradients + of_leg);
    if (workers == 1) {
      EXPECT_EQ(gradients, 24);
      EXPECT_EQ(of_leg, 12);
      EXPECT_EQ(s["samples"], 192);
    }
    EXPECT_GT(of_leg, 0);
    EXPECT_GT(s["wall_s"].get<double>(), leg["wall_s"].get<double>());
    EXPECT_EQ(s["exchanges"].get<double>(), first.exchanges + leg["exchanges"].get<double>());
    double of_workers = 0;
    for (const Json& row : s["each_worker"]) of_workers += row["gradients"].get<double>();
    EXPECT_EQ(of_workers, of_leg);
    EXPECT_THAT(s["of_last_leg"].get<std::vector<std::string>>(),
                ::testing::Contains("each_worker"));
    for (const Json& name : s["of_last_leg"]) EXPECT_TRUE(s.contains(name)) << name;
    EXPECT_THAT(r.out, HasSubstr("2 legs"));
  }
}

// All-reduce has no exchanges, and so no achieved rates.
TEST_F(RunFolders, OnlyWhatTheSummaryHasIsListedAsOfTheLastLeg) {
  ASSERT_EQ(run(with_workers(2, tiny({"train.method=allreduce", "run.checkpoint_every=1"}))).code,
            0);
  ASSERT_EQ(run({"train", "--resume", "runs/t", "train.epochs=2"}).code, 0);
  const Json s = summary();
  EXPECT_EQ(s["legs"], 2);
  for (const Json& name : s["of_last_leg"]) EXPECT_TRUE(s.contains(name)) << name;
}

// A kill between any two instructions of a step, of a checkpoint's writing or of its pruning.
TEST_F(RunFolders, ARunThatIsKilledAgainAndAgainEndsBitForBitAsAnUndisturbedOne) {
  const auto arguments =
      tiny({"train.epochs=8", "run.checkpoint_every=0.3", "train.mixup=0.2", "data.sizes=24",
            "data.size_milestones=0.5", "data.augment=resized-crop-flip", "train.batch=4",
            "train.accumulate=2", "train.ema=0.7", "eval.every=0.4", "run.keep_best=2",
            "train.patience=99", slowed(1, 6)});
  auto undisturbed = arguments;
  undisturbed.push_back("run.name=whole");
  ASSERT_EQ(run(undisturbed).code, 0);
  const auto took_steps = [&](std::size_t steps) {
    const auto starts = events("start");
    return !starts.empty() && starts.back()["pid"] == running && events("step").size() >= steps;
  };
  std::size_t killed = 0;
  for (const std::size_t steps : {2, 11, 5, 1, 13, 7, 4}) {
    const bool begun = fs::exists(folder / "runs/t/checkpoints");
    const std::size_t before = begun ? events("step").size() : 0;
    start(begun ? std::vector<std::string>{"train", "--resume", "runs/t"} : arguments);
    for (int i = 0; i < static_cast<int>(kLimit * 500) && !took_steps(before + steps); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(running, SIGKILL);
    killed += wait().code == 1000 + SIGKILL;
  }
  EXPECT_EQ(killed, 7u);
  const Result r = run({"train", "--resume", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.err;
  std::set<std::string> files{"model.safetensors", "model-ema.safetensors", "best.safetensors"};
  for (const char* name : {"t", "whole"})
    for (const auto& e : fs::directory_iterator(folder / "runs" / name / "best"))
      if (e.path().extension() == ".safetensors")
        files.insert("best/" + e.path().filename().string());
  EXPECT_EQ(files.size(), 5u);
  for (const std::string& file : files)
    EXPECT_TRUE(read_text(folder / "runs/t" / file) == read_text(folder / "runs/whole" / file))
        << file;
  EXPECT_EQ(summary()["gradients"], summary("whole")["gradients"]);
  EXPECT_EQ(summary()["samples"], summary("whole")["samples"]);
}

TEST_F(RunFolders, AResumedRunUnderTheNameOfAnotherMovesThatAside) {
  ASSERT_EQ(run(tiny({"run.name=other"})).code, 0);
  ASSERT_EQ(run(tiny({"run.checkpoint_every=0.5"})).code, 0);
  const std::string model = read_text(folder / "runs/other/model.safetensors");
  const Result r = run({"train", "--resume", "runs/t", "run.name=other", "train.epochs=2"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("an older run of this name is now runs/other.1"));
  EXPECT_EQ(read_text(folder / "runs/other.1/model.safetensors"), model);
  EXPECT_EQ(events("summary", "other").size(), 1u) << "its log begins anew";
}

TEST_F(RunFolders, ARunThatHasTooFewWorkersLeftIsSaved) {
  const Result r = run(with_workers(
      3, tiny({"train.epochs=30", "dist.min_workers=3", "dist.inject=kill:rank=1@step=5"})));
  EXPECT_EQ(r.code, 5) << r.err;
  EXPECT_THAT(r.out, HasSubstr("saved; go on with: gossamer train --workers 3 --resume runs/t"));
  for (const int rank : {0, 2})
    EXPECT_TRUE(fs::exists(folder / "runs/t/checkpoints/interrupted" / checkpoint_file(rank)));
  const Result again =
      run({"train", "--resume", "runs/t", "train.epochs=1", "dist.min_workers=1", "dist.inject="});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("worker 1: its file of the checkpoint is missing, so it goes on "
                                   "from the mean of the other 2 models and worker 0's momentum"));
}

TEST_F(RunFolders, ARunThatGoesOnWithFewerEpochsThanAreDoneWritesItsResultsAndSaysSo) {
  start(tiny({"train.epochs=400", "run.checkpoint_every=1"}));
  ASSERT_EQ(workers_at_work(1).size(), 1u);
  const auto two_epochs_are_saved = [&] {
    const auto all = list_checkpoints(folder / "runs/t");
    return !all.empty() && all[0].samples >= 2 * 96;
  };
  for (int i = 0; i < static_cast<int>(kLimit * 500) && !two_epochs_are_saved(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(running, SIGTERM);
  EXPECT_EQ(wait().code, 143);
  const Result r = run({"train", "--resume", "runs/t", "train.epochs=1"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("epochs are done, and train.epochs=1 wants no more"));
  EXPECT_TRUE(fs::exists(folder / "runs/t/model.safetensors"));
}

TEST_F(RunFolders, ARunWhoseValidationImagesAreGoneIsSaved) {
  fs::copy(shapes() / "val", folder / "val", fs::copy_options::recursive);
  start(tiny({"train.epochs=60", "eval.every=0", "data.val=val"}));
  ASSERT_EQ(workers_at_work(1).size(), 1u);
  for (const auto& e : fs::recursive_directory_iterator(folder / "val"))
    if (e.is_regular_file()) fs::resize_file(e.path(), 10);
  const Result r = wait();
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_THAT(r.out, HasSubstr("saved; go on with"));
  fs::remove_all(folder / "val");
  fs::copy(shapes() / "val", folder / "val", fs::copy_options::recursive);
  const Result again = run({"train", "--resume", "runs/t"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(summary()["samples"], 60 * 96);
}

TEST_F(RunFolders, ARunThatFinishedWithoutADeadWorkerIsFinished) {
  const Result r = run(tiny({"train.epochs=6", "run.checkpoint_every=1", "--workers", "2",
                             "--inject", "kill:rank=1@step=8"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string model = read_text(folder / "runs/t/model.safetensors");
  const Result again = run({"train", "--resume", "runs/t"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("runs/t is finished"));
  EXPECT_EQ(read_text(folder / "runs/t/model.safetensors"), model);
}

TEST_F(RunFolders, ResumingAFinishedRunChangesNothingAndSaysSo) {
  ASSERT_EQ(run(tiny({"run.checkpoint_every=1"})).code, 0);
  const std::string summary = read_text(folder / "runs/t/summary.json");
  const Result r = run({"train", "--resume", "runs/t", "--json"});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.err, AllOf(HasSubstr("runs/t is finished"), HasSubstr("train.epochs=2")));
  EXPECT_THAT(r.err, Not(HasSubstr("resuming")));
  EXPECT_EQ(r.out, summary);
  EXPECT_EQ(read_text(folder / "runs/t/summary.json"), summary);
}

TEST_F(RunFolders, ADryRunOfAResumeTrainsItsSteps) {
  ASSERT_EQ(run(tiny({"train.epochs=3", "run.checkpoint_every=1"})).code, 0);
  const Result r = run({"train", "--resume", "runs/t", "--dry-run"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("done     160 images"));
  EXPECT_THAT(r.out, Not(HasSubstr("about ?")));
}

TEST_F(RunFolders, ARunThatGoesOnKeepsItsFolder) {
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    fs::remove_all(folder / "runs");
    start(with_workers(workers,
                       tiny({"train.epochs=500", "run.checkpoint_every=0.1", "run.keep=9"})));
    ASSERT_EQ(workers_at_work(workers).size(), static_cast<std::size_t>(workers));
    const pid_t first = running;
    for (const auto& arguments :
         {tiny({}), std::vector<std::string>{"train", "--resume", "runs/t", "--workers", "1"}}) {
      const Result second = run(arguments);
      EXPECT_EQ(second.code, 2);
      EXPECT_THAT(second.err,
                  AllOf(HasSubstr("runs/t belongs to a run that still goes on (process " +
                                  std::to_string(first)),
                        HasSubstr("run.name=NAME")));
    }
    running = first;
    kill(running, SIGTERM);
    EXPECT_EQ(wait().code, 143);
    EXPECT_EQ(entries("runs"), std::vector<std::string>{"t"});
    EXPECT_EQ(events("start").size(), static_cast<std::size_t>(workers));
    EXPECT_EQ(run({"train", "--resume", "runs/t", "train.epochs=1"}).code, 0);
  }
}

TEST_F(RunFolders, ARefusedRunDoesNotTakeTheFolderOfOneThatOnlyStarts) {
  const fs::path runs = folder / "runs";
  {
    const RunClaim first(runs / "t");
    EXPECT_THROW(RunClaim(runs / "t"), ConfigError);
    const RunClaim other(runs / "u");
    EXPECT_EQ(entries("runs"), (std::vector<std::string>{".t.lock", ".u.lock", "t", "u"}));
  }
  EXPECT_FALSE(fs::exists(runs));
}

TEST_F(RunFolders, ALockThatAKilledRunLeftHoldsNobodyUp) {
  start(tiny({"train.epochs=500"}));
  ASSERT_EQ(workers_at_work(1).size(), 1u);
  kill(running, SIGKILL);
  wait();
  EXPECT_EQ(entries("runs"), (std::vector<std::string>{".t.lock", "t"}));
  EXPECT_EQ(run(tiny({})).code, 0);
  EXPECT_EQ(entries("runs"), (std::vector<std::string>{"t", "t.1"}));
}

TEST_F(RunFolders, AStartThatFailsLeavesOlderResultsWhereTheyAre) {
  const auto fail = [&] {
    for (const auto& [arguments, code] : std::vector<std::pair<std::vector<std::string>, int>>{
             {tiny({"run.replay=nowhere"}), 6},
             {with_workers(2, tiny({"run.replay=nowhere"})), 6},
             {tiny({"--hosts", "nowhere.invalid:1", "--ssh", "/bin/false"}), 5},
             {tiny({"data.cpus=100000"}), 2}}) {
      const Result r = run(arguments);
      EXPECT_EQ(r.code, code) << ::testing::PrintToString(arguments) << r.err;
      EXPECT_THAT(r.err, Not(HasSubstr("older run")));
    }
  };
  fail();
  EXPECT_FALSE(fs::exists(folder / "runs")) << "nor does it leave empty folders";
  ASSERT_EQ(run(tiny({})).code, 0);
  const std::string before = read_text(folder / "runs/t/log.jsonl");
  fail();
  EXPECT_EQ(entries("runs"), std::vector<std::string>{"t"});
  EXPECT_EQ(read_text(folder / "runs/t/log.jsonl"), before);
}

TEST_F(RunFolders, AnOlderRecordIsKept) {
  const auto arguments = with_workers(2, tiny({"--record", "record"}));
  ASSERT_EQ(run(arguments).code, 0);
  const std::string first = read_text(folder / "record/events-0.jsonl");
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0);
  EXPECT_THAT(r.err, HasSubstr("an older record is now record.1"));
  EXPECT_EQ(read_text(folder / "record.1/events-0.jsonl"), first);
  EXPECT_TRUE(fs::exists(folder / "record/events-1.jsonl"));
}

TEST_F(RunFolders, AfterTheDeathOfWorker0TheLowestThatLivesReports) {
  const Result r =
      run(with_workers(3, tiny({"train.epochs=30", "dist.inject=kill:rank=0@step=5"})));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("fault    worker 0: "), HasSubstr("100.0%"),
                           HasSubstr("2 of 3 workers")));
}

}  // namespace
}  // namespace gossamer::apps
