// data.resize_on: pictures that the loader resizes against boxes that the step resizes, in the loop
// of `gossamer train` and in the whole program.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/picture_input.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/fake_graphs.h"
#include "support/use_backend.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Way {
  bool boxes = false, fixed = false, graph = false;
};

class ResizeOn : public ProgramTest {
 protected:
  // A small net trained by loader and gradient step; each batch's loss. `change`: between the
  // batches.
  struct Training {
    Training(const fs::path& set, const Way& how, DType type, double mixup = 0, int threads = 1)
        : loader(data::open({set}), {.batch = 20,
                                     .size = 24,
                                     .augment = data::Augment::resized_crop_flip,
                                     .threads = threads,
                                     .epoch = {.drop_last = false, .seed = 3},
                                     .boxes = how.boxes}) {
      config.train.mixup = mixup;
      config.train.cutmix = mixup;
      nn::seed_initialisation(3);
      net = models::resnet(
          {.blocks = {1, 1}, .widths = {8, 16}, .imagenet_stem = false, .classes = 10});
      params = std::make_unique<FlatParams>(net->parameters(), net->buffers(),
                                            FlatOptions{.compute = type, .separate = true});
      sgd = std::make_unique<nn::Sgd>(*params, nn::SgdOptions{.momentum = .9f});
      prepare = pictures(config);
      prepare.dtype = type;
      picture = std::make_unique<PictureStep>(prepare, TrainingLoss(config, 0));
      graphs.emplace(FakeGraphs{.net = *net, .params = *params});
      gradient = std::make_unique<nn::GradientStep>(
          nn::GradientStep::Parts{.net = *net,
                                  .params = *params,
                                  .loss_of =
                                      [this](const nn::StepBatch& batch, const Tensor& numbers) {
                                        return picture->loss(*net, batch, numbers);
                                      },
                                  .before_backward = {}},
          step_graph(how.graph ? "on" : "off", graphs->capture()), how.fixed);
      graphs->losses = &gradient->losses();
      net->train();
    }
    std::vector<double> run(int steps) {
      std::vector<double> losses;
      for (int k = 0; k < steps;) {
        const data::Batch batch = loader.next();
        if (!batch.labels.defined()) continue;
        sizes.insert(batch.bytes.defined() ? batch.bytes.numel() : 0);
        counts.insert(batch.count());
        gradient->compute(picture->drawn(batch, {0, loader.epoch(), k}));
        losses.push_back(gradient->losses().take());
        sgd->step(.02f);
        gradient->step_ends();
        ++k;
      }
      return losses;
    }
    Config config;
    data::Loader loader;
    std::unique_ptr<nn::Module> net;
    std::unique_ptr<FlatParams> params;
    std::unique_ptr<nn::Sgd> sgd;
    Pictures prepare;
    std::optional<FakeGraphs> graphs;
    std::set<i64> sizes, counts;
    std::unique_ptr<PictureStep> picture;
    std::unique_ptr<nn::GradientStep> gradient;
  };
  static void expect_near(const std::vector<double>& a, const std::vector<double>& b, double most) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], most * b[k]) << "step " << k;
  }
  static fs::path set() { return shapes() / "train"; }
};

TEST_F(ResizeOn, BothWaysTrainAlike) {
  for (const double mixup : {0.0, 0.5})
    for (const auto& [type, most] : {std::pair{DType::f32, 0.01}, std::pair{DType::bf16, 0.03}}) {
      SCOPED_TRACE(name_of(type));
      Training host(set(), {}, type, mixup), boxes(set(), {.boxes = true}, type, mixup);
      const auto want = host.run(12), got = boxes.run(12);
      expect_near(got, want, most);
      EXPECT_NE(got, want) << "the device rounds once, the host twice";
      EXPECT_GT(boxes.sizes.size(), 10u);
      EXPECT_EQ(boxes.counts, (std::set<i64>{16, 20})) << "the last batch of an epoch is smaller";
    }
}

TEST_F(ResizeOn, ARecordedStepFindsBoxesOfAnySizeWhereItLooks) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Training plain(set(), {.boxes = true}, type, 0.4),
        graph(set(), {.boxes = true, .fixed = true, .graph = true}, type, 0.4, 3);
    // three epochs of five batches, the last of each smaller
    EXPECT_EQ(plain.run(14), graph.run(14));
    EXPECT_EQ(graph.graphs->launched, 9) << "but for the first three and two smaller ones";
    EXPECT_EQ(graph.sizes.size(), plain.sizes.size());
    for (Training* t : {&plain, &graph}) t->loader.set_size(16);
    EXPECT_EQ(plain.run(9), graph.run(9)) << "another size of pictures";
    for (Training* t : {&plain, &graph}) t->loader.set_size(24);
    EXPECT_EQ(plain.run(9), graph.run(9)) << "and back";
    EXPECT_GT(graph.graphs->launched, 12);
    EXPECT_EQ(std::memcmp(plain.params->values().data(), graph.params->values().data(),
                          plain.params->values().bytes()),
              0);
  }
}

