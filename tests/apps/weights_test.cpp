// Weights that others made: without our header, and as torch's .pth. They are evaluated, classify,
// and start a training.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "support/torch_bytes.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OtherWeights : public ProgramTest {
 protected:
  // Trains "runs/t", and writes its tensors again without a header: plain.safetensors, plain.pth.
  void train_and_strip() {
    const Result r = run(tiny({"train.epochs=2"}));
    ASSERT_EQ(r.code, 0) << r.err;
    tensors = read_safetensors(folder / "runs/t/model.safetensors").tensors;
    write_safetensors(folder / "plain.safetensors", tensors);
    write_text(folder / "plain.pth", torch_bytes(tensors));
  }
  std::string some_image() const {
    for (const auto& e : fs::recursive_directory_iterator(shapes() / "val"))
      if (e.path().extension() == ".jpg") return e.path().string();
    return {};
  }
  Tensor of(const std::string& name) const {
    for (const NamedTensor& t : tensors)
      if (t.name == name) return t.tensor;
    return {};
  }
  std::vector<NamedTensor> tensors;
};

TEST_F(OtherWeights, AreEvaluatedAndClassifyAsTheSameModelWithItsHeader) {
  train_and_strip();
  const std::string image = some_image();
  const auto evaluated = [&](const std::string& file) {
    const Result r = run({"eval", file, "data.val=s/val", "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  const Json wanted = Json::parse(evaluated("runs/t/model.safetensors").out);
  const Result known = run({"classify", "runs/t/model.safetensors", image, "--json"});
  EXPECT_EQ(run({"classify", "runs/t/model.safetensors", image, image, "--json"}).out,
            known.out + known.out);
  EXPECT_THAT(run({"classify", "--help"}).out, HasSubstr("one JSON object for each picture"));
  std::string names;
  for (const std::string_view name : data::shape_classes()) names += std::string(name) + "\r\n";
  write_text(folder / "names.txt", names);
  for (const std::string file : {"plain.safetensors", "plain.pth"}) {
    const Result e = evaluated(file);
    const Json got = Json::parse(e.out);
    for (const char* key : {"model", "top1", "top5", "loss"}) EXPECT_EQ(got[key], wanted[key]);
    EXPECT_THAT(e.err, HasSubstr("taken for resnet8-cifar with 10 classes; pictures: shorter side "
                                 "32, centre 32"));
    const Result named = run({"classify", file, image, "--json", "--classes", "names.txt"});
    ASSERT_EQ(named.code, 0) << named.err;
    EXPECT_EQ(named.out, known.out);
    const Result numbered = run({"classify", file, image, "--json"});
    ASSERT_EQ(numbered.code, 0) << numbered.err;
    EXPECT_THAT(
        data::shape_classes(),
        Not(::testing::Contains(Json::parse(numbered.out)["top"][0]["class"].get<std::string>())));
  }
  const Result other = run({"eval", "plain.pth", "data.val=s/val", "data.mean=0.5,0.5,0.5",
                            "data.std=0.5,0.5,0.5", "--json"});
  EXPECT_THAT(other.err, HasSubstr("mean 0.5 0.5 0.5, std 0.5 0.5 0.5"));
  EXPECT_NE(Json::parse(other.out)["loss"], wanted["loss"]);
  const Result side = run({"classify", "plain.pth", image, "--size", "64", "--resize", "80"});
  EXPECT_EQ(side.code, 0) << side.err;
  EXPECT_THAT(side.err, HasSubstr("shorter side 80, centre 64"));
  write_text(folder / "names.txt", "one\ntwo\n");
  const Result few = run({"classify", "plain.pth", image, "--classes", "names.txt"});
  EXPECT_EQ(few.code, 6);
  EXPECT_THAT(few.err, HasSubstr("names.txt has 2 names of classes, the model has 10"));
}

// Of a .pth: "model" with zeros, "model_ema" with the weights, whose last layer is called logits.
class KeysOfWeights : public OtherWeights {
 protected:
  void train_and_wrap() {
    train_and_strip();
    renamed = tensors;
    for (NamedTensor& t : renamed)
      if (t.name.starts_with("fc.")) t.name.replace(0, 2, "logits");
    std::vector<NamedTensor> zeros;
    for (const NamedTensor& t : renamed)
      zeros.push_back({t.name, Tensor::zeros(t.tensor.shape(), t.tensor.dtype())});
    write_text(folder / "two.pth", torch_bytes_of({{"model", zeros}, {"model_ema", renamed}}));
  }
  Result with_keys(std::vector<std::string> command) {
    command.insert(command.end(), {"model.init_key=model_ema", "model.init_rename=logits=fc"});
    return run(command);
  }
  std::vector<NamedTensor> renamed;
};

TEST_F(KeysOfWeights, AreTakenByEveryCommandForPictures) {
  train_and_wrap();
  const std::string image = some_image();
  const std::vector<std::string> eval{"eval", "two.pth", "data.val=s/val", "--json"};
  const Result plain = run({"eval", "plain.pth", "data.val=s/val", "--json"}),
               evaluated = with_keys(eval);
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  for (const char* key : {"top1", "top5", "loss"})
    EXPECT_EQ(Json::parse(evaluated.out)[key], Json::parse(plain.out)[key]);
  EXPECT_EQ(with_keys({"classify", "two.pth", image, "--json"}).out,
            run({"classify", "plain.pth", image, "--json"}).out);
  const Result exported =
      with_keys({"export", "two.pth", "--to", "safetensors", "--out", "x.safetensors"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  expect_same_tensors(folder / "x.safetensors", folder / "plain.safetensors");
  const Result timed =
      with_keys({"bench", "inference", "--model", "two.pth", "--seconds", "0", "--json"});
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_THAT(timed.err, HasSubstr("two.pth: taken for resnet8-cifar with 10 classes"));
  const Result averaged = with_keys({"average", "two.pth", "two.pth", "--out", "m.safetensors",
                                     "data.train=s/train", "train.batch=8"});
  ASSERT_EQ(averaged.code, 0) << averaged.err;
  const SafeTensors mean = read_safetensors(folder / "m.safetensors");
  EXPECT_EQ(0, std::memcmp(mean.find("fc.weight")->data(), of("fc.weight").data(),
                           of("fc.weight").bytes()));
  // A CONFIG.toml of a training speaks of its own model.init, not of this model.
  write_text(folder / "run.toml", "[model]\ninit = \"x.pth\"\ninit_key = \"ema\"\n");
  const Result of_run = run({"eval", "plain.pth", "run.toml", "data.val=s/val", "--json"});
  EXPECT_EQ(of_run.code, 0) << of_run.err;
}

TEST_F(KeysOfWeights, NameWhatIsThere) {
  train_and_wrap();
  const auto refusal = [&](const std::string& file, std::vector<std::string> keys) {
    keys.insert(keys.begin(), {"eval", file, "data.val=s/val"});
    const Result r = run(keys);
    EXPECT_NE(r.code, 0);
    return r.err;
  };
  EXPECT_THAT(refusal("two.pth", {}), HasSubstr("say init_rename=NAME=fc"));
  EXPECT_THAT(refusal("two.pth", {"model.init_key=ema"}),
              HasSubstr("has no state dict called ema; there are: model, model_ema"));
  EXPECT_THAT(refusal("two.pth", {"model.init_rename=head=fc"}),
              HasSubstr("no tensor's name begins with head, which init_rename changes to "
                        "\"fc\". There are: bn1, layer1, layer2, layer3, conv1, logits"));
  EXPECT_THAT(refusal("two.pth", {"model.init_rename=logits"}),
              HasSubstr("\"logits\" must be NAME=NEW"));
  EXPECT_THAT(refusal("plain.safetensors", {"model.init_key=ema"}),
              HasSubstr("a safetensors file holds one set of weights"));
  EXPECT_THAT(run(tiny({"model.init_key=ema"})).err, HasSubstr("of model.init; name that file"));
  EXPECT_THAT(run({"bench", "inference", "--model", "resnet8-cifar", "model.init_key=ema"}).err,
              HasSubstr("model.init_key is for files of models"));
  write_text(folder / "a.pth", torch_bytes_of({{"student", tensors}, {"teacher", tensors}}));
  EXPECT_THAT(refusal("a.pth", {}),
              HasSubstr("several state dicts: student, teacher; say which: init_key=NAME"));
}

TEST_F(KeysOfWeights, StartATrainingThatGoesOnWithoutTheFile) {
  train_and_wrap();
  const std::vector<std::string> keys{"run.name=u", "model.init=two.pth",
                                      "model.init_key=model_ema", "model.init_rename=logits=fc",
                                      "model.freeze=all but fc"};
  const Result begun = run(tiny(keys));
  ASSERT_EQ(begun.code, 0) << begun.err;
  const auto taken = [&] {
    const SafeTensors after = read_safetensors(folder / "runs/u/model.safetensors");
    return 0 == std::memcmp(after.find("conv1.weight")->data(), of("conv1.weight").data(),
                            of("conv1.weight").bytes());
  };
  EXPECT_TRUE(taken());
  fs::remove(folder / "two.pth");
  const Result on = run({"train", "--resume", "runs/u", "train.epochs=2"});
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_TRUE(taken());
}

TEST_F(OtherWeights, WhatTheCommandLineSaysWinsOverTheHeader) {
  ASSERT_EQ(run(tiny({"data.mean=0.4,0.5,0.6"})).code, 0);
  const std::string model = "runs/t/model.safetensors", image = some_image();
  const auto classified = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"classify", model, image, "--json"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string plain = classified({});
  EXPECT_EQ(classified({"--mean", "0.4,0.5,0.6", "--size", "32", "--resize", "32"}), plain);
  EXPECT_NE(classified({"--mean", "0.1,0.1,0.1"}), plain);
  EXPECT_NE(classified({"--size", "48"}), plain);
  const Result small = run({"classify", model, image, "--resize", "8"});
  EXPECT_EQ(small.code, 2);
  EXPECT_THAT(small.err, HasSubstr("data.resize = 8 is smaller than data.eval_size = 32"));
  const Result other = run({"classify", model, image, "--name", "resnet18"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("says in its header that it is resnet8-cifar"));
  // A CONFIG.toml may be that of another run.
  write_text(folder / "other.toml", "[data]\neval_size = 64\nval = \"s/val\"\n");
  const auto loss = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", model});
    words.push_back("--json");
    const Result r = run(words);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["loss"];
  };
  EXPECT_EQ(loss({"other.toml"}), loss({"data.val=s/val"}));
}

TEST_F(OtherWeights, ThatAreNotNumbersClassifyNothing) {
  const auto net = models::make("resnet8-cifar", {.classes = 10});
  for (const NamedTensor& t : net->parameters())
    if (t.name == "fc.bias") Tensor(t.tensor).fill(NAN);
  nn::save(folder / "nan.safetensors", *net);
  const std::string image = some_image();
  const Result r = run({"classify", "nan.safetensors", image, "--json"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, HasSubstr("nan.safetensors: \"fc.bias\" holds values that are not finite"));
  EXPECT_EQ(r.out, "");
}

TEST_F(OtherWeights, AreNeitherAWebPageNorAnEmptyFile) {
  for (const auto& [text, why] : {std::pair{"", ": it is empty"},
                                  {"<html>404 not found</html>", ": it begins as a web page"}})
    for (const std::string file : {"x.pth", "x.safetensors"}) {
      write_text(folder / file, text);
      const Result r = run({"classify", file, some_image()});
      EXPECT_EQ(r.code, 6);
      EXPECT_THAT(r.err,
                  HasSubstr(file + ": neither a safetensors file nor one of torch.save" + why));
    }
}

TEST_F(OtherWeights, OfNoKnownModelAreRefused) {
  write_safetensors(folder / "x.safetensors", {{"encoder.weight", Tensor::zeros({3, 2})}});
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "x.safetensors", "data.val=s/val"},
        {"classify", "x.safetensors", "a.jpg"},
        tiny({"model.init=x.safetensors"})}) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 6) << r.err;
    EXPECT_THAT(r.err, HasSubstr("x.safetensors: its tensors (encoder.weight[3, 2]) fit none of "
                                 "the known models: resnet18, "));
  }
  const Result r = run(tiny({"model.init=x.safetensors", "model.name=resnet8-cifar"}));
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, HasSubstr("no parameter fits the model"));
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST_F(OtherWeights, StartATrainingThatDrawsTheHeadOfOtherClassesAnew) {
  train_and_strip();
  std::vector<NamedTensor> foreign{{"aux.weight", Tensor::zeros({2})}};
  for (const NamedTensor& t : tensors)
    foreign.push_back({t.name, t.name == "fc.weight" ? Tensor::zeros({7, 64})
                               : t.name == "fc.bias" ? Tensor::zeros({7})
                                                     : t.tensor});
  write_text(folder / "seven.pth", torch_bytes(foreign, "state_dict"));
  for (const char* workers : {"1", "2"}) {
    // a rate so low that the values stay where they began
    const Result r = run(tiny({"model.init=seven.pth", "optim.learning_rate=1e-20",
                               "optim.schedule=constant", "run.name=init", "--workers", workers}));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("seven.pth: "));
    EXPECT_THAT(r.out, HasSubstr("drawn, since their shapes differ: fc.weight is f32[7, 64], "
                                 "wanted f32[10, 64], fc.bias is f32[7], wanted f32[10]"));
    EXPECT_THAT(r.out, HasSubstr("not in the model: aux.weight"));
    const SafeTensors after = read_safetensors(folder / "runs/init/model.safetensors");
    for (const char* name : {"conv1.weight", "layer1.0.bn1.weight", "layer3.0.conv2.weight"}) {
      const auto was = of(name).span<float>(), is = after.find(name)->span<float>();
      for (std::size_t i = 0; i < was.size(); ++i) ASSERT_NEAR(is[i], was[i], 1e-6) << name << i;
    }
  }
}

