// Which checkpoint a run goes on from, and what is read from it: whole ones, parts, mixtures.
#include "gossamer/apps/train/checkpoint.h"

#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gossamer/apps/report/run_folder.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class NoMethod : public dist::Method {
 public:
  explicit NoMethod(const char* name) : name_(name) {}
  void step(double) override {}
  double samples_seen() const override { return 0; }
  bool done() const override { return true; }
  void finish() override {}
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override { return kept; }
  dist::MethodStats stats() const override { return {}; }
  const char* name() const override { return name_; }

  std::vector<NamedTensor> kept;

 private:
  const char* name_;
};

// A model with its state, all of it `value`.
struct Model {
  explicit Model(float value = 0, const char* name = "adpsgd") : method(name) {
    Tensor(params.values()).fill(value);
    Tensor(params.buffers()).fill(value);
  }
  nn::TrainState state() { return {net->buffers(), params, optimizer}; }
  float buffer(const std::string& end) {
    for (NamedTensor& b : params.buffer_windows())
      if (b.name.ends_with(end)) return b.tensor.span<float>()[0];
    return NAN;
  }
  std::shared_ptr<nn::Module> net = models::make("resnet8-cifar", {.classes = 10});
  FlatParams params{net->parameters(), net->buffers()};
  nn::Sgd optimizer{params};
  NoMethod method;
};

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gossamer-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }
  void save(const std::string& label, int rank, int world, double samples, float value,
            const char* method = "adpsgd", i64 keep = 9, const FiguresSoFar& figures = {}) {
    Model m(value, method);
    write_checkpoint(folder, label,
                     copy_state(rank, world, m.state(), m.method,
                                {.samples = samples, .epoch = 3, .step = 5}, order, figures),
                     keep);
  }
  static Loaded load(const ResumePoint& point, int rank, int world, Model& m) {
    return load_checkpoint(point, rank, world, m.state(), dist::method_traits(m.method.name()),
                           m.method.state());
  }
  fs::path folder;
  data::SampleOrder order{.batch = 12, .seed = 7, .shared = true, .set = 0xfedcba9876543210};
};

TEST_F(Checkpoint, AWholeOneGivesEachRankItsOwnState) {
  save("a", 0, 2, 100, 1);
  save("a", 1, 2, 104, 3);
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_TRUE(point.own_state(2));
  EXPECT_EQ(point.samples, 102);  // of two estimates the mean
  Model m;
  const nn::Position at = load(point, 1, 2, m).at;
  EXPECT_EQ(m.params.values().span<float>()[0], 3);
  EXPECT_EQ(at.step, 5);
}

TEST_F(Checkpoint, AllReduceTakesRankZeroAndTheMostSamples) {
  save("a", 0, 2, 100, 1, "allreduce");
  save("a", 1, 2, 104, 3, "allreduce");
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_EQ(point.samples, 104);
  Model m(0, "allreduce");
  load(point, 1, 2, m);
  EXPECT_EQ(m.params.values().span<float>()[0], 1);
}

TEST_F(Checkpoint, APartIsNeverTakenForTheWholeAndGivesTheMeanToWhoHasNone) {
  save("a", 0, 3, 100, 1);
  save("a", 2, 3, 100, 3);
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_EQ(point.world, 3);
  EXPECT_FALSE(point.whole());
  EXPECT_FALSE(point.own_state(2)) << "with another number of workers all start from the mean";
  const auto loaded = [&](int rank, int world) {
    Model m;
    load(point, rank, world, m);
    return m.params.values().span<float>()[0];
  };
  for (const int rank : {0, 1}) EXPECT_FLOAT_EQ(loaded(rank, 2), 2);
  EXPECT_TRUE(point.own_state(3));
  EXPECT_FLOAT_EQ(loaded(0, 3), 1);
  EXPECT_FLOAT_EQ(loaded(1, 3), 2) << "the mean of the others";
  EXPECT_FLOAT_EQ(loaded(2, 3), 3);
}

TEST_F(Checkpoint, OfAllReduceAnyWorkersFileIsThatOfAll) {
  save("a", 1, 3, 100, 5, "allreduce");
  const ResumePoint point = find_checkpoint(folder);
  for (const int rank : {0, 1, 2}) {
    Model m(0, "allreduce");
    EXPECT_EQ(load(point, rank, 3, m).at.step, 5);
    EXPECT_EQ(m.params.values().span<float>()[0], 5);
  }
}

