// Whole models on a GPU: ResNet-50's logits and gradients against the reference backend, and fifty
// steps of training beside the CPU's: of a small ResNet and of a small GPT-2.
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"

namespace gossamer {
namespace {

class GpuModels : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
};

struct UseReference {
  std::string before = backend(Device::cpu()).name();
  UseReference() { use_cpu_backend("reference"); }
  ~UseReference() { use_cpu_backend(before); }
};

double relative_distance(const Tensor& x, const Tensor& wanted) {
  double sum = 0, all = 0;
  const auto a = x.span<float>(), b = wanted.span<float>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    all += double(b[i]) * b[i];
  }
  return std::sqrt(sum / all);
}

struct Answers {
  Tensor logits, grads;
};

// One forward and backward of ResNet-50, batch norm by the batch. A ReLU turns a rounding into the
// loss of a whole gradient where its input is next to zero; at random there are millions of inputs,
// and gradients of 49 layers differ by percents whatever computes them. So the shifts of batch norm
// keep nearly all inputs away from zero, on either side by turns.
Answers answers_on(Device device, DType type) {
  const auto net = models::make("resnet50", {.seed = 1});
  for (NamedTensor& p : net->parameters()) {
    if (!p.name.ends_with(".bias") || p.name == "fc.bias") continue;
    Tensor shift = p.tensor.detach();
    for (i64 i = 0; i < shift.numel(); ++i) shift.as<float>()[i] = i % 2 ? -3.0f : 3.0f;
  }
  net->to(device);
  FlatParams params(net->parameters(), net->buffers(), {.compute = type});
  Rng rng(7);
  Tensor images = Tensor::empty({4, 64, 64, 3}), labels = Tensor::empty({4}, DType::i32);
  for (float& v : images.span<float>()) v = rng.normal();
  for (i64 i = 0; i < 4; ++i)
    labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(rng.below(1000));
  params.zero_grad();
  const Tensor logits = net->forward(images.to(device).to(type));
  cross_entropy(logits, labels.to(device)).backward();
  params.settle_grads();
  return {logits.detach().to(Device::cpu()).to(DType::f32),
          params.grads().detach().to(Device::cpu()).to(DType::f32)};
}

void expect_like_the_reference(const Answers& got, DType type, double most) {
  const UseReference reference;
  const Answers want = answers_on(Device::cpu(), type);
  const double logits = relative_distance(got.logits, want.logits),
               grads = relative_distance(got.grads, want.grads);
  std::printf(
      "resnet50 %s against the reference: logits %.1e, gradients %.1e (relative, at most %.0e)\n",
      name_of(type), logits, grads, most);
  EXPECT_LE(logits, most);
  EXPECT_LE(grads, most);
}

TEST_F(GpuModels, ResNet50AgreesWithTheReferenceInFloat32) {
  expect_like_the_reference(answers_on(Device::cuda(), DType::f32), DType::f32, 1e-4);
}
TEST_F(GpuModels, ResNet50AgreesWithTheReferenceInBfloat16) {
  expect_like_the_reference(answers_on(Device::cuda(), DType::bf16), DType::bf16, 2e-2);
}

// A CPU's engines keep these bounds too, the one that takes a GPU's way through the ops among them:
// they ask what can be asked.
TEST(GpuModelsOnACpu, TheBoundsHoldForItsEngines) {
  const std::string before = backend(Device::cpu()).name();
  for (const std::string& engine : backend_names()) {
    if (engine == "reference") continue;
    SCOPED_TRACE(engine);
    for (const DType type : {DType::f32, DType::bf16}) {
      use_cpu_backend(engine);
      const Answers got = answers_on(Device::cpu(), type);
      expect_like_the_reference(got, type, type == DType::f32 ? 1e-4 : 2e-2);
    }
  }
  use_cpu_backend(before);
}

struct Curve {
  std::vector<float> losses;
  std::uint64_t waits = 0;  // of the host for the device, from the third step on
};

// On four batches in turn: loss_of(batch), its gradient, update().
template <class Loss, class Update>
Curve fifty_steps(FlatParams& params, Loss loss_of, Update update) {
  std::vector<Tensor> losses;
  Curve out;
  for (std::size_t step = 0; step < 50; ++step) {
    if (step == 2) out.waits = cuda::waits();
    params.zero_grad();
    const Tensor loss = loss_of(step % 4);
    params.backward(loss);
    update();
    losses.push_back(loss.detach());
  }
  out.waits = cuda::waits() - out.waits;
  for (const Tensor& loss : losses) out.losses.push_back(loss.item());
  return out;
}

