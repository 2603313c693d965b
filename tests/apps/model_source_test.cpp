// What is given as a model: a file, a run, a checkpoint, a worker's file, in every command; and
// models that have failed.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ModelSources : public TextTest {
 protected:
  std::string some_image() const {
    for (const auto& e : fs::recursive_directory_iterator(shapes() / "val"))
      if (e.path().extension() == ".jpg") return e.path().string();
    return {};
  }
  // The newest checkpoint of runs/t, as a path from `folder`.
  std::string checkpoint() const {
    double most = -1;
    std::string found;
    for (const auto& e : fs::directory_iterator(folder / "runs/t/checkpoints")) {
      const auto header = read_safetensors_metadata(e.path() / "rank-0.safetensors");
      if (const double samples = std::stod(header.at("samples")); samples > most)
        most = samples, found = "runs/t/checkpoints/" + e.path().filename().string();
    }
    return found;
  }
  Json evaluated(const std::string& model, const std::string& data) {
    const Result r = run({"eval", model, "data.val=" + data, "--json"});
    EXPECT_EQ(r.code, 0) << model << ": " << r.err;
    return Json::parse(r.out, nullptr, false);
  }
  SafeTensors file(const std::string& name) const { return read_safetensors(folder / name); }
  // Writes the file again with one number that is none.
  void spoil(const std::string& name) const {
    SafeTensors model = file(name);
    for (NamedTensor& t : model.tensors)
      if (t.tensor.dtype() == DType::f32) t.tensor = t.tensor.clone();
    for (NamedTensor& t : model.tensors)
      if (t.name.ends_with("weight")) {
        t.tensor.span<float>()[0] = NAN;
        break;
      }
    write_safetensors(folder / name, model.tensors, model.metadata);
  }
  static std::vector<std::string> language(std::vector<std::string> more) {
    std::vector<std::string> all{"train",           "task=language",    "data.train=language",
                                 "data.length=16",  "model.layers=1",   "model.width=16",
                                 "model.heads=2",   "train.batch=8",    "train.epochs=1",
                                 "train.threads=1", "train.device=cpu", "run.name=t"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(ModelSources, OfPicturesAreTakenByEveryCommand) {
  ASSERT_EQ(run(tiny({"run.checkpoint_every=1"})).code, 0);
  const Json wanted = evaluated("runs/t/model.safetensors", "s/val");
  const std::string image = some_image(), at = checkpoint();
  const Result known = run({"classify", "runs/t/model.safetensors", image, "--json"});
  // One worker's last checkpoint is its model.
  for (const std::string& model :
       {std::string("runs/t"), std::string("runs/t/"), at, at + "/rank-0.safetensors"}) {
    EXPECT_EQ(evaluated(model, "s/val")["loss"], wanted["loss"]) << model;
    EXPECT_EQ(run({"classify", model, image, "--json"}).out, known.out) << model;
    EXPECT_EQ(run({"export", model, "--to", "safetensors", "--out", "x.safetensors"}).code, 0);
    expect_same_tensors(folder / "x.safetensors", folder / "runs/t/model.safetensors");
    EXPECT_EQ(file("x.safetensors").metadata.at("classes"),
              file("runs/t/model.safetensors").metadata.at("classes"));
  }
  const Result timed = run({"bench", "inference", "--model", at, "--seconds", "0", "--json"});
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_EQ(run(tiny({"model.init=" + at, "run.name=u"})).code, 0);
  // Keys and options are the same.
  const auto at_24 = [&](const std::string& how) {
    return Json::parse(run({"eval", "runs/t", "data.val=s/val", how, "--json"}).out)["loss"];
  };
  EXPECT_EQ(at_24("--size=24"), at_24("data.eval_size=24"));
  EXPECT_NE(at_24("--size=24"), wanted["loss"]);
  EXPECT_EQ(run({"classify", "runs/t", image, "data.eval_size=24", "--json"}).out,
            run({"classify", "runs/t", image, "--size", "24", "--json"}).out);
  const Result unknown = run({"classify", "runs/t", image, "optim.learning_rate=1"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("optim.learning_rate has no effect here"));
}

TEST_F(ModelSources, ACheckpointIsTheMeanOfItsWorkers) {
  ASSERT_EQ(run(tiny({"--workers", "2", "train.method=dpsgd", "run.checkpoint_every=1"})).code, 0);
  const std::string at = checkpoint();
  const auto exported = [&](const std::string& model) {
    const Result r = run({"export", model, "--to", "safetensors", "--out", "x.safetensors"});
    EXPECT_EQ(r.code, 0) << r.err;
    return file("x.safetensors");
  };
  const SafeTensors a = exported(at + "/rank-0.safetensors"),
                    b = exported(at + "/rank-1.safetensors"), mean = exported(at);
  for (const char* name : {"fc.weight", "bn1.running_mean", "bn1.running_var"}) {
    const auto x = a.find(name)->span<float>(), y = b.find(name)->span<float>(),
               m = mean.find(name)->span<float>();
    const bool variance = std::string(name).ends_with("var");
    for (std::size_t i = 0; i < m.size(); ++i) {
      double wanted = 0.5 * (static_cast<double>(x[i]) + static_cast<double>(y[i]));
      if (variance) {
        const double p = a.find("bn1.running_mean")->span<float>()[i],
                     q = b.find("bn1.running_mean")->span<float>()[i];
        wanted += 0.25 * (p - q) * (p - q);
      }
      EXPECT_NEAR(m[i], wanted, 1e-6 + 1e-5 * std::abs(wanted)) << name;
    }
  }
}

TEST_F(ModelSources, AnUnfinishedRunGivesItsBestModelElseItsNewestCheckpoint) {
  ASSERT_EQ(run(tiny({"run.checkpoint_every=1", "eval.every=1"})).code, 0);
  fs::remove(folder / "runs/t/model.safetensors");
  const Result best = run({"eval", "runs/t", "data.val=s/val"});
  EXPECT_EQ(best.code, 0) << best.err;
  EXPECT_THAT(best.err, HasSubstr("its best model, runs/t/best.safetensors"));
  fs::remove(folder / "runs/t/best.safetensors");
  const Result newest = run({"eval", "runs/t", "data.val=s/val"});
  EXPECT_EQ(newest.code, 0) << newest.err;
  EXPECT_THAT(newest.err, HasSubstr("the newest checkpoint. " + checkpoint()));
  fs::remove_all(folder / "runs/t/checkpoints");
  const Result none = run({"classify", "runs/t", some_image()});
  EXPECT_EQ(none.code, 6);
  EXPECT_THAT(none.err, HasSubstr("runs/t: has no model.safetensors; its run has not ended"));
}

TEST_F(ModelSources, OfARunAreEvaluatedOnItsOwnData) {
  fs::create_directory_symlink(shapes(), folder / "mine");
  ASSERT_EQ(run(tiny({"data.train=mine/train", "data.val=mine/val", "eval.every=1"})).code, 0);
  for (const char* model : {"runs/t", "runs/t/model.safetensors"}) {
    const Result r = run({"eval", model, "--json"});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(Json::parse(r.out)["images"], 40);
    EXPECT_THAT(r.err, HasSubstr("taken are those of runs/t/config.toml: data.val = mine/val"));
  }
  const Result r = run({"eval", "runs/t/best", "data.val=mine/val"});
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, testing::AllOf(HasSubstr("but top1-"), HasSubstr("name one of these files")));
}

TEST_F(ModelSources, OfTextAreTakenByEveryCommand) {
  ASSERT_EQ(run(language({"run.checkpoint_every=1", "model.bias=false"})).code, 0);
  const std::string at = checkpoint();
  const std::vector<std::string> rest{"--prompt", "the", "--tokens", "9", "--temperature", "0"};
  const auto text = [&](const std::string& model) {
    std::vector<std::string> command{"generate", model};
    command.insert(command.end(), rest.begin(), rest.end());
    const Result r = run(command);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  for (const std::string& model : {at, at + "/rank-0.safetensors"}) {
    EXPECT_EQ(text(model), text("runs/t")) << model;
    EXPECT_EQ(evaluated(model, "language")["loss"], evaluated("runs/t", "language")["loss"]);
  }
  EXPECT_EQ(run(language({"model.init=" + at, "run.name=u"})).code, 0);
  // Other tasks' commands say which one takes it.
  const auto refused = [&](const std::vector<std::string>& command, const std::string& says) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 2) << command[0];
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  refused({"export", "runs/t", "--to", "torch", "--out", "x.pth"},
          "export: runs/t is a language model, and this command wants a model of pictures; "
          "`gossamer generate` goes on with a text");
  refused({"classify", at, "s/val"}, "is a language model");
  refused({"translate", "runs/t"}, "translate: runs/t is a language model");
  ASSERT_EQ(run({"train", "task=translation", "data.train=translation", "model.layers=1",
                 "model.width=16", "model.heads=2", "model.ff=32", "train.epochs=1",
                 "train.batch=256", "train.threads=1", "run.name=t", "run.checkpoint_every=1"})
                .code,
            0);
  refused({"generate", "runs/t"}, "`gossamer translate` translates with it");
  const auto translated = [&](const std::string& model) {
    const Result r = run({"translate", model, "--file", "val.en", "--beam", "1"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  EXPECT_EQ(translated(checkpoint()), translated("runs/t"));
}

TEST_F(ModelSources, AnAverageOfPicturesHasStatisticsOfItsOwn) {
  ASSERT_EQ(run(tiny({"train.epochs=2", "run.checkpoint_every=1", "run.keep=2"})).code, 0);
  fs::copy(folder / "runs/t/model.safetensors", folder / "a.safetensors");
  const Result refused =
      run({"average", "a.safetensors", "a.safetensors", "--out", "m.safetensors"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("give pictures it was trained on: data.train=DIR"));
  EXPECT_FALSE(fs::exists(folder / "m.safetensors"));
  const Result made = run({"average", "a.safetensors", "a.safetensors", "--out", "m.safetensors",
                           "data.train=s/train", "train.batch=8", "train.bn_batches=9"});
  ASSERT_EQ(made.code, 0) << made.err;
  const SafeTensors a = file("a.safetensors"), m = file("m.safetensors");
  EXPECT_EQ(m.metadata.at("classes"), a.metadata.at("classes"));
  const auto equal = [&](const char* name) {
    return std::ranges::equal(a.find(name)->span<float>(), m.find(name)->span<float>());
  };
  EXPECT_TRUE(equal("fc.weight"));  // of a and a
  EXPECT_FALSE(equal("bn1.running_var"));
  // A run knows its pictures.
  const Result last = run({"average", "runs/t", "--last", "2"});
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_TRUE(
      std::isfinite(evaluated("runs/t/average.safetensors", "s/val")["loss"].get<double>()));
  const Result other = run({"average", "runs/t", "a.safetensors", "--out", "n.safetensors"});
  EXPECT_EQ(other.code, 0) << other.err;
  // A checkpoint alone is a model; a run alone has several.
  const Result workers = run({"average", checkpoint(), "--out", "w.safetensors"});
  EXPECT_EQ(workers.code, 0) << workers.err;
  EXPECT_THAT(workers.out, HasSubstr("the mean of 1 model\n"));
  EXPECT_THAT(run({"average", "runs/t", "--out", "w.safetensors"}).err, HasSubstr("--last N"));
  EXPECT_THAT(run({"average", checkpoint(), "--last", "1"}).err, HasSubstr("name its folder"));
  EXPECT_THAT(run({"average", "runs", "--out", "w.safetensors"}).err,
              HasSubstr("runs: has no model.safetensors and no checkpoint; a model is a file"));
}

TEST_F(ModelSources, ThatAreNotNumbersAreRefusedByEveryCommand) {
  ASSERT_EQ(run(tiny({})).code, 0);
  ASSERT_EQ(run(language({"run.name=l"})).code, 0);
  spoil("runs/t/model.safetensors");
  spoil("runs/l/model.safetensors");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"eval", "runs/t", "data.val=s/val"},
           {"classify", "runs/t", some_image()},
           {"export", "runs/t", "--to", "torch", "--out", "x.pth"},
           {"average", "runs/t", "runs/t", "--out", "x.safetensors", "data.train=s/train"},
           {"bench", "inference", "--model", "runs/t", "--seconds", "0"},
           {"eval", "runs/l", "data.val=language"},
           {"generate", "runs/l", "--tokens", "3"},
           {"average", "runs/l", "runs/l", "--out", "x.safetensors"}}) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 1) << command[0] << r.err;
    EXPECT_THAT(r.err, HasSubstr("finite"));
    EXPECT_EQ(r.out, "");
  }
  const Result init = run(tiny({"model.init=runs/t", "run.name=u"}));
  EXPECT_EQ(init.code, 6);
  EXPECT_THAT(init.err, HasSubstr("nothing can be trained from it"));
}

// The loss of the only step is finite; what the step makes of the weights is not.
TEST_F(ModelSources, ATrainingThatEndsWithoutNumbersHasFailed) {
  const std::vector<std::string> ruin{"optim.learning_rate=3e38", "optim.scaling=none",
                                      "optim.schedule=constant", "optim.warmup_epochs=0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), ruin.begin(), ruin.end());
    return more;
  };
  const auto failed = [&](const std::vector<std::string>& command) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 1) << r.err;
    EXPECT_THAT(r.err, HasSubstr("the training has failed"));
    EXPECT_TRUE(summary().contains("failed"));
    EXPECT_FALSE(fs::exists(folder / "runs/t/model.safetensors"));
    EXPECT_THAT(read_text(folder / "runs/t/report.html"), HasSubstr("failed: "));
  };
  failed(tiny(with({"train.epochs=0.08"})));
  failed(tiny(with({"train.epochs=0.16", "--workers", "2", "train.method=allreduce"})));
  failed(language(with({"train.epochs=0.01"})));
  // Nothing but the model's answers shows it.
  failed(tiny(with({"train.epochs=0.08", "data.val=none"})));
  failed(language(with({"train.epochs=0.01", "data.val=none"})));
  // A model that was there stays: that of an earlier end.
  ASSERT_EQ(run(tiny({"run.checkpoint_every=1"})).code, 0);
  const std::string good = read_text(folder / "runs/t/model.safetensors");
  const Result more =
      run({"train", "--resume", "runs/t", "train.epochs=1.08", "optim.learning_rate=3e38",
           "optim.scaling=none", "optim.schedule=constant"});
  EXPECT_EQ(more.code, 1) << more.err;
  EXPECT_TRUE(read_text(folder / "runs/t/earlier/1/model.safetensors") == good);
}

}  // namespace
}  // namespace gossamer::apps
