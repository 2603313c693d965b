// Runs that were stopped, killed, damaged or finished, and go on: `--resume auto`, more epochs
// after the end, checkpoints by the clock, flipped bits, what a checkpoint does not need.
#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/resume_point.h"
#include "support/free_port.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Resume : public ProgramTest {
 protected:
  // Its rate does not depend on how long it is, so that going on after the end is no other
  // training.
  static std::vector<std::string> steady(std::vector<std::string> more) {
    more.insert(more.begin(),
                {"train.batch=4", "optim.schedule=constant", "optim.warmup_epochs=0"});
    return tiny(std::move(more));
  }
  static std::vector<std::string> automatic(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--resume", "auto"});
    return arguments;
  }
  // Stops what has been started after some more steps.
  void stop(int signal, int code, std::size_t steps = 3) {
    const std::size_t before = events("step").size();
    ASSERT_TRUE(wait_for("step", before + steps)) << read_text(folder / "err");
    kill(running, signal);
    EXPECT_EQ(wait().code, code) << read_text(folder / "err");
  }
  // A leg of the command, which ends with --resume auto: slowed, so that it is stopped in its
  // middle.
  void interrupt(std::vector<std::string> arguments, int signal, int code) {
    arguments.insert(arguments.end() - 2, slowed(1, 20));
    start(arguments);
    stop(signal, code);
  }
  // The run that was never disturbed.
  void expect_as_whole(const std::vector<std::string>& arguments) {
    auto whole = arguments;
    whole.push_back("run.name=whole");
    ASSERT_EQ(run(whole).code, 0) << read_text(folder / "err");
    expect_same_tensors(folder / "runs/whole/model.safetensors",
                        folder / "runs/t/model.safetensors");
  }
  // Waits for so many whole checkpoints of these workers; the name of one, or "".
  std::string saved_by(const std::vector<int>& ranks, int count) const {
    for (int i = 0; i < static_cast<int>(kLimit * 20); ++i) {
      int found = 0;
      for (const ResumePoint& point : list_checkpoints(folder / "runs/t"))
        if (point.whole() && point.ranks == ranks && ++found == count)
          return point.checkpoint.filename();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  }
  static void flip_bit(const fs::path& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 2);
    file.seekp(at);
    file.put(byte);
  }
};

TEST_F(Resume, AutoBeginsARunThatIsNotThereAndLeavesOneThatIsFinished) {
  const auto arguments = automatic(steady({}));
  const Result first = run(arguments);
  ASSERT_EQ(first.code, 0) << first.err;
  const std::string model = read_text(folder / "runs/t/model.safetensors");
  const std::size_t steps = events("step").size();
  const Result again = run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out + again.err,
              AllOf(HasSubstr("runs/t is finished"), HasSubstr("train.epochs=2")));
  EXPECT_EQ(events("step").size(), steps) << "nothing is trained";
  EXPECT_EQ(read_text(folder / "runs/t/model.safetensors"), model);
  EXPECT_FALSE(fs::exists(folder / "runs/t.1"));
}