TEST_F(ResizeOn, AutoIsTheDeviceOfAGpuUnlessSomethingNeedsPixels) {
  const auto boxes = [](const std::vector<std::string>& keys, Device device) {
    std::vector<std::string> all{"model.name=resnet50"};
    all.insert(all.end(), keys.begin(), keys.end());
    const Config c = load_config(all);
    validate(c, 1);
    return loader_options(c, pictures(c), {}, device).boxes;
  };
  const Device gpu = Device::cuda(), cpu;
  EXPECT_FALSE(boxes({}, cpu));
  EXPECT_TRUE(boxes({}, gpu));
  EXPECT_TRUE(boxes({"train.mixup=0.2", "train.cutmix=1"}, gpu)) << "done after it, on the device";
  EXPECT_TRUE(boxes({"data.augment=none"}, gpu));
  EXPECT_FALSE(boxes({"data.resize_on=host"}, gpu));
  EXPECT_TRUE(boxes({"data.resize_on=device"}, cpu));
  EXPECT_FALSE(boxes({"data.augment=auto,random-erasing:0.1"}, gpu));
  EXPECT_FALSE(boxes({"data.augment=pad-crop-flip"}, gpu));
  EXPECT_FALSE(boxes({"model.name=resnet18-cifar"}, gpu)) << "small pictures are shifted";
}

TEST_F(ResizeOn, WhatNeedsPixelsOnTheHostSaysSoBeforeAnythingStarts) {
  const auto refused = [&](std::vector<std::string> keys) {
    keys.push_back("data.resize_on=device");
    const Result r = run(tiny(keys));
    EXPECT_EQ(r.code, 2) << r.out;
    EXPECT_FALSE(fs::exists(folder / "runs"));
    return r.err;
  };
  EXPECT_THAT(refused({}), AllOf(HasSubstr("pad-crop-flip changes pictures after their resize"),
                                 HasSubstr("data.augment=resized-crop-flip")));
  EXPECT_THAT(
      refused({"data.augment=resized-crop-flip,colour-jitter:0.4:0.4:0.4:0.1", "--workers", "2"}),
      AllOf(HasSubstr("colour-jitter:0.4:0.4:0.4:0.1 changes pictures after their resize"),
            HasSubstr("data.resize_on=auto")));
  EXPECT_THAT(refused({"data.augment=resized-crop-flip", "data.filter=area"}),
              HasSubstr("use data.filter=bilinear"));
  const Result r = run(tiny({"data.resize_on=gpu"}));
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("data.resize_on = \"gpu\"; it must be one of auto, host, device"));
}

TEST_F(ResizeOn, ByAreaIsAnotherModelWhoseFileSaysSo) {
  const auto model = [&](const std::string& filter) {
    EXPECT_EQ(run(tiny({"data.filter=" + filter, "data.size=24", "run.name=" + filter})).code, 0);
    return read_safetensors(folder / "runs" / filter / "model.safetensors");
  };
  const SafeTensors area = model("area"), bilinear = model("bilinear");
  EXPECT_EQ(area.metadata.at("filter"), "area");
  const Tensor &a = *area.find("conv1.weight"), &b = *bilinear.find("conv1.weight");
  EXPECT_NE(std::memcmp(a.data(), b.data(), a.bytes()), 0);
  const Result eval = run({"eval", "runs/area/model.safetensors", "data.val=s/val", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["loss"],
            Json::parse(read_text(folder / "runs/area/summary.json"))["loss"]);
}

// Of the input, what is stated is 1/255 of a picture's value, before it is divided by std.
TEST_F(ResizeOn, APictureThatIsClassifiedIsNearlyTheSameWhereTheDeviceResizesIt) {
  nn::seed_initialisation(3);
  const auto net =
      models::resnet({.blocks = {1, 1}, .widths = {8, 16}, .imagenet_stem = false, .classes = 5});
  net->eval();
  const NoGrad no_grad;
  Pictures prepare{.size = 24, .resize = 28, .mean = {.5f, .4f, .3f}, .std = {.25f, .25f, .25f}};
  const auto gap = [](const Tensor& a, const Tensor& b) {
    float most = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.numel()); ++i)
      most = std::max(most, std::abs(a.span<float>()[i] - b.span<float>()[i]));
    return most;
  };
  for (const auto& entry : fs::recursive_directory_iterator(shapes() / "val")) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const Tensor host = read_picture(path, prepare), want = softmax((*net)(host));
    for (const char* backend : {"cpu", "cuda_emulated"}) {
      const UseBackend use(backend);
      const Tensor device = read_picture(path, prepare, true);
      ASSERT_EQ(device.shape(), (Shape{1, 24, 24, 3}));
      EXPECT_GT(gap(device, host), 0) << "the device rounds once, the host twice";
      EXPECT_LT(gap(device, host), 1.01f / 255 / .25f);
      EXPECT_LT(gap(softmax((*net)(device)), want), 1e-2f);
    }
    Pictures small = prepare, area = prepare;
    small.size = small.resize = 8;  // what needs more room is resized by the host
    EXPECT_LT(gap(read_picture(path, small, true), read_picture(path, small)), 1e-5f);
    area.filter = data::Shrink::area;  // which no device does
    EXPECT_EQ(gap(read_picture(path, area, true), read_picture(path, area)), 0);
  }
  EXPECT_THAT(error_of([&] { read_picture((folder / "none.jpg").string(), prepare, true); }),
              HasSubstr("none.jpg"));
}

