// The loop of `gossamer train` on a GPU: the optimizer's pass, steps as a CUDA graph, inputs and
// losses without a wait.
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "apps/translation_steps.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/models/registry.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"

namespace gossamer::apps {
namespace {

class GpuTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
  const Device gpu = Device::cuda();
};

Tensor noise(i64 n, std::uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty({n});
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}

// The pass on the device, beside the loops on the CPU.
TEST_F(GpuTraining, ThePassIsTheLoopsOfTheCpu) {
  for (const char* name : {"sgd", "adamw", "accum-adam"})
    for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << name << " in " << compute);
      std::vector<Tensor> results[2];
      for (const Device device : {gpu, Device::cpu()}) {
        Tensor w = noise(64 * 33, 1).reshape({64, 33}).to(device), b = noise(77, 2).to(device);
        FlatParams params({{"w", w}, {"b", b}}, {}, {.compute = compute, .separate = true});
        const auto optimizer =
            nn::make_optimizer(name, params, {.weight_decay = .01, .nesterov = true, .period = 2});
        const i64 n = params.size();
        const Twin twin{noise(n, 3).to(device), .9f, .1f};
        const Difference late{noise(n, 4).to(device), noise(n, 5).to(device), .5f, .7f};
        const std::uint64_t before = cuda::waits();
        std::uint64_t given = 0;
        for (int k = 0; k < 5; ++k) {
          params.settle_grads();
          const std::uint64_t here = cuda::waits();
          Tensor g = noise(n, 10 + static_cast<std::uint64_t>(k));
          // this step is left out
          if (compute == DType::f16 && k == 2)
            g.as<float>()[7] = std::numeric_limits<float>::infinity();
          Tensor(params.grads()).copy_from(g);
          given += cuda::waits() - here;  // from ordinary memory
          optimizer->step(.1f / static_cast<float>(k + 1), &twin,
                          {.factor = .5, .clip = k % 2 ? 3. : 0}, k == 3 ? &late : nullptr);
        }
        EXPECT_LE(cuda::waits() - before - given, 2u)
            << "the cache may ask for memory; a step waits for nothing, clipped or not";
        EXPECT_EQ(params.skipped_steps(), compute == DType::f16 ? 1 : 0);
        for (const Tensor& t : {params.values(), twin.values, params.compute_f32()})
          results[device.is_cpu()].push_back(t.to(Device::cpu()));
        for (const NamedTensor& s : optimizer->state()) {
          if (s.tensor.dtype() != DType::i64) continue;
          EXPECT_EQ(*s.tensor.to(Device::cpu()).as<i64>(), compute == DType::f16 ? 4 : 5)
              << "steps that were taken";
        }
      }
      // the norm's sum has another order, pow and sqrt another last bit
      for (std::size_t i = 0; i < 3; ++i)
        for (i64 j = 0; j < results[0][i].numel(); ++j) {
          const float got = results[0][i].as<float>()[j], want = results[1][i].as<float>()[j];
          ASSERT_NEAR(got, want, 2e-6f * (1 + std::abs(want))) << i << " at " << j;
        }
    }
}

struct Loop {
  Loop(Device device, const std::string& mode)
      : net(models::make(config.model.name, {.classes = 10, .seed = 3})) {
    config.train.mixup = .2;
    net->to(device);
    params = std::make_unique<FlatParams>(net->parameters(), net->buffers(),
                                          FlatOptions{.separate = true});
    sgd = std::make_unique<nn::Sgd>(*params, nn::SgdOptions{.momentum = .9f});
    prepare = pictures(config);
    prepare.device = device;
    picture = std::make_unique<PictureStep>(prepare, TrainingLoss(config, 0));
    gradient = std::make_unique<nn::GradientStep>(
        nn::GradientStep::Parts{.net = *net,
                                .params = *params,
                                .loss_of =
                                    [this](const nn::StepBatch& batch, const Tensor& numbers) {
                                      return picture->loss(*net, batch, numbers);
                                    },
                                .before_backward = {}},
        step_graph(mode, cuda_graph_capture(device)));
    net->train();
  }
  void step(i64 k, i64 rows = 32) {
    Rng rng(static_cast<std::uint64_t>(k % 4));
    const auto pinned = [](Shape shape, DType type) {
      auto block = cuda::allocate_pinned(static_cast<std::size_t>(shape.numel()) * size_of(type));
      return Tensor::wrap(block->data, shape, type, [block] {});
    };
    data::Batch batch{pinned({rows, 32, 32, 3}, DType::u8), pinned({rows}, DType::i32)};
    for (auto& v : batch.images.span<std::uint8_t>()) v = static_cast<std::uint8_t>(rng.below(256));
    for (auto& v : batch.labels.span<std::int32_t>()) v = static_cast<std::int32_t>(rng.below(10));
    gradient->compute(picture->drawn(batch, {0, 0, k}));
    sgd->step(.02f / static_cast<float>(1 + k / 10));
    gradient->step_ends();
  }
  Config config;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<nn::Sgd> sgd;
  Pictures prepare;
  std::unique_ptr<PictureStep> picture;
  std::unique_ptr<nn::GradientStep> gradient;
};