// Worker 0 says so and ends; the others must not wait for it.
TEST_F(Resume, EachWorkerOfAnotherLauncherLeavesARunThatIsFinished) {
  ASSERT_EQ(run(steady({"--workers", "2"})).code, 0);
  for (const char* rank : {"1", "0"}) {
    const Result again = run(automatic(steady({})),
                             {std::string("RANK=") + rank, std::string("LOCAL_RANK=") + rank,
                              "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                              "MASTER_PORT=" + std::to_string(gossamer::testing::free_port())});
    EXPECT_EQ(again.code, 0) << rank << again.err;
  }
}

// Else the checkpoints of the new branch would be taken for outdated, and the old branch for the
// run.
TEST_F(Resume, FromAnEarlierCheckpointThatIsNamedTheLaterOnesAreSetAside) {
  ASSERT_EQ(run(steady({"train.epochs=4", "run.checkpoint_every=1", "run.keep=9"})).code, 0);
  const Result r = run({"train", "--resume", "runs/t/checkpoints/samples-000000000096",
                        "run.keep=1", "train.epochs=3"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err + r.out, HasSubstr("resuming from runs/t/checkpoints/samples-000000000096"));
  EXPECT_THAT(r.out, HasSubstr("3 later checkpoints are now in runs/t/earlier/1"));
  EXPECT_THAT(checkpoints(), ::testing::ElementsAre("samples-000000000288"));
  for (const char* label : {"192", "288", "384"})
    EXPECT_TRUE(fs::exists(folder / "runs/t/earlier/1/checkpoints" /
                           (std::string("samples-000000000") + label) / "rank-0.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "runs/t/earlier/1/model.safetensors"));
  expect_as_whole(steady({"train.epochs=3"}));
}

TEST_F(Resume, OfAFinishedRunThatHadMoreEpochsSaysHowManyItHad) {
  ASSERT_EQ(run(steady({"train.epochs=3"})).code, 0);
  const Result r = run({"train", "--resume", "runs/t", "train.epochs=1"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("runs/t is finished (train.epochs=3); to train on, give more: "
                               "train.epochs=6"));
}

TEST_F(Resume, WhatIsNamedMayBeTheFolderItselfOrThatOfItsCheckpointsButNoFile) {
  ASSERT_EQ(run(steady({"train.epochs=1"})).code, 0);
  const auto resumed = [&](const std::string& from) {
    return run({"train", "--resume", from, "train.epochs=2"});
  };
  const Result file = resumed("runs/t/model.safetensors");
  EXPECT_EQ(file.code, 6);
  EXPECT_THAT(file.err, HasSubstr("runs/t/model.safetensors: this is a file; name the folder"));
  EXPECT_EQ(resumed("runs/t/checkpoints").code, 0);
  EXPECT_EQ(summary()["legs"], 2);
  fs::rename(folder / "runs/t/config.toml", folder / "config.toml");
  const Result bare = resumed("runs/t");
  EXPECT_EQ(bare.code, 6);
  EXPECT_THAT(bare.err, HasSubstr("runs/t/config.toml is missing; give the run's configuration"));
  EXPECT_EQ(run({"train", "config.toml", "--resume", "runs/t", "train.epochs=3"}).code, 0);
}

TEST_F(Resume, AutoBeginsAnewWhatWasKilledBeforeItsFirstCheckpoint) {
  const auto arguments = automatic(steady({"train.epochs=2"}));
  interrupt(arguments, SIGKILL, 1000 + SIGKILL);
  EXPECT_TRUE(checkpoints().empty());
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  expect_as_whole(steady({"train.epochs=2"}));
}

TEST_F(Resume, AutoGoesOnFromWhatWasInterruptedWhateverElseWasHalfWritten) {
  const auto arguments = automatic(steady({"train.epochs=3"}));
  for (int leg = 0; leg < 3; ++leg) interrupt(arguments, SIGTERM, 143);
  EXPECT_THAT(checkpoints(), Contains("interrupted-3"));
  const fs::path half = folder / "runs/t/checkpoints/samples-000000000900";
  write_text(half / "rank-0.safetensors.tmp-5-0", "half");
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out + r.err, HasSubstr("resuming from runs/t/checkpoints/interrupted-3"));
  EXPECT_FALSE(fs::exists(half));
  EXPECT_EQ(summary()["legs"], 4);
  EXPECT_EQ(summary()["samples"], 3 * 96);
  expect_as_whole(steady({"train.epochs=3"}));
}

TEST_F(Resume, AutoPassesOverADamagedCheckpoint) {
  const auto arguments = automatic(steady({"train.epochs=3"}));
  for (int leg = 0; leg < 2; ++leg) interrupt(arguments, SIGTERM, 143);
  flip_bit(folder / "runs/t/checkpoints/interrupted-2/rank-0.safetensors", 20000);
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out + r.err, HasSubstr("resuming from runs/t/checkpoints/interrupted; passed "
                                       "over: interrupted-2 ("));
  expect_as_whole(steady({"train.epochs=3"}));
}

TEST_F(Resume, AutoBeginsAnewWhereNoCheckpointIsWhole) {
  const auto arguments = automatic(steady({}));
  interrupt(arguments, SIGTERM, 143);
  flip_bit(folder / "runs/t/checkpoints/interrupted/rank-0.safetensors", 20000);
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out + r.err, AllOf(HasSubstr("rank-0.safetensors"), HasSubstr("checksum"),
                                   HasSubstr("the run begins anew"), HasSubstr("runs/t.1")));
  expect_as_whole(steady({}));
}

TEST_F(Resume, MoreEpochsGoOnFromTheEnd) {
  for (const int interruptions : {0, 1, 3}) {
    SCOPED_TRACE(interruptions);
    fs::remove_all(folder / "runs");
    const auto arguments = automatic(steady({"train.epochs=2"}));
    for (int leg = 0; leg < interruptions; ++leg) interrupt(arguments, SIGTERM, 143);
    ASSERT_EQ(run(arguments).code, 0) << read_text(folder / "err");
    const std::string model = read_text(folder / "runs/t/model.safetensors");
    const std::size_t steps = events("step").size();
    const Result r = run({"train", "--resume", "runs/t", "train.epochs=4"});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out + r.err, HasSubstr("resuming from runs/t/checkpoints/samples-000000000192"));
    EXPECT_EQ(events("step").size() - steps, 2u * 96 / 4) << "no image is trained on again";
    EXPECT_EQ(summary()["samples"], 4 * 96);
    EXPECT_EQ(read_text(folder / "runs/t/earlier" / std::to_string(interruptions + 1) /
                        "model.safetensors") == model,
              true)
        << "the older result is kept";
    expect_as_whole(steady({"train.epochs=4"}));
  }
}

// Stopped while it goes on after its end, the run has the older results aside, none in its folder.
TEST_F(Resume, ARunThatIsStoppedAfterMoreEpochsHasNoStaleModel) {
  ASSERT_EQ(run(steady({})).code, 0);
  start({"train", "--resume", "runs/t", "train.epochs=9", slowed(1, 20)});
  stop(SIGTERM, 143);
  for (const char* name : {"model.safetensors", "summary.json", "classes.json"}) {
    EXPECT_FALSE(fs::exists(folder / "runs/t" / name)) << name;
    EXPECT_TRUE(fs::exists(folder / "runs/t/earlier/1" / name)) << name;
  }
}

TEST_F(Resume, WithoutAFinalCheckpointNoneIsWritten) {
  ASSERT_EQ(run(steady({"run.final_checkpoint=false"})).code, 0);
  EXPECT_TRUE(checkpoints().empty());
  const Result r = run({"train", "--resume", "runs/t", "train.epochs=2"});
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("no checkpoint there"), HasSubstr("model.init=runs/t")));
}

