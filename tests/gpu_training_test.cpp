// The loop of `gossamer train` on a GPU: the optimizer's pass, steps as a CUDA graph, inputs and losses without a wait.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "gossamer/apps/gradient_step.h"
#include "gossamer/core/random.h"
#include "gossamer/models/registry.h"
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

// On the device as on the CPU, where the same pass is proved to be the loops (tests/nn_optim_test.cpp).
TEST_F(GpuTraining, ThePassIsTheLoopsBitForBit) {
  for (const char* name : {"sgd", "adamw", "accum-adam"})
    for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(name);
      std::vector<Tensor> results[3];
      for (int form = 0; form < 3; ++form) {           // loops and pass on the GPU, loops on the CPU
        const Device device = form < 2 ? gpu : Device::cpu();
        Tensor w = noise(64 * 33, 1).reshape({64, 33}).to(device), b = noise(77, 2).to(device);
        FlatParams params({{"w", w}, {"b", b}}, {}, {.compute = compute, .frozen = true});
        const auto optimizer = nn::make_optimizer(name, params, {.weight_decay = .01, .nesterov = true, .period = 2,
                                                                .form = form == 1 ? nn::UpdateForm::pass : nn::UpdateForm::loops});
        const i64 n = params.size();
        const Twin twin{noise(n, 3).to(device), .9f, .1f};
        const Difference late{noise(n, 4).to(device), noise(n, 5).to(device), .5f, .7f};
        for (int k = 0; k < 5; ++k) {
          params.settle_grads();
          Tensor g = noise(n, 10 + static_cast<std::uint64_t>(k));
          if (compute == DType::f16 && k == 2) g.as<float>()[7] = std::numeric_limits<float>::infinity();      // this step is left out
          Tensor(params.grads()).copy_from(g);
          optimizer->step(.1f / static_cast<float>(k + 1), &twin, .5f, k == 3 ? &late : nullptr);
        }
        EXPECT_EQ(params.skipped_steps(), compute == DType::f16 ? 1 : 0);
        for (const Tensor& t : {params.values(), twin.values, params.compute_f32()}) results[form].push_back(t.to(Device::cpu()));
      }
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(results[0][i].data(), results[1][i].data(), results[0][i].bytes()), 0) << i;
        if (std::string(name) == "sgd") EXPECT_EQ(std::memcmp(results[1][i].data(), results[2][i].data(), results[1][i].bytes()), 0) << "CPU, " << i;
      }
    }
}

struct Loop {
  Loop(Device device, StepGraph::Mode mode) : net(models::make(config.model.name, {.classes = 10, .seed = 3})) {
    config.train.mixup = .2;
    net->to(device);
    params = std::make_unique<FlatParams>(net->parameters(), net->buffers(), FlatOptions{.frozen = true});
    sgd = std::make_unique<nn::Sgd>(*params, nn::SgdOptions{.momentum = .9f});
    prepare = pictures(config);
    prepare.device = device;
    gradient = std::make_unique<GradientStep>(
        GradientStep::Parts{.net = *net, .params = *params, .prepare = prepare, .loss_of = TrainingLoss(config, 0), .before_backward = {}},
        StepGraph::Options{.mode = mode, .record = cuda_recorder(device), .counters = {}, .log = {}});
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
    gradient->compute(batch, {0, 0, k});
    sgd->step(.02f / static_cast<float>(1 + k / 10));
    gradient->step_ends();
  }
  Config config;
  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;
  std::unique_ptr<nn::Sgd> sgd;
  Pictures prepare;
  std::unique_ptr<GradientStep> gradient;
};

TEST_F(GpuTraining, AGraphFollowsStepsAsTheyStandAndTheCpu) {
  std::vector<double> losses[3];
  for (int which = 0; which < 3; ++which) {
    Loop loop(which == 2 ? Device::cpu() : gpu, which == 0 ? StepGraph::Mode::on : StepGraph::Mode::off);
    for (i64 k = 0; k < 20; ++k) {
      loop.step(k, k == 8 ? 20 : 32);                  // a smaller batch on the way
      losses[which].push_back(loop.gradient->losses().take());
    }
    EXPECT_EQ(loop.gradient->recorded(), which == 0);
  }
  for (std::size_t k = 0; k < 20; ++k) {
    EXPECT_NEAR(losses[0][k], losses[1][k], 1e-2 * losses[1][k]) << "graph, step " << k;
    if (k < 6) EXPECT_NEAR(losses[0][k], losses[2][k], 1e-2 * losses[2][k]) << "CPU, step " << k;
  }
}

// A step waits once, for the end of the step before the last, so that the host does not run away; and when somebody looks at the losses.
TEST_F(GpuTraining, AStepWaitsForNothingButTheStepBeforeTheLast) {
  for (const StepGraph::Mode mode : {StepGraph::Mode::on, StepGraph::Mode::off}) {
    Loop loop(gpu, mode);
    for (i64 k = 0; k < 10; ++k) loop.step(k);
    const std::uint64_t before = cuda::waits();
    for (i64 k = 10; k < 60; ++k) loop.step(k);
    EXPECT_LE(cuda::waits() - before, 50u);
    (void)loop.gradient->losses().take();
    EXPECT_LE(cuda::waits() - before, 54u);
  }
}

}  // namespace
}  // namespace gossamer::apps
