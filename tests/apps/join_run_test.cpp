// `gossamer train --join`: workers that come to a run and leave it.
#include <csignal>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class JoinRun : public ProgramTest {
 protected:
  // A run that others may join, of `workers`, with all of them at work. It is over soon after it
  // may() be.
  void begin(int workers, std::vector<std::string> more = {}) {
    auto arguments = tiny({"train.epochs=400", "dist.places=4", slowed(workers, 4)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (workers > 1) arguments.insert(arguments.end(), {"--workers", std::to_string(workers)});
    start(arguments);
    ASSERT_EQ(workers_at_work(workers).size(), static_cast<std::size_t>(workers))
        << read_text(folder / "out") << read_text(folder / "err");
  }
  // Where it says that it can be joined.
  std::string address() const {
    const std::string out = read_text(folder / "out"), words = "gossamer train --join ";
    const std::size_t at = out.find(words);
    if (at == out.npos) return {};
    const std::size_t begin = at + words.size();
    return out.substr(begin, out.find(' ', begin) - begin);
  }
  // A worker with a folder of its own, as on another machine. True when all of `others` see it, and
  // it trains: until then a signal ends it at once.
  bool joins(std::size_t others, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train", "--join", address(), "run.dir=theirs"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start_beside(arguments);
    if (!wait_for("joined", others)) return false;
    for (int i = 0; i < static_cast<int>(kLimit * 50); ++i) {
      if (read_text(folder / "theirs/t/log.jsonl").find("\"step\"") != std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  std::string said_beside() const {
    return read_text(folder / "out-beside") + read_text(folder / "err-beside");
  }
};

TEST_F(JoinRun, AWorkerTakesPartAndAllFinishTogether) {
  begin(2, {"train.epochs=60"});
  ASSERT_TRUE(joins(2)) << said_beside();
  const Result r = wait(), theirs = wait_beside();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(theirs.code, 0) << theirs.out << theirs.err;
  EXPECT_THAT(theirs.out, HasSubstr("joined   as worker "));
  EXPECT_EQ(summary()["workers"], 2);
  EXPECT_EQ(summary()["workers_at_end"], 3);
  std::istringstream own(read_text(folder / "theirs/t/log.jsonl"));
  bool began = false;
  for (std::string line; std::getline(own, line);)
    if (const Json e = Json::parse(line, nullptr, false); e.is_object() && e["event"] == "start") {
      began = true;
      EXPECT_GT(e["samples"], 0) << "it goes on from where a neighbour is";
    }
  EXPECT_TRUE(began);
  EXPECT_FALSE(fs::exists(folder / "theirs/t/summary.json"))
      << "the results are of those that began";
}

TEST_F(JoinRun, OfOuterStepsToo) {
  begin(2, {"train.epochs=60", "train.method=diloco", "train.period=4", "eval.every=20",
            "eval.of=mean"});
  ASSERT_TRUE(joins(2)) << said_beside();
  const Result r = wait(), theirs = wait_beside();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(theirs.code, 0) << theirs.out << theirs.err;
  EXPECT_EQ(summary()["workers_at_end"], 3);
  // whichever side of a milestone it came on, nobody waits for another
  EXPECT_EQ(r.out.find("failed"), r.out.npos) << r.out;
}

TEST_F(JoinRun, ASignalMakesItLeaveAndTheOthersGoOn) {
  begin(2, {"train.epochs=60"});
  ASSERT_TRUE(joins(2)) << said_beside();
  kill(beside, SIGTERM);
  const Result theirs = wait_beside();
  EXPECT_EQ(theirs.code, 0) << theirs.out << theirs.err;
  EXPECT_THAT(theirs.out, HasSubstr("left     after "));
  EXPECT_FALSE(fs::exists(folder / "theirs/t/checkpoints")) << "the state is in the run's";
  const Result r = wait();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(summary()["workers_at_end"], 2);
  bool left = false;
  for (const Json& e : events("fault")) left |= e["what"] == "left" && e["peer"] >= 2;
  EXPECT_TRUE(left);
}

TEST_F(JoinRun, WhenThoseThatBeganAreStoppedItEndsToo) {
  begin(1);
  ASSERT_TRUE(joins(1)) << said_beside();
  kill(running, SIGTERM);
  const Result r = wait(), theirs = wait_beside();
  EXPECT_EQ(r.code, 128 + SIGTERM) << r.out << r.err;
  EXPECT_EQ(theirs.code, 5) << theirs.out << theirs.err;
  EXPECT_THAT(theirs.err, HasSubstr("the workers that began this run have stopped"));
  // The run goes on without it.
  const Result again = run({"train", "--resume", "runs/t", "train.epochs=5", "dist.places=0"});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
}

TEST_F(JoinRun, WithAnotherModelItIsToldWhatDiffers) {
  begin(1);
  const std::vector<std::string> other{"train", "--join", address(), "run.dir=theirs",
                                       "model.name=resnet20-cifar"};
  start_beside(other);
  const Result theirs = wait_beside();
  EXPECT_NE(theirs.code, 0);
  EXPECT_THAT(theirs.err, HasSubstr("another model"));
  EXPECT_EQ(events("joined").size(), 0u);
}

TEST_F(JoinRun, RefusalsSayWhatToDo) {
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.err;
    return r.err;
  };
  EXPECT_THAT(error({"train", "--join", "127.0.0.1:9", "--workers", "2"}),
              HasSubstr("--join with --workers"));
  EXPECT_THAT(error({"train", "--join", "somewhere"}), HasSubstr("must be host:port"));
  EXPECT_THAT(error(tiny({"dist.places=2", "--workers", "3"})),
              HasSubstr("at least the number of"));
  EXPECT_THAT(error(tiny({"dist.places=4", "train.method=allreduce", "--workers", "2"})),
              HasSubstr("a2cid2, adpsgd, async-tracking, diloco or noloco"));
  EXPECT_THAT(error(tiny({"dist.places=4", "data.shard=true", "--workers", "2"})),
              HasSubstr("divide the data"));
  const Result nobody = run({"train", "--join", "127.0.0.1:9", "dist.connect_timeout_s=1"});
  EXPECT_EQ(nobody.code, 5) << nobody.err;
  EXPECT_THAT(nobody.err, HasSubstr("no worker of the job lets this one in"));
}

}  // namespace
}  // namespace gossamer::apps