// One worker decides by its clock at which sample all save, and tells the others.
TEST_F(Resume, FourWorkersSaveByTheClockOfOne) {
  for (const char* method : {"a2cid2", "allreduce"}) {
    SCOPED_TRACE(method);
    fs::remove_all(folder / "runs");
    start(steady({std::string("train.method=") + method, "train.epochs=4000",
                  "run.checkpoint_every=0.1 s", "run.keep=99", "--workers", "4"}));
    const std::string label = saved_by({0, 1, 2, 3}, 1);
    EXPECT_TRUE(label.starts_with("samples-")) << label;
    kill(running, SIGTERM);
    EXPECT_EQ(wait().code, 143);
    // and it is one to go on from
    const Result r = run({"train", "--resume", "runs/t/checkpoints/" + label, "run.name=on",
                          "train.epochs=1", "run.checkpoint_every=0"});
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

// The clock is then that of the lowest that is left, and its word goes over the network.
TEST_F(Resume, AfterTheDeathOfWorker0TheOthersSaveByTheClockOfTheNext) {
  start(steady({"train.epochs=4000", "dist.read_memory=false", "run.checkpoint_every=0.1 s",
                "run.keep=99", "--workers", "4"}));
  const auto pids = workers_at_work(4);
  ASSERT_EQ(pids.size(), 4u) << read_text(folder / "err");
  kill(pids.at(0), SIGKILL);
  // worker 0 may have appointed the first of them
  EXPECT_TRUE(saved_by({1, 2, 3}, 2).starts_with("samples-"));
  kill(running, SIGTERM);
  EXPECT_EQ(wait().code, 143);
}

TEST_F(Resume, EveryCheckpointHasANameOfItsOwnHoweverOftenTheyAreWritten) {
  ASSERT_EQ(run(steady({"run.checkpoint_every=0.001", "run.keep=99"})).code, 0);
  const auto all = list_checkpoints(folder / "runs/t");
  EXPECT_GE(all.size(), 3u);
  for (const ResumePoint& point : all)
    EXPECT_EQ(point.checkpoint.filename(), checkpoint_label(point.samples));
  const Result mean = run({"average", "runs/t", "--last", "3"});
  EXPECT_EQ(mean.code, 0) << mean.err;
}

// Each says once what was damaged and what is taken instead.
TEST_F(Resume, AFlippedBitInAFileOfAWorkerEndsNoRun) {
  for (const char* method : {"a2cid2", "allreduce", "diloco"}) {
    fs::remove_all(folder / "runs");
    ASSERT_EQ(run(steady({std::string("train.method=") + method, "--workers", "4"})).code, 0)
        << read_text(folder / "err");
    ASSERT_EQ(checkpoints().size(), 1u);
    const fs::path checkpoint = folder / "runs/t/checkpoints" / checkpoints()[0];
    for (int rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(std::string(method) + " " + std::to_string(rank));
      fs::copy(folder / "runs/t", folder / "runs/d", fs::copy_options::recursive);
      const fs::path file =
          folder / "runs/d/checkpoints" / checkpoints()[0] / checkpoint_file(rank);
      flip_bit(file, rank % 2 ? 100 : static_cast<std::streamoff>(fs::file_size(file)) - 1000);
      const Result r = run({"train", "--resume", "runs/d", "train.epochs=2"});
      ASSERT_EQ(r.code, 0) << r.err;
      const std::string said = r.out + r.err, name = checkpoint_file(rank);
      const std::size_t at = said.find(name);
      EXPECT_NE(at, std::string::npos) << said;
      EXPECT_EQ(said.find(name, at + 1), std::string::npos) << said;
      EXPECT_THAT(said, HasSubstr("worker " + std::to_string(rank) +
                                  ": its file of the checkpoint is damaged, so it goes on from"));
      EXPECT_TRUE(summary("d")["loss"].is_number());
      fs::remove_all(folder / "runs/d");
    }
  }
}

// Of pictures a file; of text a folder, with the tokenizer.
TEST_F(Resume, DoesNotNeedTheModelThatItBeganWith) {
  make_texts(folder);
  const std::vector<std::string> text{"model.layers=1", "model.width=16", "model.heads=2"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  for (const std::string task : {"pictures", "language", "translation"}) {
    SCOPED_TRACE(task);
    fs::remove_all(folder / "runs");
    auto common = steady({"task=" + task});
    if (task != "pictures")
      common = steady({"task=" + task, "data.train=" + task, "data.val=auto", "data.length=16",
                       "train.batch=32"});
    ASSERT_EQ(run(with(with(common, task == "pictures" ? std::vector<std::string>{} : text),
                       {"run.name=base"}))
                  .code,
              0)
        << read_text(folder / "err");
    const auto arguments = automatic(with(common, {"model.init=runs/base", "train.epochs=2"}));
    interrupt(arguments, SIGTERM, 143);
    fs::rename(folder / "runs/base", folder / "moved");
    fs::copy(folder / "runs/t", folder / "runs/u", fs::copy_options::recursive);
    const Result automatically = run(arguments);
    EXPECT_EQ(automatically.code, 0) << automatically.err;
    const Result named = run({"train", "--resume", "runs/u", "dist.inject="});
    EXPECT_EQ(named.code, 0) << named.err;
    expect_same_tensors(folder / "runs/t/model.safetensors", folder / "runs/u/model.safetensors");
    fs::remove_all(folder / "moved");
  }
}

TEST_F(Resume, DoesNotNeedTheFileOfTheGraph) {
  write_text(folder / "graph.txt", "0 1\n1 2\n");
  start(steady({"train.epochs=2", "train.method=dpsgd", "train.graph=file:graph.txt", "--workers",
                "3", slowed(3, 20)}));
  stop(SIGTERM, 143, 9);
  fs::remove(folder / "graph.txt");
  const Result r = run({"train", "--resume", "runs/t", "dist.inject="});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary()["workers_at_end"], 3);
}

// Worker 0 writes the model at the end, with what it has of the frozen parameters.
TEST_F(Resume, AWorkerThatIsStartedAgainHasTheFrozenParameters) {
  ASSERT_EQ(run(steady({"run.name=base"})).code, 0);
  const fs::path base = folder / "runs/base/model.safetensors";
  fs::copy_file(base, folder / "init.safetensors");
  start(steady({"train.epochs=200", "model.init=init.safetensors", "model.freeze=all but fc",
                "--workers", "3"}));
  stop(SIGTERM, 143, 9);
  fs::rename(folder / "init.safetensors", folder / "moved.safetensors");
  fs::remove_all(folder / "runs/base");
  fs::remove(folder / "runs/t/log.jsonl");
  start({"train", "--resume", "runs/t", "dist.restart=1", slowed(3, 3), "run.keep=1",
         "run.checkpoint_every=0.1"});
  const auto pids = workers_at_work(3);
  ASSERT_EQ(pids.size(), 3u) << read_text(folder / "err");
  kill(pids.at(0), SIGKILL);
  ASSERT_TRUE(wait_for("joined", 1)) << read_text(folder / "err");
  const auto steps_of_0 = [&] {
    return std::ranges::count_if(events("step"), [](const Json& e) { return e["rank"] == 0; });
  };
  const auto before = steps_of_0();
  for (int i = 0; i < static_cast<int>(kLimit * 50) && steps_of_0() < before + 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(running, SIGTERM);
  EXPECT_EQ(wait().code, 143) << read_text(folder / "err");
  const Result r = run({"train", "--resume", "runs/t", "train.epochs=1"});
  ASSERT_EQ(r.code, 0) << r.err;
  const SafeTensors initial = read_safetensors(folder / "moved.safetensors"),
                    after = read_safetensors(folder / "runs/t/model.safetensors");
  for (const NamedTensor& t : initial.tensors) {
    if (t.name.starts_with("fc.") || t.tensor.dtype() != DType::f32) continue;
    ASSERT_NE(after.find(t.name), nullptr) << t.name;
    EXPECT_EQ(std::memcmp(t.tensor.data(), after.find(t.name)->data(), t.tensor.bytes()), 0)
        << t.name;
  }
}

// Running variances overflow long before the loss does.
TEST_F(Resume, ARunThatDivergesLeavesTheGoodCheckpointAndNamesIt) {
  const auto wild = [](std::vector<std::string> more) {
    more.insert(more.end(), {"run.checkpoint_every=1 steps", "optim.learning_rate=1e30",
                             "optim.warmup_epochs=0", "train.epochs=4"});
    return more;
  };
  Result r = run(tiny(wild({"run.name=new"})));
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_FALSE(fs::exists(folder / "runs/new/checkpoints/interrupted"));
  ASSERT_EQ(run(tiny({})).code, 0) << read_text(folder / "err");
  const auto before = list_checkpoints(folder / "runs/t");
  ASSERT_FALSE(before.empty());
  r = run(wild({"train", "--resume", "runs/t"}));
  EXPECT_EQ(r.code, 1) << r.err;
  for (const ResumePoint& point : list_checkpoints(folder / "runs/t"))
    for (const NamedTensor& t : read_safetensors(point.files[0]).tensors)
      if (t.tensor.dtype() == DType::f32)
        for (const float value : t.tensor.span<float>()) ASSERT_TRUE(std::isfinite(value));
  const auto after = list_checkpoints(folder / "runs/t");
  EXPECT_THAT(r.out, HasSubstr("failed   the last checkpoint, after"));
  EXPECT_THAT(r.out, HasSubstr(after[0].checkpoint.filename().string()));
}

}  // namespace
}  // namespace gossamer::apps