TEST_F(Checkpoint, WorkersThatWereDeadThenAreNotMissed) {
  save("old", 0, 2, 100, 1);
  save("old", 1, 2, 100, 1);
  save("new", 0, 2, 300, 5, "adpsgd", 9, {.alive = {0}});
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_EQ(point.checkpoint.filename(), "new");
  EXPECT_TRUE(point.whole());
  EXPECT_TRUE(point.own_state(2)) << "worker 1 takes that of worker 0";
  Model m;
  load(point, 1, 2, m);
  EXPECT_EQ(m.params.values().span<float>()[0], 5);
}

TEST_F(Checkpoint, AWorkerThatHadSavedAndLeftBeforeTheOthersSavedIsNotForgotten) {
  save("interrupted", 1, 2, 300, 1, "adpsgd", 9, {.alive = {0, 1}});
  save("interrupted", 0, 2, 304, 3, "adpsgd", 9, {.alive = {0}});
  EXPECT_TRUE(find_checkpoint(folder).own_state(2));
}

TEST_F(Checkpoint, AFileOfAnEarlierLegIsLeftOut) {
  save("interrupted", 0, 2, 100, 1);
  save("interrupted", 1, 2, 100, 1);
  save("interrupted", 0, 2, 300, 5, "adpsgd", 9, {.earlier = {.legs = 1}, .alive = {0}});
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_EQ(point.files.size(), 1u);
  EXPECT_TRUE(point.whole());
  EXPECT_EQ(point.samples, 300);
}

TEST_F(Checkpoint, FilesOfAnotherRunInTheSameFolderAreLeftOut) {
  for (int rank = 0; rank < 4; ++rank) save("a", rank, 4, 50, 9);
  // the run went on with two workers: ranks 2 and 3 are of old
  save("a", 0, 2, 100, 1);
  save("a", 1, 2, 100, 3);
  fs::copy_file(folder / "checkpoints/a/rank-0.safetensors",
                folder / "checkpoints/a/rank-0.safetensors.tmp-1-0");
  // says itself that it is rank 0
  fs::copy_file(folder / "checkpoints/a/rank-0.safetensors",
                folder / "checkpoints/a/rank-7.safetensors");
  const ResumePoint point = find_checkpoint(folder);
  EXPECT_EQ(point.world, 2);
  EXPECT_EQ(point.files.size(), 2u);
  EXPECT_TRUE(point.own_state(2));
  Model m;
  load(point, 0, 1, m);
  EXPECT_FLOAT_EQ(m.params.values().span<float>()[0], 2);
}

TEST_F(Checkpoint, AWholeOneIsPreferredToANewerPart) {
  save("whole", 0, 2, 100, 1);
  save("whole", 1, 2, 100, 1);
  save("part", 1, 2, 200, 1);
  EXPECT_EQ(find_checkpoint(folder).checkpoint.filename(), "whole");
}

TEST_F(Checkpoint, TheMeanOfVariancesCountsTheSpreadOfTheMeans) {
  save("a", 0, 2, 100, 1);  // mean 1, variance 1
  save("a", 1, 2, 100, 3);  // mean 3, variance 3
  Model m;
  const nn::Position at = load(find_checkpoint(folder), 0, 1, m).at;
  EXPECT_FLOAT_EQ(m.buffer("running_mean"), 2);
  EXPECT_FLOAT_EQ(m.buffer("running_var"), 3);  // (1 + 1 + 3 + 9) / 2 - 4
  EXPECT_EQ(at.epoch, 4);
  EXPECT_EQ(at.step, 0);
}

TEST_F(Checkpoint, TheOnlyWholeOneIsKeptUntilAnotherIsWhole) {
  const auto there = [&](const char* label, int rank) {
    return fs::exists(folder / "checkpoints" / label / checkpoint_file(rank));
  };
  save("a", 0, 2, 100, 1, "adpsgd", 1);
  save("a", 1, 2, 100, 1, "adpsgd", 1);
  save("b", 0, 2, 200, 1, "adpsgd", 1);
  EXPECT_TRUE(there("a", 0)) << "until rank 1 has written it, b is not whole";
  prune_checkpoints(folder, 0, 0);
  EXPECT_TRUE(there("a", 0)) << "a full disk is no reason either";
  EXPECT_FALSE(there("b", 0));
  save("b", 0, 2, 200, 1, "adpsgd", 1);
  save("b", 1, 2, 200, 1, "adpsgd", 1);
  EXPECT_FALSE(fs::exists(folder / "checkpoints/a"));
  EXPECT_TRUE(there("b", 0) && there("b", 1));
  // rank 1 is dead: none will be whole again, and still not more than `keep` of rank 0 remain
  for (const double samples : {300, 400, 500})
    save("c" + std::to_string(samples), 0, 2, samples, 1, "adpsgd", 1);
  EXPECT_TRUE(there("b", 0) && there("b", 1));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "checkpoints"), {}), 2);
}

