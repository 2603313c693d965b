// Which data a run is validated with: named, found beside the training data, held back, or none.
#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Validation : public ProgramTest {
 protected:
  // A short run without a given data.val; later arguments win.
  static std::vector<std::string> train(std::vector<std::string> more) {
    std::vector<std::string> all = tiny(std::move(more));
    std::erase(all, "data.val=s/val");
    return all;
  }
};

TEST_F(Validation, IsFoundBesideTheTrainingData) {
  for (const std::string path : {"s", "s/train"}) {
    const Result r = run(train({"data.train=" + path, "--dry-run"}));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("96 images to train, 40 to validate")) << path;
  }
}

TEST_F(Validation, WhatWasFoundIsNamedAndATestSetIsSaidToChooseTheModel) {
  EXPECT_THAT(run(train({"data.train=s", "--dry-run"})).out,
              AllOf(HasSubstr("data     validated with s/val\n"), Not(HasSubstr("no test"))));
  EXPECT_THAT(run(tiny({"--dry-run"})).out, Not(HasSubstr("validated with")));
  fs::create_directories(folder / "t");
  fs::copy(shapes() / "train", folder / "t/train", fs::copy_options::recursive);
  fs::copy(shapes() / "val", folder / "t/test", fs::copy_options::recursive);
  for (const std::string path : {"t", "t/train"})
    EXPECT_THAT(run(train({"data.train=" + path, "--dry-run"})).out,
                AllOf(HasSubstr("t/test, since there is no val/; it chooses the best model"),
                      HasSubstr("data.val_split=0.1 validates with a part")))
        << path;
}

TEST_F(Validation, DataThatAreNamedTwiceAreSaidToBe) {
  const Result r = run(tiny({"data.train=s/train,./s/train/", "data.val=s/train", "--dry-run"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("./s/train comes twice in data.train"),
                           HasSubstr("s/train is both trained on and validated with")));
  EXPECT_THAT(run(tiny({"--dry-run"})).out, Not(HasSubstr("twice")));
}

TEST_F(Validation, TheErrorNamesTheTrainingDataAndTheWaysOut) {
  fs::create_directories(folder / "my");
  fs::copy(shapes() / "train", folder / "my/pictures", fs::copy_options::recursive);
  const Result r = run(train({"data.train=my/pictures"}));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, AllOf(HasSubstr("data.train = my/pictures comes without validation data"),
                           HasSubstr("data.val=DIR"), HasSubstr("data.val_split=0.1"),
                           HasSubstr("data.val=none"), Not(HasSubstr("shapes10"))));
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST_F(Validation, APartOfTheTrainingDataIsHeldBack) {
  const Result r = run(train({"data.train=s/train", "data.val_split=0.25", "train.seed=3"}));
  ASSERT_EQ(r.code, 0) << r.err;
  // of six classes of 10 images three are held back, of four of 9 two
  EXPECT_THAT(r.out, HasSubstr("70 images to train, 26 to validate"));
  EXPECT_EQ(summary()["val_images"], 26);
  const Result eval = run({"eval", "runs/t/model.safetensors", "data.train=s/train",
                           "data.val_split=0.25", "train.seed=3", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["images"], 26);
  EXPECT_EQ(Json::parse(eval.out)["top1"], summary()["top1"]);
  const Result both = run(tiny({"data.val_split=0.25"}));
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, AllOf(HasSubstr("data.val_split = 0.25; it must be 0, since data.val"),
                              HasSubstr("s/val")));
  const Result most = run(train({"data.train=s/train", "data.val_split=0.9", "train.batch=32"}));
  EXPECT_EQ(most.code, 3);
  EXPECT_THAT(most.err, HasSubstr("s/train, less the 86 images that data.val_split = 0.9 holds "
                                  "back, has 10 images, fewer than one batch"));
}

TEST_F(Validation, AResumedRunHoldsTheSameImagesBack) {
  const std::string split = "data.val_split=0.25", seed = "train.seed=3";
  const auto resume = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--resume", "runs/" + name, "train.epochs=2"});
    return run(more);
  };
  ASSERT_EQ(run(train({"data.train=s/train", split, seed, "run.checkpoint_every=1"})).code, 0);
  ASSERT_EQ(run(train({"run.name=n", "data.train=s/train", "run.checkpoint_every=1"})).code, 0);
  // another seed, another share, and other images
  fs::create_directories(folder / "more");
  fs::copy(shapes() / "train", folder / "more/train", fs::copy_options::recursive);
  const fs::path one =
      fs::directory_iterator(fs::directory_iterator(folder / "more/train")->path())->path();
  fs::copy(one, one.parent_path() / ("more" + one.extension().string()));
  for (const std::string other : {"train.seed=4", "data.val_split=0.5", "data.train=more/train"}) {
    const auto config = read_text(folder / "runs/t/config.toml");
    const Result r = resume("t", {other});
    EXPECT_EQ(r.code, 2) << other;
    EXPECT_THAT(r.err, AllOf(HasSubstr("--resume runs/t would be validated with images that it was "
                                       "trained on, since other images were held back"),
                             HasSubstr("data.val_split=0 data.val=DIR")));
    EXPECT_EQ(read_text(folder / "runs/t/config.toml"), config);
  }
  const Result none = resume("n", {split});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("since none were held back"));
  // The same images, and images that were never held back.
  for (const int code :
       {resume("t", {"run.name=a"}).code,
        resume("t", {"run.name=b", "train.seed=4", "data.val_split=0", "data.val=s/val"}).code,
        resume("n", {"run.name=c", "train.seed=4"}).code})
    EXPECT_EQ(code, 0) << read_text(folder / "err");
}

