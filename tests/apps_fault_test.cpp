// Deaths: of a worker in mid-training, of the launcher.
#include "apps_program.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <map>

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Fault : public ProgramTest {
 protected:
  // Process of each rank, once all have trained a few steps.
  std::map<int, pid_t> workers_at_work(int n) {
    for (int i = 0; i < 3000; ++i) {
      std::map<int, pid_t> pids;
      for (const Json& e : events("start")) pids[e["rank"]] = e["pid"];
      std::map<int, int> steps;
      for (const Json& e : events("step")) ++steps[e["rank"]];
      if (static_cast<int>(pids.size()) == n && static_cast<int>(steps.size()) == n && std::ranges::all_of(steps, [](auto& s) { return s.second >= 3; })) return pids;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
  }
  static bool gone(pid_t pid) {
    // A zombie is gone too: its parent (init of this container) may not collect it.
    const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }
};

TEST_F(Fault, TheOthersGoOnWhenOneOfFourIsKilled) {
  auto arguments = tiny({"train.epochs=30", "train.batch=4"});
  arguments.insert(arguments.end(), {"--workers", "4"});
  start(arguments);
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
  EXPECT_EQ(summary()["val_images"], 40);
  // Each survivor trained on after the death.
  const double when = events("fault").at(0)["time"];
  std::map<int, int> later;
  for (const Json& e : events("step"))
    if (e["time"].get<double>() > when) ++later[e["rank"]];
  for (const int rank : {0, 1, 3}) EXPECT_GT(later[rank], 2) << rank;
}

TEST_F(Fault, WhenRankZeroDiesAnotherWritesTheResults) {
  auto arguments = tiny({"train.epochs=20", "train.batch=4"});
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
  bool all_gone = false;
  for (int i = 0; i < 500 && !all_gone; ++i) {
    all_gone = std::ranges::all_of(pids, [](const auto& p) { return gone(p.second); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(all_gone);
}

TEST_F(Fault, ResultsThatCannotBeWrittenAreAnErrorAlthoughTheOtherWorkerFinished) {
  auto arguments = tiny({"train.epochs=3"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  start(arguments);
  ASSERT_EQ(workers_at_work(2).size(), 2u) << read_text(folder / "err");
  write_text(folder / "runs/t/model.safetensors/a folder is in the way", "");
  const Result r = wait();
  EXPECT_EQ(r.code, 6) << r.err;
  EXPECT_THAT(r.err, HasSubstr("model.safetensors"));
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

TEST_F(Fault, WaitingThreadsOfWorkersSleepUnlessTheUserSaysOtherwise) {
  const char* before = std::getenv("OMP_WAIT_POLICY");
  const std::string kept = before ? before : "";
  unsetenv("OMP_WAIT_POLICY");
  for (const std::string policy : {"passive", "active"}) {
    auto arguments = tiny({"train.epochs=500", "run.name=t"});
    arguments.insert(arguments.end(), {"--workers", "2"});
    fs::remove_all(folder / "runs");
    start(arguments, policy == "active" ? std::vector<std::string>{"OMP_WAIT_POLICY=active"} : std::vector<std::string>{});
    const auto pids = workers_at_work(2);
    EXPECT_EQ(pids.size(), 2u);
    for (const auto& [rank, pid] : pids) {
      const std::string environment = read_text("/proc/" + std::to_string(pid) + "/environ");
      EXPECT_NE(environment.find("OMP_WAIT_POLICY=" + policy), std::string::npos) << policy;
    }
    kill(running, SIGKILL);
    wait();
  }
  if (before) setenv("OMP_WAIT_POLICY", kept.c_str(), 1);
}

TEST_F(Fault, ALossThatIsNoNumberStopsWithTheStepAndAdvice) {
  const Result r = run(tiny({"optim.learning_rate=1e30", "optim.warmup_epochs=0", "optim.schedule=constant"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, ::testing::AllOf(HasSubstr("the loss is"), HasSubstr("step"), HasSubstr("worker 0"), HasSubstr("optim.learning_rate")));
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

}  // namespace
}  // namespace gossamer::apps