TEST_F(Checkpoint, OneThatIsNotFiniteIsNotWrittenAndTheGoodOnesStay) {
  save("samples-000000000100", 0, 1, 100, 1, "adpsgd", 1);
  for (const float bad : {NAN, -INFINITY}) {
    Model m(1);
    m.params.buffer_windows().back().tensor.fill(bad);
    try {
      write_checkpoint(folder, "samples-000000000200",
                       copy_state(0, 1, m.state(), m.method, {}, order), 1);
      ADD_FAILURE() << "written";
    } catch (const IoError& e) {
      ADD_FAILURE() << "room is made for what cannot be written: " << e.what();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(),
                  AllOf(HasSubstr(m.params.buffer_windows().back().name), HasSubstr("not finite")));
    }
    ASSERT_EQ(list_checkpoints(folder).size(), 1U);
    EXPECT_EQ(list_checkpoints(folder)[0].samples, 100);
  }
}

TEST_F(Checkpoint, OneThatCannotBeWrittenLeavesNoEmptyFolder) {
  save("a", 0, 1, 100, 1);
  std::ofstream(folder / "checkpoints/b") << "a file in the way";
  EXPECT_THROW(save("b", 0, 1, 200, 1), IoError);
  fs::create_directories(folder / "checkpoints/c/rank-0.safetensors/a folder in the way");
  EXPECT_THROW(save("c", 0, 1, 200, 1), IoError);
  fs::remove_all(folder / "checkpoints/c");
  // a limit on the size of files, as a full disk
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(save("d", 0, 1, 200, 1), IoError);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(fs::exists(folder / "checkpoints/d"));
  EXPECT_EQ(find_checkpoint(folder).checkpoint.filename(), "a");
}

TEST_F(Checkpoint, TheNewestThatIsWholeIsTakenAndTheOthersAreNamed) {
  for (const char* label : {"a", "b", "c", "d"})
    for (const int rank : {0, 1}) save(label, rank, 2, 100.0 + label[0], 1);
  fs::remove(folder / "checkpoints/b/rank-1.safetensors");
  fs::resize_file(folder / "checkpoints/c/rank-0.safetensors", 5000);
  for (const int rank : {0, 1}) fs::remove(folder / "checkpoints/d" / checkpoint_file(rank));
  const ResumePoint mended = find_checkpoint(folder);
  EXPECT_EQ(mended.checkpoint.filename(), "c") << "worker 1's file is whole";
  EXPECT_FALSE(mended.whole());
  EXPECT_TRUE(mended.own_state(2));
  EXPECT_THAT(mended.defect, AllOf(HasSubstr("rank-0.safetensors"), HasSubstr("cut short")));
  fs::resize_file(folder / "checkpoints/c/rank-1.safetensors", 5000);
  const ResumePoint found = find_checkpoint(folder);
  EXPECT_EQ(found.checkpoint.filename(), "a");
  EXPECT_TRUE(found.whole());
  EXPECT_THAT(found.passed_over,
              testing::UnorderedElementsAre(
                  "b (worker 1 did not write its file)",
                  AllOf(HasSubstr("c ("), HasSubstr(".safetensors"), HasSubstr("cut short")),
                  "d (it is empty)"));
  for (const char* label : {"c", "d"}) {
    try {
      find_checkpoint(folder / "checkpoints" / label);
      ADD_FAILURE() << label;
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr("the newest checkpoint that is whole is " +
                                      (folder / "checkpoints/a").string()));
    }
  }
  // a part that is named itself is taken, as the mean
  EXPECT_EQ(find_checkpoint(folder / "checkpoints/b").files.size(), 1u);
  // what is left of a run without any whole checkpoint
  for (const char* label : {"a", "b"}) fs::remove_all(folder / "checkpoints" / label);
  EXPECT_THROW(find_checkpoint(folder), IoError);
}

// One bit in the header, and one in the tensors.
void flip(const fs::path& path, bool in_header) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto at =
      in_header ? std::streamoff{60} : static_cast<std::streamoff>(fs::file_size(path)) / 2;
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(at);
  file.put(byte);
}