TEST_F(OtherWeights, StayAsTheyAreWhereTheyAreFrozen) {
  train_and_strip();
  const std::vector<std::string> head_only{"model.init=plain.pth", "model.freeze=all but fc",
                                           "train.epochs=2", "optim.factors=fc.bias=2",
                                           "run.checkpoint_every=1"};
  const auto trained = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), head_only.begin(), head_only.end());
    more.push_back("run.name=" + name);
    const Result r = run(tiny(std::move(more)));
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  // All but the head has the bits of the file.
  const auto expect_frozen = [&](const std::string& name) {
    const SafeTensors after = read_safetensors(folder / "runs" / name / "model.safetensors");
    for (const NamedTensor& was : tensors) {
      if (was.name.ends_with("num_batches_tracked")) continue;
      const Tensor* is = after.find(was.name);
      ASSERT_NE(is, nullptr) << was.name;
      EXPECT_EQ(was.name.starts_with("fc."),
                std::memcmp(is->data(), was.tensor.data(), is->bytes()) != 0)
          << name << ": " << was.name;
    }
  };
  const Result one = trained("one", {});
  EXPECT_THAT(one.out, HasSubstr("model    resnet8-cifar: 75290 parameters, 650 of them trained"));
  EXPECT_THAT(one.out, HasSubstr("trained: fc.weight, fc.bias"));
  expect_frozen("one");
  EXPECT_EQ(summary("one")["batch_norm"], "frozen");
  for (const std::string method : {"a2cid2", "allreduce", "dpsgd"}) {
    trained(method, {"train.method=" + method, "--workers", "3"});
    expect_frozen(method);
  }
  trained("bf16", {"train.dtype=bf16"});
  expect_frozen("bf16");
  // A resumed run has the same frozen layers, with its own number of workers and another.
  fs::remove(folder / "plain.pth");
  for (const char* workers : {"1", "2"}) {
    fs::path first;
    for (const auto& e : fs::directory_iterator(folder / "runs/one/checkpoints"))
      if (first.empty() || e.path() < first) first = e.path();
    const Result again = run({"train", "runs/one/config.toml", "--workers", workers,
                              "run.name=again", "--resume", first.string()});
    ASSERT_EQ(again.code, 0) << again.err;
    expect_frozen("again");
    if (workers == std::string("1"))
      EXPECT_EQ(read_text(folder / "runs/again/model.safetensors"),
                read_text(folder / "runs/one/model.safetensors"));
  }
  EXPECT_EQ(run({"train", "--resume", "runs/one", "run.name=more", "train.epochs=3",
                 "model.freeze=all but fc.weight", "optim.factors="})
                .code,
            6);
}