TEST_F(GpuTraining, AGraphFollowsEagerStepsAndTheCpu) {
  std::vector<double> losses[3];
  for (int which = 0; which < 3; ++which) {
    Loop loop(which == 2 ? Device::cpu() : gpu, which == 0 ? "on" : "off");
    for (i64 k = 0; k < 20; ++k) {
      loop.step(k, k == 8 ? 20 : 32);  // a smaller batch on the way
      losses[which].push_back(loop.gradient->losses().take());
    }
    EXPECT_EQ(loop.gradient->graphs(), which == 0 ? 1u : 0u);
  }
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT_NEAR(losses[0][k], losses[1][k], 1e-2 * losses[1][k]) << "graph, step " << k;
    if (k < 6) EXPECT_NEAR(losses[0][k], losses[2][k], 1e-2 * losses[2][k]) << "CPU, step " << k;
  }
}

// Batches of many shapes, whose tensors grow one by one; with dropout, whose masks are those of
// eager steps.
TEST_F(GpuTraining, TranslationByGraphsFollowsEagerSteps) {
  for (const float dropout : {0.0f, 0.1f}) {
    TranslationSteps eager(gpu, dropout), graph(gpu, dropout);
    graph.use_graphs(cuda_graph_capture(gpu), false);
    for (int k = 0; k < TranslationSteps::kSteps; ++k) {
      const double want = eager.step(k);
      EXPECT_NEAR(graph.step(k), want, 1e-4 * want) << k;
    }
    EXPECT_EQ(graph.gradient->graphs(), 1u);
  }
}

// A layer of dropout alone, so that the masks are compared, bit for bit.
TEST_F(GpuTraining, AGraphDrawsTheMasksOfEagerSteps) {
  struct Dropped : nn::Module {
    Tensor weight = param("weight", Tensor::full({1}, 1));
    nn::Dropout& drop = add("drop", nn::Dropout(.3f, 5));
    Tensor kept = buffer("kept", Tensor::zeros({4099}));
    Tensor forward(const Tensor& x) override {
      const Tensor y = drop(drop(x));
      kept.copy_from(y.detach());
      return mean(mul(y, weight));
    }
  };
  const auto masks = [&](bool graphs) {
    Dropped net;
    net.to(gpu);
    FlatParams params(net.parameters(), net.buffers());
    nn::GradientStep gradient({.net = net,
                               .params = params,
                               .loss_of = [&](const nn::StepBatch& batch,
                                              const Tensor&) { return net(batch.tensors[0]); },
                               .before_backward = {}},
                              step_graph(graphs ? "on" : "off", cuda_graph_capture(gpu)));
    std::vector<std::vector<float>> all;
    for (int k = 0; k < 8; ++k) {
      gradient.compute({{{Tensor::full({4099}, 1)}, {}, {4099}}, {}});
      gradient.step_ends();
      const Tensor kept = net.kept.to(Device::cpu());
      all.emplace_back(kept.span<float>().begin(), kept.span<float>().end());
    }
    EXPECT_EQ(gradient.graphs(), graphs ? 1u : 0u);
    return all;
  };
  const auto eager = masks(false);
  EXPECT_NE(eager[6], eager[7]);
  EXPECT_EQ(masks(true), eager);
}

// A step waits once, for the end of the step before the last, so that the host does not run away;
// and when the losses are read.
TEST_F(GpuTraining, AStepWaitsForNothingButTheStepBeforeTheLast) {
  for (const char* mode : {"on", "off"}) {
    Loop loop(gpu, mode);
    for (i64 k = 0; k < 10; ++k) loop.step(k);
    const std::uint64_t before = cuda::waits();
    for (i64 k = 10; k < 60; ++k) loop.step(k);
    EXPECT_LE(cuda::waits() - before, 50u);
    (void)loop.gradient->losses().take();
    EXPECT_LE(cuda::waits() - before, 54u);
  }
}