TEST_F(Checkpoint, AWorkerWhoseFileHasAFlippedBitTakesTheStateOfOthers) {
  for (const char* method : {"adpsgd", "allreduce"})
    for (const bool in_header : {true, false})
      for (int bad = 0; bad < 4; ++bad) {
        SCOPED_TRACE(std::string(method) + (in_header ? ", header, " : ", data, ") +
                     std::to_string(bad));
        fs::remove_all(folder / "checkpoints");
        const bool equal = method == std::string("allreduce");
        const float values[] = {1, 2, 4, 9};
        for (int rank = 0; rank < 4; ++rank) {
          save("old", rank, 4, 100, 7, method);
          save("new", rank, 4, 200, equal ? 3 : values[rank], method);
        }
        flip(folder / "checkpoints/new" / checkpoint_file(bad), in_header);
        for (int rank = 0; rank < 4; ++rank) {
          const ResumePoint point = find_checkpoint(folder, {.rank = rank, .workers = 4});
          ASSERT_EQ(point.checkpoint.filename(), "new");
          Model m(0, method);
          const nn::Position at = load(point, rank, 4, m).at;
          EXPECT_EQ(at.step, 5);
          const float mean = (16 - values[bad]) / 3;
          EXPECT_FLOAT_EQ(m.params.values().span<float>()[0], equal         ? 3
                                                              : rank == bad ? mean
                                                                            : values[rank]);
        }
        // the first process says which, and all start from the same
        const ResumePoint seen = find_checkpoint(folder);
        EXPECT_EQ(seen.damaged_ranks, std::vector<int>{bad});
        EXPECT_THAT(seen.defect, HasSubstr(checkpoint_file(bad)));
      }
}

// An outer model, which is not the mean of the models, is the same on all workers, and stays so;
// a twin is the mean of the others'; and nobody sends what another has kept back.
TEST_F(Checkpoint, StateOfAMethodThatAllWorkersShareStaysEqualWhereAFileIsDamaged) {
  const auto with_state = [](float value, float twin) {
    auto m = std::make_unique<Model>(value, "diloco");
    const auto filled = [&](float x) {
      Tensor t = m->params.values().clone();
      t.fill(x);
      return t;
    };
    m->method.kept = {{"outer.model", filled(0.1f)},
                      {"twin.value", filled(twin)},
                      {dist::kPayloadError, filled(twin)}};
    return m;
  };
  for (int rank = 0; rank < 4; ++rank) {
    const auto m = with_state(static_cast<float>(rank), static_cast<float>(10 * rank));
    write_checkpoint(
        folder, "new",
        copy_state(rank, 4, m->state(), m->method, {.samples = 200, .epoch = 3, .step = 5}, order),
        9);
  }
  flip(folder / "checkpoints/new" / checkpoint_file(1), false);
  const auto m = with_state(0, 0);
  load(find_checkpoint(folder, {.rank = 1, .workers = 4}), 1, 4, *m);
  EXPECT_FLOAT_EQ(m->params.values().span<float>()[0], 5.0f / 3);
  EXPECT_EQ(m->method.kept[0].tensor.span<float>()[0], 0.1f);
  EXPECT_FLOAT_EQ(m->method.kept[1].tensor.span<float>()[0], 50.0f / 3);
  EXPECT_EQ(m->method.kept[2].tensor.span<float>()[0], 0);
}

// One worker has not written its file, and that of another is damaged.
TEST_F(Checkpoint, AFlippedBitInAPartLeavesTheRest) {
  for (const int rank : {0, 1, 2}) save("new", rank, 4, 200, static_cast<float>(1 + rank));
  flip(folder / "checkpoints/new" / checkpoint_file(1), false);
  const float wanted[] = {1, 2, 3, 2};
  for (int rank = 0; rank < 4; ++rank) {
    Model m;
    load(find_checkpoint(folder, {.rank = rank, .workers = 4}), rank, 4, m);
    EXPECT_FLOAT_EQ(m.params.values().span<float>()[0], wanted[rank]) << rank;
  }
  Model m;  // another number of workers
  load(find_checkpoint(folder, {.rank = 0, .workers = 3}), 0, 3, m);
  EXPECT_FLOAT_EQ(m.params.values().span<float>()[0], 2);
}

TEST_F(Checkpoint, OneWorkerWithAFlippedBitTakesTheOlderOne) {
  for (const bool in_header : {true, false}) {
    fs::remove_all(folder / "checkpoints");
    save("old", 0, 1, 100, 1);
    save("new", 0, 1, 200, 2);
    flip(folder / "checkpoints/new" / checkpoint_file(0), in_header);
    const ResumePoint found = find_checkpoint(folder);
    EXPECT_EQ(found.checkpoint.filename(), "old");
    EXPECT_THAT(found.passed_over,
                testing::ElementsAre(AllOf(HasSubstr("new ("), HasSubstr("checksum"))));
  }
}