// The whole program, resized by the step on the CPU.
class ResizeOnDevice : public ResizeOn {
 protected:
  static std::vector<std::string> device(std::vector<std::string> more) {
    more.insert(more.end(), {"data.augment=resized-crop-flip", "data.resize_on=device",
                             "data.size=24", "data.threads=2"});
    return tiny(more);
  }
  void expect_same_models(const std::string& a, const std::string& b) {
    const auto model = [&](const std::string& name) {
      return read_safetensors(folder / "runs" / name / "model.safetensors");
    };
    const SafeTensors x = model(a), y = model(b);
    ASSERT_GT(x.tensors.size(), 10u);
    for (const NamedTensor& t : x.tensors) {
      const Tensor* other = y.find(t.name);
      ASSERT_NE(other, nullptr) << t.name;
      EXPECT_EQ(std::memcmp(t.tensor.data(), other->data(), t.tensor.bytes()), 0) << t.name;
    }
  }
};

TEST_F(ResizeOnDevice, AResumedRunIsTheUninterruptedOne) {
  const std::vector<std::string> saving{"train.epochs=2", "run.checkpoint_every=0.75",
                                        "run.keep=9",     "run.name=whole",
                                        "data.sizes=16",  "data.size_milestones=0.5"};
  ASSERT_EQ(run(device(saving)).code, 0);
  EXPECT_THAT(read_text(folder / "out"), HasSubstr("cropped, resized and flipped on the device"));
  ASSERT_EQ(run({"train", "runs/whole/config.toml", "run.name=again", "data.threads=7"}).code, 0);
  expect_same_models("whole", "again");
  for (const char* label : {"samples-000000000072", "samples-000000000144"}) {
    const std::string name = std::string("from-") + label;
    ASSERT_EQ(run({"train", "runs/whole/config.toml", "run.name=" + name, "--resume",
                   std::string("runs/whole/checkpoints/") + label})
                  .code,
              0);
    expect_same_models("whole", name);
  }
}

TEST_F(ResizeOnDevice, WorkersTrainWithDamagedPicturesAndReEstimateBatchNorm) {
  fs::create_directory(folder / "d");
  fs::copy(fs::canonical(folder / "s"), folder / "d", fs::copy_options::recursive);
  int damaged = 0;
  for (const auto& e : fs::recursive_directory_iterator(folder / "d/train"))
    if (e.path().extension() == ".jpg" && damaged < 3)
      fs::resize_file(e.path(), fs::file_size(e.path()) / 2), ++damaged;
  const Result r = run(device({"data.train=d/train", "train.epochs=2", "train.bn_batches=3",
                               "train.mixup=0.2", "--workers", "2"}));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(summary()["damaged_images"], 3);
  EXPECT_THAT(summary()["batch_norm"].get<std::string>(), HasSubstr("re-estimated"));
  std::istringstream bad(read_text(folder / "runs/t/bad_images.txt"));
  int lines = 0;
  for (std::string line; std::getline(bad, line);) ++lines;
  EXPECT_EQ(lines, 3);
}

}  // namespace
}  // namespace gossamer::apps
