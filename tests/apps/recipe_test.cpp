// Recipes from configuration to training: the files of apps/configs, the keys of augmentation,
// exact resume with everything on.
#include <cstring>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/layers.h"
#include "support/error_of.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

TEST(Recipe, EveryFileOfTheConfigsIsValid) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(GOSSAMER_SOURCE_DIR) / "apps/configs")) {
    if (entry.path().extension() != ".toml") continue;
    const Config c = load_config({entry.path().string()});
    EXPECT_NO_THROW(validate(c, 8)) << entry.path();
    if (c.task == "pictures") EXPECT_NO_THROW(pictures(c)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

double epoch_of(const Config& c, const Amount& milestone) {
  return part_of(milestone, run_samples(c, 1, 1), run_units(c, 1, 1)) * c.train.epochs.value;
}

TEST(Recipe, OfNinetyEpochsIsThePublishedOne) {
  const fs::path folder = fs::path(GOSSAMER_SOURCE_DIR) / "apps/configs";
  const Config paper = load_config({(folder / "imagenet-paper90.toml").string()}),
               dle = load_config({(folder / "imagenet-dle90.toml").string()});
  EXPECT_EQ(paper.optim.milestones.size(), 3u);
  for (const auto& [milestone, epoch] :
       {std::pair{0, 30.0}, std::pair{1, 60.0}, std::pair{2, 80.0}})
    EXPECT_DOUBLE_EQ(epoch_of(paper, paper.optim.milestones[static_cast<std::size_t>(milestone)]),
                     epoch);
  EXPECT_EQ(paper.optim.weight_decay, 1e-4);
  EXPECT_EQ(dle.optim.weight_decay, 1.0 / 32768);
  EXPECT_EQ(dle.optim.label_smoothing, 0.1);
  EXPECT_EQ(dle.optim.momentum, 0.875);
}

// Learning rate, sizes and phases as the sources of the files' first lines say.
TEST(Recipe, OfOtherProgramsAreTheirs) {
  const auto recipe = [](const std::string& name) {
    return load_config({GOSSAMER_SOURCE_DIR "/apps/configs/" + name + ".toml"});
  };
  const auto peak = [](const Config& c, int workers) {
    std::vector<std::string> notes;
    return run_schedule(c, workers, 1,
                        notes)(samples_of(c.optim.warmup_epochs, run_units(c, workers, 1)));
  };
  for (const auto& [name, epochs, larger_from] :
       {std::tuple{"imagenet-fast16", 16.0, 12.0}, {"imagenet-fast32", 32.0, 25.0}}) {
    const Config c = recipe(name);
    EXPECT_EQ(c.train.epochs, Amount{epochs});
    EXPECT_EQ(epoch_of(c, c.data.size_milestones.at(0)), larger_from);
    EXPECT_DOUBLE_EQ(peak(c, 8), 1.7);
  }
  EXPECT_DOUBLE_EQ(peak(recipe("imagenet-adam-aer"), 32), 1.5e-3);
  const Config paper = recipe("cifar10-resnet18-paper");
  EXPECT_EQ(paper.train.epochs, Amount{300});
  EXPECT_EQ(paper.train.quota, "exact");
  EXPECT_EQ(paper.optim.clip_norm, 1);
  EXPECT_EQ(epoch_of(paper, paper.optim.milestones.at(0)), 150);
  EXPECT_EQ(epoch_of(paper, paper.optim.milestones.at(1)), 225);
  EXPECT_DOUBLE_EQ(peak(paper, 4), 0.1 * 4 * 128 / 256);
  const Config control = recipe("cifar10-resnet20-consensus");
  EXPECT_EQ(value_text(control, "control.phases"), value_text(control, "optim.milestones"));
  EXPECT_EQ(control.train.epochs, Amount{300});
  EXPECT_TRUE(control.optim.nesterov);
}

// As a plain perceptron or a vision transformer: the model of the configuration takes any side.
TEST(Recipe, ASideThatTheNetworkDoesNotTakeIsNamedBeforeTheRun) {
  struct OneSide : nn::Module {
    nn::Linear& fc = add("fc", nn::Linear(32 * 32 * 3, 2));
    Tensor forward(const Tensor& x) override {
      EXPECT_FALSE(training());
      return fc(x.reshape({x.shape(0), x.numel() / x.shape(0)}));
    }
  };
  const auto error = [](const std::vector<std::string>& assignments) {
    Config c;
    for (const auto& a : assignments) set_key(c, a);
    OneSide net;
    return error_of<ConfigError>([&] { check_sides(c, net); });
  };
  EXPECT_EQ(error({}), "no error");
  EXPECT_EQ(error({"data.size=32", "data.resize=40"}), "no error");
  EXPECT_THAT(error({"data.size=64"}), HasSubstr("data.size = 64: linear"));
  EXPECT_THAT(error({"data.eval_size=40"}), HasSubstr("data.eval_size = 40: "));
  EXPECT_THAT(error({"data.sizes=16", "data.size_milestones=0.5"}), HasSubstr("data.sizes = 16: "));
}

TEST(Recipe, MistakesAreNamedWithTheirKey) {
  const auto error = [](const std::vector<std::string>& assignments) -> std::string {
    Config c;
    for (const auto& a : assignments) set_key(c, a);
    try {
      validate(c, 1);
      pictures(c);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error({"data.augment=resized-crop-flip,rand-augment:2:9,random-erasing:0.1"}),
            "no error");
  EXPECT_THAT(error({"data.augment=rand-augment:2:9"}),
              HasSubstr("data.augment: \"rand-augment:2:9\" is no crop; use none, pad-crop"));
  EXPECT_THAT(
      error({"data.augment=auto,cutout"}),
      HasSubstr(
          "command line: data.augment: augmentation \"cutout\" is unknown; use colour-jitter"));
  EXPECT_THAT(
      error({"data.sizes=16"}),
      HasSubstr("data.size_milestones = []; it must be one fraction for each of data.sizes"));
  EXPECT_EQ(error({"data.sizes=16,24", "data.size_milestones=0.2,0.5"}), "no error");
  EXPECT_THAT(error({"data.sizes=16,24", "data.size_milestones=0.5,0.2"}),
              HasSubstr("it must be ascending fractions of the run"));
  EXPECT_THAT(error({"data.sizes=64", "data.size_milestones=0.5"}),
              HasSubstr("data.sizes holds a side above data.size = 32"));
  EXPECT_THAT(error({"data.cpus=0-x"}), HasSubstr("command line: data.cpus: cpus \"0-x\""));
  EXPECT_THAT(error({"train.mixup=-1"}), HasSubstr("train.mixup = -1; it must be 0 to 100"));
  EXPECT_THAT(error({"train.cutmix=1", "train.batch=1"}),
              HasSubstr("train.batch = 1; it must be 2 or more with train.mixup or train.cutmix"));
  EXPECT_THAT(error({"data.eval_size=48", "data.resize=40"}),
              HasSubstr("data.resize = 40 is smaller than data.eval_size = 48"));
}

class RecipeRun : public ProgramTest {};

// Each file as it stands but for the data and what makes a step of ImageNet or of GPT-2 long.
TEST_F(RecipeRun, EveryFileOfTheConfigsStarts) {
  make_texts(folder);
  for (const auto& entry : fs::directory_iterator(GOSSAMER_SOURCE_DIR "/apps/configs")) {
    const Config c = load_config({entry.path().string()});
    std::vector<std::string> arguments{"train",
                                       entry.path().string(),
                                       "data.train=s/train",
                                       "data.val=s/val",
                                       "train.batch=4",
                                       "train.threads=1",
                                       "train.device=cpu",
                                       "--workers",
                                       "2",
                                       "--dry-run"};
    if (c.model.name == "resnet50") arguments.push_back("model.name=resnet8-cifar");
    if (!c.data.sizes.empty()) arguments.push_back("data.sizes=24");
    if (c.task == "pictures")
      arguments.insert(arguments.end(), {"data.size=32", "data.resize=36", "data.eval_size=32"});
    else
      arguments.insert(arguments.end(), {"data.train=" + c.task, "data.val=auto", "data.length=32",
                                         "model.layers=1", "model.width=16", "model.heads=2"});
    if (c.task == "translation")
      arguments.insert(arguments.end(), {"train.batch=64", "model.ff=32"});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << entry.path() << "\n" << r.err;
    EXPECT_THAT(r.out, HasSubstr("dry run")) << entry.path();
  }
}

TEST_F(RecipeRun, ResumesBitForBitWithEverythingOn) {
  const std::vector<std::string> all{
      "data.augment=auto,colour-jitter:0.4:0.4:0.4:0.1,rand-augment:2:9:bilinear,trivial-augment-"
      "wide,random-erasing:0.5",
      "data.sizes=16,24",
      "data.size_milestones=0.3,0.6",
      "train.mixup=0.2",
      "train.cutmix=1",
      "train.batch=4",
      "train.accumulate=2",
      "optim.label_smoothing=0.1",
      "data.eval_size=24"};
  auto options = all;
  // So slow that each checkpoint is written before the next is due.
  options.insert(options.end(), {"train.epochs=2", "run.checkpoint_every=0.25", "run.keep=99",
                                 "run.name=whole", slowed(1, 10)});
  const Result whole = run(tiny(options));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("batch 1 x 4 x 2 accumulated"));
  EXPECT_EQ(summary("whole")["gradients"], 24) << "of 8 images";
  const SafeTensors wanted = read_safetensors(folder / "runs/whole/model.safetensors");
  EXPECT_EQ(wanted.metadata.at("image_size"), "24");
  // Before, at and after a change of size (192 images in all: at 58 and 116), with other numbers of
  // data threads.
  int threads = 1;
  for (const char* label :
       {"samples-000000000048", "samples-000000000072", "samples-000000000144"}) {
    const std::string name = std::string("from-") + label;
    const Result r = run({"train", "runs/whole/config.toml", "run.name=" + name,
                          "data.threads=" + std::to_string(threads), "--resume",
                          std::string("runs/whole/checkpoints/") + label});
    ASSERT_EQ(r.code, 0) << r.err;
    const SafeTensors got = read_safetensors(folder / "runs" / name / "model.safetensors");
    ASSERT_EQ(got.tensors.size(), wanted.tensors.size());
    for (const NamedTensor& t : wanted.tensors)
      EXPECT_EQ(std::memcmp(t.tensor.data(), got.find(t.name)->data(), t.tensor.bytes()), 0)
          << label << " " << t.name;
    threads += 3;
  }
}

TEST_F(RecipeRun, AStopAmongTheBatchesOfAGradientLosesNoneOfThem) {
  const std::vector<std::string> options{"train.epochs=30", "train.batch=2", "train.accumulate=24"};
  auto whole = options, stopped = options;
  whole.push_back("run.name=whole");
  ASSERT_EQ(run(tiny(whole)).code, 0);
  start(tiny(stopped));
  ASSERT_EQ(workers_at_work(1).size(), 1u);
  kill(running, SIGTERM);
  ASSERT_EQ(wait().code, 143);
  const Result r = run({"train", "--resume", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(read_text(folder / "runs/t/model.safetensors"),
            read_text(folder / "runs/whole/model.safetensors"));
}

TEST_F(RecipeRun, AGradientOfMoreImagesThanThereAreIsRefused) {
  const Result r = run(tiny({"train.accumulate=13"}));
  EXPECT_EQ(r.code, 3);
  EXPECT_THAT(r.err, HasSubstr("has 96 images, fewer than one gradient takes (train.batch x "
                               "train.accumulate = 104)"));
}

TEST_F(RecipeRun, FilesInMemoryTrainAsFilesOnDisk) {
  ASSERT_EQ(run(tiny({"train.epochs=2", "run.name=disk"})).code, 0);
  const Result kept = run(tiny({"train.epochs=2", "run.name=memory", "data.cache_gb=0.01"}));
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("data     up to 0.01 GB of encoded files are kept in memory"));
  const double cached = events("step", "memory").back().at("data_cached_mb").get<double>();
  EXPECT_GT(cached, 0);
  EXPECT_LE(cached, 10);
  const SafeTensors wanted = read_safetensors(folder / "runs/disk/model.safetensors");
  const SafeTensors got = read_safetensors(folder / "runs/memory/model.safetensors");
  for (const NamedTensor& t : wanted.tensors)
    EXPECT_EQ(std::memcmp(t.tensor.data(), got.find(t.name)->data(), t.tensor.bytes()), 0)
        << t.name;
  EXPECT_THAT(run(tiny({"data.cache_gb=-1"})).err, HasSubstr("data.cache_gb"));
}

TEST_F(RecipeRun, SaysHowLongItWaitedForData) {
  ASSERT_EQ(run(tiny({"run.log_every=4"})).code, 0);
  const auto steps = events("step");
  ASSERT_FALSE(steps.empty());
  for (const Json& s : steps)
    for (const char* key : {"data_wait_s", "data_idle_s", "data_ready", "damaged_images"})
      EXPECT_TRUE(s[key].is_number()) << key;
  const Json s = summary();
  EXPECT_GE(s["data_wait_fraction"].get<double>(), 0);
  EXPECT_LE(s["data_wait_fraction"].get<double>(), 1);
  EXPECT_GE(s["each_worker"][0]["data_idle_s"].get<double>(), 0);
}

}  // namespace
}  // namespace gossamer::apps