// Fifty steps on four batches of noisy pictures whose class is the place of a bright square.
Curve train(Device device, DType type) {
  const auto net = models::make("resnet8-cifar", {.classes = 10});
  net->to(device);
  FlatParams params(net->parameters(), net->buffers(),
                    {.compute = type, .loss_scale = type == DType::f16 ? 1024.0f : 1.0f});
  nn::Sgd sgd(params, {.momentum = 0.9f});
  std::vector<Tensor> images, labels;
  Rng rng(5);
  for (int batch = 0; batch < 4; ++batch) {
    Tensor x = Tensor::empty({32, 32, 32, 3}), y = Tensor::empty({32}, DType::i32);
    for (i64 i = 0; i < 32; ++i) {
      const auto place = static_cast<i64>(rng.below(10));
      y.as<std::int32_t>()[i] = static_cast<std::int32_t>(place);
      for (i64 p = 0; p < 32 * 32 * 3; ++p)
        x.as<float>()[i * 3072 + p] =
            rng.normal() + (p / 96 / 8 * 4 + p / 3 % 32 / 8 == place ? 1.5f : 0.0f);
    }
    images.push_back(x.to(device).to(type));
    labels.push_back(y.to(device));
  }
  return fifty_steps(
      params,
      [&](std::size_t batch) { return cross_entropy((*net)(images[batch]), labels[batch]); },
      [&] { sgd.step(0.05f); });
}

// Each step may be off by a part of the loss that grows from first to last: rounding is amplified
// by training.
void expect_same_curve(const Curve& got, const Curve& want, float first, float last) {
  float worst = 0;
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    const float off = std::fabs(got.losses[i] - want.losses[i]) / want.losses[i];
    const float part = static_cast<float>(i) / static_cast<float>(want.losses.size());
    EXPECT_LE(off, first + part * (last - first))
        << "step " << i << ": loss " << got.losses[i] << ", on the CPU " << want.losses[i];
    worst = std::max(worst, off);
  }
  EXPECT_LT(want.losses.back(), 0.3f * want.losses.front());
  std::printf("loss after 50 steps: %.4f, on the CPU %.4f; at most %.2f %% apart on the way\n",
              got.losses.back(), want.losses.back(), 100 * worst);
}

void expect_curve_of(const Curve& got, DType type, const Curve& want) {
  SCOPED_TRACE(name_of(type));
  if (type == DType::f32)
    expect_same_curve(got, want, 1e-4f, 3e-2f);
  else
    expect_same_curve(got, want, 1e-2f, 6e-2f);
}

TEST_F(GpuModels, FiftyStepsFollowTheCpuAndWaitForNothing) {
  const Curve want = train(Device::cpu(), DType::f32);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const Curve got = train(Device::cuda(), type);
    EXPECT_EQ(got.waits, 0u) << "hidden synchronisation in the step, " << name_of(type);
    expect_curve_of(got, type, want);
  }
}

// Fifty steps of AdamW, as `gossamer train` takes them, on four batches of text in which an id says
// what follows it. The head has 64 numbers, so cuDNN computes attention in 16 bits; width,
// vocabulary and rows are such that every pass runs in vectors of eight.
Curve train_text(Device device, DType type) {
  constexpr i64 kIds = 512, kLength = 32, kBatch = 8;
  nn::seed_initialisation(3);
  models::Gpt2 net(
      {.layers = 2, .width = 128, .heads = 2, .positions = kLength, .vocabulary = kIds});
  net.to(device);
  FlatParams params(net.parameters(), net.buffers(),
                    {.compute = type, .loss_scale = type == DType::f16 ? 1024.0f : 1.0f});
  nn::Adam adam(params, {.beta2 = 0.95, .weight_decay = 0.1f, .decoupled = true});
  std::vector<Tensor> ids, labels;
  Rng rng(5);
  for (int batch = 0; batch < 4; ++batch) {
    Tensor x = Tensor::empty({kBatch, kLength}, DType::i32),
           y = Tensor::empty(x.shape(), DType::i32);
    for (i64 b = 0; b < kBatch; ++b) {
      auto id = static_cast<std::int32_t>(rng.below(kIds));
      for (i64 t = 0; t < kLength; ++t) {
        x.as<std::int32_t>()[b * kLength + t] = id;
        id = rng.below(10) == 0 ? static_cast<std::int32_t>(rng.below(kIds)) : (3 * id + 1) % 50;
        y.as<std::int32_t>()[b * kLength + t] = t % 7 == 6 ? -1 : id;
      }
    }
    ids.push_back(x.to(device));
    labels.push_back(y.to(device));
  }
  return fifty_steps(
      params, [&](std::size_t batch) { return net.loss(ids[batch], labels[batch]); },
      [&] { adam.step(3e-3f, nullptr, {.clip = 1}); });
}

TEST_F(GpuModels, FiftyStepsOfGpt2FollowTheCpuAndWaitForNothing) {
  const Curve want = train_text(Device::cpu(), DType::f32);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const Curve got = train_text(Device::cuda(), type);
    EXPECT_EQ(got.waits, 0u) << "hidden synchronisation in the step, " << name_of(type);
    expect_curve_of(got, type, want);
  }
}

// The bounds are kept by a CPU's engines, too, one of which takes a GPU's passes.
TEST(GpuModelsOnACpu, FiftyStepsOfGpt2AgreeBetweenItsEngines) {
  const std::string before = backend(Device::cpu()).name();
  const Curve want = train_text(Device::cpu(), DType::f32);
  for (const std::string& engine : backend_names())
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      if (engine == "reference") continue;  // slow, and compared with them op by op
      SCOPED_TRACE(engine);
      use_cpu_backend(engine);
      expect_curve_of(train_text(Device::cpu(), type), type, want);
      use_cpu_backend(before);
    }
}

}  // namespace
}  // namespace gossamer