// Raw pictures of noise, 60 x 52.
class Noise : public data::Dataset {
 public:
  Noise() : pixels_(60 * 52 * 3 + 400) {
    Rng rng(5);
    for (auto& v : pixels_) v = static_cast<std::byte>(rng.below(256));
  }
  i64 size() const override { return 200; }
  int label(i64 i) const override { return static_cast<int>(i % 10); }
  std::string name(i64 i) const override { return std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>&) const override {
    return std::span(pixels_).subspan(static_cast<std::size_t>(2 * i), 60 * 52 * 3);
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  Raw raw() const override { return {60, 52}; }

 private:
  std::vector<std::byte> pixels_;
  std::vector<std::string> classes_ = std::vector<std::string>(10);
};

// A net with an ImageNet stem, fed by the loader: boxes that the step resizes,
// or images that the host has resized.
struct FedLoop {
  FedLoop(Device device, const std::string& mode, bool boxes, double mixup, bool drop_last = false)
      : loader(std::make_shared<Noise>(), {.batch = 32,
                                           .size = 48,
                                           .augment = data::Augment::resized_crop_flip,
                                           .threads = 2,
                                           .epoch = {.drop_last = drop_last, .seed = 7},
                                           .pinned = !device.is_cpu(),
                                           .boxes = boxes}) {
    Config config;
    config.train.mixup = mixup;
    nn::seed_initialisation(3);
    net = models::resnet({.blocks = {1, 1}, .widths = {16, 32}, .classes = 10});
    net->to(device);
    params = std::make_unique<FlatParams>(net->parameters(), net->buffers(),
                                          FlatOptions{.separate = true});
    sgd = std::make_unique<nn::Sgd>(*params, nn::SgdOptions{.momentum = .9f});
    prepare = pictures(config);
    prepare.device = device;
    picture = std::make_unique<PictureStep>(prepare, TrainingLoss(config, 0));
    gradient = std::make_unique<nn::GradientStep>(
        nn::GradientStep::Parts{.net = *net,
                                .params = *params,
                                .loss_of =
                                    [this](const nn::StepBatch& batch, const Tensor& numbers) {
                                      return picture->loss(*net, batch, numbers);
                                    },
                                .before_backward = {}},
        step_graph(mode, cuda_graph_capture(device)));
    net->train();
  }
  void step(i64 k) {
    data::Batch batch = loader.next();
    if (!batch.labels.defined()) batch = loader.next();
    gradient->compute(picture->drawn(batch, {0, 0, k}));
    sgd->step(.01f);
    gradient->step_ends();
  }
  data::Loader loader;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<nn::Sgd> sgd;
  Pictures prepare;
  std::unique_ptr<PictureStep> picture;
  std::unique_ptr<nn::GradientStep> gradient;
};

TEST_F(GpuTraining, PicturesThatTheStepResizesTrainAsThoseOfTheHost) {
  for (const double mixup : {0.0, 0.3}) {
    FedLoop graph(gpu, "on", true, mixup), eager(gpu, "off", true, mixup),
        host(gpu, "off", false, mixup), cpu(Device::cpu(), "off", true, mixup);
    for (i64 k = 0; k < 16; ++k) {  // the seventh batch of an epoch is smaller
      for (FedLoop* loop : {&graph, &eager, &host, &cpu}) loop->step(k);
      const double want = host.gradient->losses().take();
      EXPECT_NEAR(graph.gradient->losses().take(), want, 2e-2 * want) << "graph, step " << k;
      EXPECT_NEAR(eager.gradient->losses().take(), want, 2e-2 * want) << "eager, step " << k;
      EXPECT_NEAR(cpu.gradient->losses().take(), want, 2e-2 * want) << "CPU, step " << k;
    }
    EXPECT_GT(graph.gradient->graphs(), 0u);
  }
}

TEST_F(GpuTraining, AStepThatResizesWaitsForNothingElse) {
  for (const char* mode : {"on", "off"}) {
    FedLoop loop(gpu, mode, true, 0, true);
    for (i64 k = 0; k < 20; ++k) loop.step(k);  // the loader's memory is found, too
    const std::uint64_t before = cuda::waits();
    for (i64 k = 20; k < 60; ++k) loop.step(k);
    EXPECT_LE(cuda::waits() - before, 40u);
  }
}

}  // namespace
}  // namespace gossamer::apps
