// A full disk, a run's folder that cannot be written any more, damaged checkpoints: no model is
// lost, and what could not be written is said.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Disk : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directory(folder / "tmp");
    tmp = "TMPDIR=" + (folder / "tmp").string();
  }
  // Runs the program with runs/ on a disk of so many KB; what it left there is then in kept/.
  Result on_small_disk(int kilobytes, const std::vector<std::string>& arguments) {
    std::string command;
    for (const std::string& a : arguments) command += " '" + a + "'";
    program = "/bin/sh";
    return run(
        {"-c", "mkdir runs; exec unshare -rm /bin/sh -c \"mount -t tmpfs -o size=" +
                   std::to_string(kilobytes) + "k none runs || exit 77; " + GOSSAMER_PROGRAM +
                   command + "; code=\\$?; cp -r runs kept; exit \\$code\""},
        {tmp});
  }
  static bool no_namespaces(const Result& r) {
    return r.code == 77 || r.err.find("unshare") != std::string::npos;
  }
  // The only file of this name below the folder for temporary files.
  fs::path rescued(const std::string& name) const {
    fs::path found;
    for (const auto& e : fs::recursive_directory_iterator(folder / "tmp"))
      if (e.path().filename() == name) found = e.path();
    return found;
  }
  // In the place of the run's folder, which is moved away, there is a file.
  void take_folder_away() const {
    fs::rename(folder / "runs/t", folder / "moved");
    write_text(folder / "runs/t", "");
  }
  std::string tmp;
};

TEST_F(Disk, OldCheckpointsMakeRoomForNewOnes) {
  // a checkpoint of 900 KB twice, but not three times
  const Result r =
      on_small_disk(2000, tiny({"train.epochs=4", "run.checkpoint_every=1", "run.keep=3"}));
  if (no_namespaces(r)) GTEST_SKIP() << "no file system can be mounted here: " << r.err;
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(fs::exists(folder / "kept/t/model.safetensors"));
  EXPECT_THAT(checkpoints("kept/t"), ::testing::Contains("samples-000000000384"));
}

TEST_F(Disk, ACheckpointThatCannotBeWrittenIsAWarningAndTheModelGoesElsewhere) {
  // one checkpoint, but neither a second nor the model beside it
  const Result r = on_small_disk(1150, tiny({"train.epochs=3", "run.checkpoint_every=1"}));
  if (no_namespaces(r)) GTEST_SKIP() << "no file system can be mounted here: " << r.err;
  EXPECT_EQ(r.code, 6) << r.err;
  EXPECT_THAT(checkpoints("kept/t"), ::testing::ElementsAre("samples-000000000096"));
  EXPECT_THAT(r.err, AllOf(HasSubstr("checkpoint samples-000000000192 was not written"),
                           HasSubstr("the last time samples-000000000288"),
                           HasSubstr("No space left on device"),
                           HasSubstr("2 times a worker could not write its checkpoint")));
  EXPECT_THAT(r.out, HasSubstr("result   top-1"));
  const fs::path model = rescued("model.safetensors");
  ASSERT_FALSE(model.empty()) << r.err;
  EXPECT_THAT(r.err, HasSubstr(model.string() + " is there because"));
  EXPECT_GT(read_safetensors(model).tensors.size(), 10u);
  const Json s = Json::parse(read_text(folder / "kept/t/summary.json"), nullptr, false);
  EXPECT_EQ(s["failed_checkpoints"], 2);
  EXPECT_EQ(s["model_file"], model.string());
  EXPECT_EQ(s["warnings"].size(), 2u);
  int faults = 0;
  std::istringstream log(read_text(folder / "kept/t/log.jsonl"));
  for (std::string line; std::getline(log, line);)
    faults += line.find("\"fault\"") != line.npos && line.find("was not written") != line.npos;
  EXPECT_EQ(faults, 2);
}

