// Deaths: of a worker in mid-training, of the launcher.
#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Fault : public ProgramTest {
 protected:
  static bool gone(pid_t pid) {
    // A zombie is gone too: its parent (init of this container) may not collect it.
    const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }
  static bool all_end(const std::vector<pid_t>& pids, double limit_s = kLimit) {
    for (int i = 0; i < static_cast<int>(limit_s * 50); ++i) {
      if (std::ranges::all_of(pids, gone)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Whether all these came, (who saw it, who came), and each of the three workers then did some
  // steps.
  bool all_train_after_joining(const std::set<std::pair<int, int>>& wanted) const {
    for (int i = 0; i < static_cast<int>(kLimit * 10);
         ++i, std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
      std::set<std::pair<int, int>> seen;
      double last = 0;
      for (const Json& e : events("joined"))
        seen.emplace(e["rank"].get<int>(), e["peer"].get<int>()),
            last = std::max(last, e["time"].get<double>());
      std::map<int, int> steps;
      for (const Json& e : events("step"))
        if (e["time"].get<double>() > last) ++steps[e["rank"]];
      if (std::ranges::includes(seen, wanted) && steps[0] > 2 && steps[1] > 2 && steps[2] > 2)
        return true;
    }
    return false;
  }
};

TEST_F(Fault, WhenRankZeroDiesAnotherWritesTheResults) {
  auto arguments = tiny({"train.epochs=20", "train.batch=4", slowed(3, 3)});
  arguments.insert(arguments.end(), {"--workers", "3"});
  start(arguments);
  const auto pids = workers_at_work(3);
  ASSERT_EQ(pids.size(), 3u) << read_text(folder / "err");
  kill(pids.at(0), SIGKILL);
  const Result r = wait();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_TRUE(fs::exists(folder / "runs/t/model.safetensors"));
  EXPECT_EQ(summary()["workers_at_end"], 2);
  EXPECT_THAT(r.out, HasSubstr("result"));
}

TEST_F(Fault, KillingTheLauncherLeavesNoProcessBehind) {
  auto arguments = tiny({"train.epochs=500"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  start(arguments);
  const auto pids = workers_at_work(2);
  ASSERT_EQ(pids.size(), 2u) << read_text(folder / "err");
  kill(running, SIGKILL);
  wait();
  EXPECT_TRUE(all_end({pids.at(0), pids.at(1)}, 10));
}

TEST_F(Fault, ResultsThatCannotBeWrittenAreAnErrorAlthoughTheOtherWorkerFinished) {
  auto arguments = tiny({"train.epochs=40"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  fs::create_directory(folder / "tmp");
  const std::string tmp = "TMPDIR=" + (folder / "tmp").string();
  start(arguments, {tmp});
  ASSERT_EQ(workers_at_work(2).size(), 2u) << read_text(folder / "err");
  write_text(folder / "runs/t/model.safetensors/a folder is in the way", "");
  const Result r = wait();
  EXPECT_EQ(r.code, 6) << r.err;
  EXPECT_THAT(r.err, HasSubstr("model.safetensors"));
  EXPECT_THAT(summary()["model_file"].get<std::string>(), HasSubstr((folder / "tmp").string()));
}

TEST_F(Fault, ADamagedImageInOneShareStopsAllWhenStrict) {
  fs::copy(shapes(), folder / "c", fs::copy_options::recursive);
  std::vector<fs::path> images;
  for (const auto& e : fs::recursive_directory_iterator(folder / "c/val"))
    if (e.path().extension() == ".jpg") images.push_back(e.path());
  std::ranges::sort(images);
  fs::resize_file(images.at(0), fs::file_size(images.at(0)) / 2);
  auto arguments = tiny({"data.val=c/val"});
  arguments.insert(arguments.end(), {"--workers", "3", "--strict-images"});
  const Result r = run(arguments);
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr(images.at(0).filename().string()));
}

TEST_F(Fault, IfAllWorkersDieTheLauncherSaysThatThereIsNoResult) {
  auto arguments = tiny({"train.epochs=500"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  start(arguments);
  const auto pids = workers_at_work(2);
  ASSERT_EQ(pids.size(), 2u) << read_text(folder / "err");
  for (const auto& [rank, pid] : pids) kill(pid, SIGSTOP);  // neither sees the other's death
  for (const auto& [rank, pid] : pids) kill(pid, SIGKILL);
  const Result r = wait();
  EXPECT_EQ(r.code, 5);
  EXPECT_THAT(r.err, HasSubstr("no worker has finished, so the run has no result"));
}

TEST_F(Fault, TheWrapperForMpirunReportsADeathAndExitsZero) {
  auto arguments = tiny({"train.epochs=500"});
  arguments.insert(arguments.begin(), "run");
  start(arguments);
  const auto pids = workers_at_work(1);
  ASSERT_EQ(pids.size(), 1u) << read_text(folder / "err");
  EXPECT_NE(pids.at(0), running);
  kill(pids.at(0), SIGKILL);
  const Result r = wait(30);
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.err, HasSubstr("died (signal 9)"));
}

// --- faults on purpose, and what becomes of them

std::vector<std::string> with_faults(std::vector<std::string> arguments,
                                     const std::string& faults) {
  arguments.insert(arguments.end(), {"--workers", "3", "--inject", faults});
  return arguments;
}

TEST_F(Fault, AWorkerThatStoodStillIsGivenUpAndComesBackWithItsState) {
  start(with_faults(tiny({"train.epochs=5000", "train.batch=4", "dist.dead_after_s=3"}),
                    "stop:rank=1:7s@step=10"));
  ASSERT_TRUE(all_train_after_joining({{0, 1}, {2, 1}})) << read_text(folder / "err");
  kill(running, SIGINT);
  const Result r = wait();
  EXPECT_EQ(r.code, 130) << r.out << r.err;
  std::map<int, int> dead;
  for (const Json& e : events("fault")) dead[e["rank"]] += e["peer"] == 1 && e["what"] == "dead";
  for (const int rank : {0, 2}) EXPECT_GE(dead[rank], 1);
  EXPECT_EQ(events("start").size(), 3u);  // nobody was started again
}

TEST_F(Fault, AWorkerThatStoodStillUntilTheOthersHadEndedLeavesTheirResults) {
  for (const std::string method : {"a2cid2", "dpsgd"}) {
    fs::remove_all(folder / "runs");
    start(with_faults(
        tiny({"train.method=" + method, "train.epochs=10", "train.batch=4", "dist.dead_after_s=2"}),
        "slow:rank=0:x3,slow:rank=2:x3"));
    const auto pids = workers_at_work(3);
    ASSERT_EQ(pids.size(), 3u) << read_text(folder / "err");
    kill(pids.at(1), SIGSTOP);
    ASSERT_TRUE(all_end({pids.at(0), pids.at(2)})) << read_text(folder / "err");
    kill(pids.at(1), SIGCONT);
    const Result r = wait();
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    EXPECT_EQ(summary()["workers_at_end"], 2) << r.out;
    // It is told that the others gave it up, or finds their results. On a slow machine it stands
    // still for more than the 60 s after which it would be alone.
    EXPECT_THAT(r.out + r.err,
                ::testing::AnyOf(HasSubstr("has given this worker up"),
                                 HasSubstr("worker 1 lost the others, which ended before it: their "
                                           "results, of 2 worker(s), are kept"),
                                 HasSubstr("cut off from all others for 60 s")));
    EXPECT_EQ(r.out.find("average of 1 models"), std::string::npos);
  }
}

// Nor does it offer to go on from the folder in which they still train.
TEST_F(Fault, AWorkerThatWasGivenUpSavesNothingWhereTheOthersTrain) {
  start(with_faults(
      tiny({"train.method=dpsgd", "train.epochs=5000", "train.batch=4", "dist.dead_after_s=2"}),
      "slow:rank=1:x2"));
  const auto pids = workers_at_work(3);
  ASSERT_EQ(pids.size(), 3u) << read_text(folder / "err");
  kill(pids.at(0), SIGSTOP);
  ASSERT_TRUE(wait_for("fault", 2)) << read_text(folder / "err");
  kill(pids.at(0), SIGCONT);
  ASSERT_TRUE(all_end({pids.at(0)})) << read_text(folder / "err");
  const std::string said = read_text(folder / "out") + read_text(folder / "err");
  EXPECT_THAT(said, HasSubstr("has given this worker up"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("--resume")));
  EXPECT_FALSE(fs::exists(folder / "runs/t/interrupted"));
  kill(running, SIGINT);
  EXPECT_EQ(wait().code, 130);
}

TEST_F(Fault, LinksThatAreCutForAWhileCostNoWorker) {
  start(with_faults(tiny({"train.epochs=5000", "train.batch=4", "dist.dead_after_s=3"}),
                    "partition:0|1,2:6s@t=0.5"));
  ASSERT_TRUE(all_train_after_joining({{0, 1}, {0, 2}, {1, 0}, {2, 0}}))
      << read_text(folder / "err");
  kill(running, SIGINT);
  const Result r = wait();
  EXPECT_EQ(r.code, 130) << r.out << r.err;
  EXPECT_EQ(events("start").size(), 3u);  // nobody was started again
}

TEST_F(Fault, AStragglerDoesLessAndHoldsNobodyUp) {
  const Result r = run(with_faults(tiny({"train.epochs=20", "train.batch=4"}), "slow:rank=1:x8"));
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  std::map<int, double> gradients;
  const Json all = summary();
  for (const Json& w : all["each_worker"]) gradients[w["rank"]] = w["gradients"];
  EXPECT_LT(2 * gradients[1], gradients[0]);
  EXPECT_LT(2 * gradients[1], gradients[2]);
}

TEST_F(Fault, AFaultThatCantBeReadIsAnErrorThatSaysWhere) {
  const Result r = run(with_faults(tiny({}), "kill:rank=2@step=5,stop:rank=9:5s"));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("there is no worker 9"));
  const Result q = run(with_faults(tiny({}), "stop:rank=1"));
  EXPECT_EQ(q.code, 2);
  EXPECT_THAT(q.err, ::testing::AllOf(HasSubstr("inject, character 12"), HasSubstr("5s")));
}

}  // namespace
}  // namespace gossamer::apps