TEST_F(Checkpoint, WhatAnotherWorkerIsWritingIsNeverRemoved) {
  save("a", 0, 2, 100, 1);
  const fs::path half = folder / "checkpoints/a/rank-1.safetensors.tmp-77-0",
                 begun = folder / "checkpoints/b";
  write_file(half, "half");
  fs::create_directories(begun);  // made, and nothing in it yet
  for (const double samples : {200, 300, 400})
    for (const int rank : {0, 1})
      save("c" + std::to_string(samples), rank, 2, samples, 1, "adpsgd", 1);
  prune_checkpoints(folder, 0, 0);
  prune_checkpoints(folder, kAllRanks, 0);
  EXPECT_TRUE(fs::exists(half));
  EXPECT_TRUE(fs::exists(begun));
  EXPECT_FALSE(fs::exists(folder / "checkpoints/a/rank-0.safetensors"));
  remove_half_written(folder);
  EXPECT_FALSE(fs::exists(folder / "checkpoints/a"));
  EXPECT_FALSE(fs::exists(begun));
  EXPECT_EQ(find_checkpoint(folder).samples, 400);
}

TEST_F(Checkpoint, ARankThatIsNoneIsRefused) {
  save("a", 0, 1, 100, 1);
  const fs::path path = folder / "checkpoints/a/rank-0.safetensors";
  const SafeTensors file = read_safetensors(path);
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"rank", "5"}, {"world", "nan"}, {"world", "0"}, {"samples", "-1"}}) {
    auto metadata = file.metadata;
    metadata[key] = value;
    write_safetensors(path, file.tensors, metadata);
    EXPECT_THROW(find_checkpoint(folder), IoError) << key;
  }
}

TEST_F(Checkpoint, AResumedRunForgetsTheOldSummaryAndListsADamagedImageOnce) {
  RunFolder run(folder / "run");
  fs::create_directory(folder / "run");
  run.open();
  write_file(run.file("summary.json"), "{}");
  run.add_bad_images({"b.jpg: cut", "a.jpg: cut"});
  run.add_bad_images({"b.jpg: cut", "a.jpg: cut early"});
  EXPECT_EQ(run.merge_bad_images(), 2u);
  EXPECT_EQ(run.merge_bad_images(), 2u);
  EXPECT_EQ(run.begin("", "", true).moved, "");
  EXPECT_FALSE(fs::exists(run.file("summary.json")));
}

}  // namespace
TEST_F(Checkpoint, GoesOnAtTheSameImageOrSaysWhatComesTwice) {
  save("a", 0, 1, 100, 1);  // step 5 of batches of 12
  const ResumePoint point = find_checkpoint(folder);
  const auto resumed = [&](auto change) {
    data::SampleOrder now = order;
    change(now);
    Model m;
    const Loaded loaded = load(point, 0, 1, m);
    return continue_from(loaded.at, loaded.order, now);
  };
  const Continuation same = resumed([](data::SampleOrder&) {});
  EXPECT_EQ(same.at.step, 5);
  EXPECT_EQ(same.note, "");
  const Continuation divides = resumed([](data::SampleOrder& o) { o.batch = 20; });
  EXPECT_EQ(divides.at.step, 3);
  EXPECT_EQ(divides.note, "");
  const Continuation other = resumed([](data::SampleOrder& o) { o.batch = 16; });
  EXPECT_EQ(other.at.step, 3);  // image 48 of the 60 that were seen
  EXPECT_THAT(other.note, HasSubstr("12 samples come twice"));
  const auto begins_again = [&](auto change, const char* why) {
    const Continuation c = resumed(change);
    EXPECT_EQ(c.at.epoch, 3);
    EXPECT_EQ(c.at.step, 0);
    EXPECT_THAT(c.note, AllOf(HasSubstr("epoch 4 begins again"), HasSubstr(why)));
  };
  begins_again([](data::SampleOrder& o) { o.seed = 8; }, "train.seed was 7 and is 8");
  begins_again([](data::SampleOrder& o) { o.shared = false; }, "data.shard was true and is false");
  begins_again([](data::SampleOrder& o) { o.set ^= 1; }, "the training data have changed");
  // between epochs nothing is lost, whatever changes
  EXPECT_EQ(continue_from({.samples = 9, .epoch = 2, .step = 0}, order, {}).note, "");
  EXPECT_THAT(continue_from({.samples = 9, .epoch = 2, .step = 1}, std::nullopt, order).note,
              HasSubstr("does not say in which order"));
}

}  // namespace gossamer::apps