TEST_F(Disk, TheModelIsWrittenBeforeTheLastCheckpoint) {
  // the model and half a checkpoint
  const Result r = on_small_disk(900, tiny({"run.checkpoint_every=0"}));
  if (no_namespaces(r)) GTEST_SKIP() << "no file system can be mounted here: " << r.err;
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("the last checkpoint, samples-000000000096, was not written"));
  EXPECT_TRUE(fs::exists(folder / "kept/t/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "kept/t/summary.json"));
}

TEST_F(Disk, ARunWhoseFolderIsGoneEndsWithItsResultsElsewhere) {
  auto arguments = tiny({"train.epochs=30", "run.checkpoint_every=10"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  start(arguments, {tmp});
  ASSERT_EQ(workers_at_work(2).size(), 2u) << read_text(folder / "err");
  take_folder_away();
  const Result r = wait();
  EXPECT_EQ(r.code, 6) << r.err;
  EXPECT_THAT(r.err, AllOf(HasSubstr("was not written, training goes on"),
                           HasSubstr("lines of log.jsonl were not written")));
  const fs::path model = rescued("model.safetensors"), summary = rescued("summary.json");
  ASSERT_FALSE(model.empty()) << r.err;
  EXPECT_GT(read_safetensors(model).tensors.size(), 10u);
  EXPECT_EQ(summary.parent_path(), model.parent_path());
  EXPECT_EQ(Json::parse(read_text(summary))["workers_at_end"], 2);
}

TEST_F(Disk, AFinishedRunWhoseModelIsElsewhereIsFinished) {
  auto arguments = tiny({"--resume", "auto"});
  ASSERT_EQ(run(arguments, {tmp}).code, 0);
  const fs::path own = folder / "runs/t/model.safetensors",
                 place = folder / "tmp/model.safetensors";
  const std::string model = read_text(own);
  fs::rename(own, place);
  fs::create_directory(own.string() + ".part");
  Json s = summary();
  s["model_file"] = place.string();
  write_text(folder / "runs/t/summary.json", s.dump());
  const std::size_t steps = events("step").size();
  const Result in_the_way = run(arguments, {tmp});
  EXPECT_EQ(in_the_way.code, 0) << in_the_way.err;
  EXPECT_THAT(in_the_way.err,
              AllOf(HasSubstr("runs/t is finished"), HasSubstr("its model is " + place.string())));
  EXPECT_EQ(summary()["model_file"], place.string());
  fs::remove(own.string() + ".part");
  const Result again = run(arguments, {tmp});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("runs/t is finished"),
                               HasSubstr("its model was copied into this folder from ")));
  EXPECT_EQ(events("step").size(), steps) << "nothing is trained";
  EXPECT_EQ(read_text(own), model) << "the folder can take it now";
  EXPECT_TRUE(fs::exists(place)) << "it may be the model of another run";
  EXPECT_EQ(summary()["model_file"], "runs/t/model.safetensors");
  s.erase("model_file");
  Json now = summary();
  now.erase("model_file");
  EXPECT_EQ(now, s);
}

// In a folder that takes links and small files only, as a full disk does.
TEST_F(Disk, WhatIsSavedElsewhereIsFoundWhenTheRunGoesOn) {
  auto arguments = tiny({"train.epochs=6", "run.checkpoint_every=1", "--resume", "auto"});
  auto slow = arguments;
  slow.insert(slow.end() - 2, slowed(1, 20));
  start(slow, {tmp});
  ASSERT_EQ(workers_at_work(1).size(), 1u) << read_text(folder / "err");
  const fs::path checkpoints = folder / "runs/t/checkpoints";
  fs::remove_all(checkpoints);
  write_text(checkpoints, "a file in the way");
  kill(running, SIGTERM);
  const Result stopped = wait();
  EXPECT_EQ(stopped.code, 6) << stopped.err;
  EXPECT_TRUE(fs::is_symlink(folder / "runs/t/elsewhere"));
  fs::remove(checkpoints);
  const Result r = run(arguments, {tmp});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err + r.out, HasSubstr("resuming from runs/t/elsewhere/checkpoints/interrupted"));
  EXPECT_EQ(summary()["legs"], 2);
  EXPECT_EQ(summary()["samples"], 6 * 96);
}

TEST_F(Disk, AnInterruptedRunWhoseFolderIsGoneIsSavedElsewhereAndGoesOn) {
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    fs::remove_all(folder / "runs");
    fs::remove_all(folder / "moved");
    auto arguments = tiny({"train.epochs=500"});
    arguments.insert(arguments.end(), {"--workers", std::to_string(workers)});
    start(arguments, {tmp});
    ASSERT_EQ(workers_at_work(workers).size(), static_cast<std::size_t>(workers))
        << read_text(folder / "err");
    take_folder_away();
    kill(running, SIGTERM);
    const Result stopped = wait();
    EXPECT_EQ(stopped.code, 6) << stopped.err;
    const fs::path saved = rescued("rank-0.safetensors");
    ASSERT_FALSE(saved.empty()) << stopped.err;
    const fs::path place = saved.parent_path().parent_path().parent_path();
    EXPECT_THAT(stopped.out, HasSubstr("--resume " + place.string() + " run.name=t"));
    fs::remove(folder / "runs/t");
    const Result r =
        run({"train", "--resume", place.string(), "run.name=t", "train.epochs=1"}, {tmp});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(summary()["workers"], workers);
    fs::remove_all(place);
  }
}

TEST_F(Disk, AFolderThatCannotBeWrittenIsRefusedBeforeTraining) {
  write_text(folder / "runs/t", "a file");
  const Result r = run(tiny({}));
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, AllOf(HasSubstr("runs/t"), HasSubstr("run.dir=FOLDER")));
}

}  // namespace
}  // namespace gossamer::apps