TEST_F(OtherWeights, AreTrainedInTheMiddleOnly) {
  const Result r = run(tiny({"model.freeze=conv1, bn1, layer1, fc", "run.name=m"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary("m")["batch_norm"], "own running statistics");
}

TEST_F(OtherWeights, FreezeAndFactorsNameWhatTheyDoNotFind) {
  using Case = std::pair<std::vector<std::string>, const char*>;
  for (const auto& [setting, text] : std::vector<Case>{
           {{"model.freeze=head"},
            "model.freeze: \"head\": no parameter is called \"head\"; "
            "the layers are: bn1, conv1, fc, layer1, layer2, layer3"},
           {{"model.freeze=all"}, "model.freeze: \"all\" leaves no parameter to train"},
           {{"model.freeze=all but"}, "model.freeze: \"all but\" names no parameter"},
           {{"optim.factors=head=3"}, "optim.factors: \"head\": no parameter is called \"head\""},
           {{"model.freeze=fc", "optim.factors=fc=3"},
            "optim.factors: \"fc\": all parameters called \"fc\" are frozen"},
           {{"optim.factors=fc"}, "optim.factors: \"fc\" must be PATTERN=FACTOR"},
           {{"optim.factors=fc=0"}, "to hold parameters fixed freeze them"}}) {
    const Result r = run(tiny(setting));
    EXPECT_EQ(r.code, 2) << setting.back();
    EXPECT_THAT(r.err, HasSubstr(text));
    EXPECT_FALSE(fs::exists(folder / "runs"));
  }
}

TEST_F(OtherWeights, SayHowPicturesAreNormalized) {
  ASSERT_EQ(run(tiny({"data.mean=0.4,0.5,0.6", "data.filter=area", "run.name=a"})).code, 0);
  const auto of_run = [&](const std::string& name, const std::string& key) {
    return read_safetensors(folder / "runs" / name / "model.safetensors").metadata.at(key);
  };
  const std::string init = "model.init=runs/a/model.safetensors";
  ASSERT_EQ(run(tiny({init, "run.name=b", "--workers", "2"})).code, 0);
  EXPECT_EQ(of_run("b", "mean"), "0.4\n0.5\n0.6");
  EXPECT_EQ(of_run("b", "filter"), "area");
  ASSERT_EQ(run(tiny({init, "run.name=c", "data.mean=0.1,0.2,0.3"})).code, 0);
  EXPECT_EQ(of_run("c", "mean"), "0.1\n0.2\n0.3");
  // Without a header it is the model that counts, not the size of the pictures.
  nn::save(folder / "r18.safetensors", *models::make("resnet18", {.classes = 10}));
  const Result r =
      run({"eval", "r18.safetensors", "data.val=s/val", "data.eval_size=32", "eval.batch=8"});
  EXPECT_THAT(r.err, HasSubstr("taken for resnet18 with 10 classes; pictures: shorter side 32, "
                               "centre 32, mean 0.485 0.456 0.406"));
}

TEST_F(OtherWeights, SayWhichModelIsTrained) {
  ASSERT_EQ(run(tiny({"model.name=resnet20-cifar", "run.name=a"})).code, 0);
  const Result r = run(tiny({"model.init=runs/a/model.safetensors", "run.name=b"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary("b")["model"], "resnet20-cifar");
  // A resumed run needs the file no more: its checkpoint holds all.
  ASSERT_EQ(
      run(tiny({"model.init=runs/a/model.safetensors", "run.name=c", "run.checkpoint_every=0.5"}))
          .code,
      0);
  fs::remove_all(folder / "runs/a");
  const Result again = run({"train", "--resume", "runs/c", "train.epochs=2"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("model.init")));
  const Result other =
      run({"train", "--resume", "runs/c", "train.epochs=3", "model.init=runs/b/model.safetensors"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("model.init is not read again"));
}

}  // namespace
}  // namespace gossamer::apps