// Otherwise a model is praised for images that it was trained on.
TEST_F(Validation, AnEvaluationHoldsTheSameImagesBackAsTheTraining) {
  const std::string train_set = "data.train=s/train", split = "data.val_split=0.25";
  ASSERT_EQ(run(train({train_set, split, "run.checkpoint_every=1"})).code, 0);
  ASSERT_EQ(run(train({train_set, "data.val=none", "run.name=n"})).code, 0);
  fs::create_directories(folder / "more");
  fs::copy(shapes() / "train", folder / "more/train", fs::copy_options::recursive);
  const fs::path one =
      fs::directory_iterator(fs::directory_iterator(folder / "more/train")->path())->path();
  fs::copy(one, one.parent_path() / ("more" + one.extension().string()));
  const auto evaluated = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", model});
    return run(more);
  };
  for (const std::string& model :
       {std::string("runs/t"), "runs/t/checkpoints/" + checkpoints().back()}) {
    EXPECT_EQ(evaluated(model, {train_set, split}).code, 0) << model;
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{train_set, "data.val_split=0.5"},
          {train_set, split, "train.seed=4"},
          {"data.train=more/train", split}}) {
      const Result r = evaluated(model, other);
      EXPECT_EQ(r.code, 2) << model << other.back() << r.out;
      EXPECT_THAT(r.err, AllOf(HasSubstr(model + " would be validated with images that it was "
                                                 "trained on, since other images were held back"),
                               HasSubstr("data.val=DIR")));
    }
  }
  const Result none = evaluated("runs/n", {train_set, split});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("since none were held back"));
  EXPECT_EQ(evaluated("runs/n", {"data.val=s/val"}).code, 0);
}

TEST_F(Validation, NoneTrainsWithoutAnEvaluation) {
  for (const std::string workers : {"1", "2"}) {
    const Result r = run(train({"data.train=s/train", "data.val=none", "eval.every=0.5",
                                "run.name=n" + workers, "--workers", workers}));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out,
                AllOf(HasSubstr("none to validate"), HasSubstr("not evaluated (data.val = none)"),
                      Not(HasSubstr("top-1"))));
    EXPECT_TRUE(summary("n" + workers)["top1"].is_null());
    EXPECT_TRUE(events("eval", "n" + workers).empty());
    EXPECT_TRUE(fs::exists(folder / "runs" / ("n" + workers) / "model.safetensors"));
    EXPECT_THAT(read_text(folder / "runs" / ("n" + workers) / "report.html"),
                Not(HasSubstr("top-1 nan")));
  }
  const Result eval = run({"eval", "runs/n1/model.safetensors", "data.val=none"});
  EXPECT_EQ(eval.code, 2);
  EXPECT_THAT(eval.err, HasSubstr("data.val=DIR"));
}

}  // namespace
}  // namespace gossamer::apps
