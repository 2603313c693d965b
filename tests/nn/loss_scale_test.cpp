// f16 and its loss scale: divided out exactly, tiny gradients live, an overflow leaves out exactly
// one step, the curve is that of f32.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/update.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/updates.h"
#include "support/use_backend.h"

namespace gossamer::nn {
namespace {

constexpr const char* kOptimizers[] = {"sgd", "adam", "adamw", "accum-adam"};

struct Curve {
  std::vector<float> losses, values;
  i64 skipped = 0;
};
// A small ResNet learns to tell dark from bright.
Curve train(FlatOptions o, int steps, const char* optimizer = "sgd", float learning_rate = 0.02f) {
  const auto model = models::make("resnet8-cifar", {.classes = 4, .seed = 1});
  FlatParams params(model->parameters(), model->buffers(), o);
  const auto step =
      make_optimizer(optimizer, params, {.momentum = 0.9, .weight_decay = 1e-4, .period = 2});
  Curve run;
  for (int k = 0; k < steps; ++k) {
    Rng rng(static_cast<std::uint64_t>(k));
    Tensor images = normal({16, 16, 16, 3}, 0, 0.5f, rng), labels = Tensor::empty({16}, DType::i32);
    for (i64 i = 0; i < 16; ++i) {
      labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(rng.below(4));
      const Tensor image = images.slice(i, i + 1);
      for (float& v : image.span<float>())
        v += 0.6f * static_cast<float>(labels.as<std::int32_t>()[i]);
    }
    const Tensor loss = cross_entropy((*model)(images.to(o.compute)), labels);
    params.zero_grad();
    params.backward(loss);
    step->step(learning_rate);
    run.losses.push_back(loss.item());
  }
  run.values.assign(params.values().span<float>().begin(), params.values().span<float>().end());
  run.skipped = params.skipped_steps();
  return run;
}

TEST(LossScale, IsDividedOutBitForBitInF32) {
  for (const char* optimizer : kOptimizers) {
    const Curve plain = train({}, 4, optimizer, 1e-3f),
                scaled = train({.loss_scale = 4096}, 4, optimizer, 1e-3f);
    EXPECT_EQ(plain.values, scaled.values) << optimizer;
    EXPECT_EQ(scaled.skipped, 0);
  }
}

TEST(LossScale, F16FollowsTheLossCurveOfF32) {
  const Curve wide = train({}, 40), half = train({.compute = DType::f16, .loss_scale = 1024}, 40);
  EXPECT_EQ(half.skipped, 0);
  EXPECT_GT(wide.losses.front(), 1.2f);
  EXPECT_LT(wide.losses.back(), 0.5f * wide.losses.front());
  for (std::size_t k = 0; k < 10; ++k)
    EXPECT_NEAR(half.losses[k], wide.losses[k], 0.02f) << "step " << k;
  const auto mean = [](const Curve& r) {
    float sum = 0;
    for (std::size_t k = 30; k < 40; ++k) sum += r.losses[k] / 10;
    return sum;
  };
  EXPECT_NEAR(mean(half), mean(wide), 0.1f * mean(wide) + 0.02f);
}

// The gradient of 2^-27 that reaches the layer is below anything f16 has; 2^-27 times 2^12 is not.
TEST(LossScale, WithoutItTinyGradientsVanish) {
  const auto gradient = [](float scale) {
    Tensor w = Tensor::full({4, 8}, 0.25f), x = Tensor::full({2, 8}, 1.5f, DType::f16);
    FlatParams params({{"w", w}}, {}, {.compute = DType::f16, .loss_scale = scale});
    params.zero_grad();
    params.backward(mul(sum(cast(linear(x, w), DType::f32)), 0x1p-27f));
    params.settle_grads();
    return params.windows(params.grads())[0].tensor.span<float>()[5] / scale;
  };
  EXPECT_EQ(gradient(1), 0);
  EXPECT_EQ(gradient(4096), 3 * 0x1p-27f);
}

TEST(LossScale, MustBeAPowerOfTwo) {
  for (const float wrong :
       {0.0f, -2.0f, 1000.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Tensor w = Tensor::zeros({2, 2});
    const std::string text = error_of<ConfigError>([&] {
      FlatParams({{"w", w}}, {}, {.loss_scale = wrong});
    });
    EXPECT_NE(text.find("power of two"), std::string::npos) << text;
  }
  Tensor w = Tensor::zeros({2, 2});
  EXPECT_EQ(FlatParams({{"w", w}}, {}, {.loss_scale = 0.5f}).loss_scale(), 0.5f);
  EXPECT_FALSE(FlatParams({{"w", w}}, {}, {.compute = DType::bf16}).overflow().defined())
      << "who does not scale pays for nothing";
}

struct Small {
  explicit Small(FlatOptions o = {.compute = DType::f16, .separate = true, .loss_scale = 64})
      : params({{"w", w}, {"b", b}}, {}, o) {}
  Tensor w = Tensor::from(std::vector<float>{.5f, -1.25f, 2, .1f, -.3f, .75f}, {2, 3}),
         b = Tensor::from(std::vector<float>{.2f, -.4f}, {2});
  FlatParams params;
  void gradient(int step, float first = 0) {
    params.settle_grads();
    for (NamedTensor& g : params.windows(params.grads())) {
      int i = 0;
      for (float& v : g.tensor.span<float>())
        v = params.loss_scale() * static_cast<float>((i++ * 7 + step * 5) % 11 - 5) * .3f;
    }
    if (first != 0) params.windows(params.grads())[0].tensor.span<float>()[1] = first;
  }
  std::vector<float> values() const {
    return {params.values().span<float>().begin(), params.values().span<float>().end()};
  }
  std::vector<float> read() const {
    const Tensor all = w.to(DType::f32);
    return {all.span<float>().begin(), all.span<float>().end()};
  }
};
bool equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::ranges::equal(a, b, [](const NamedTensor& x, const NamedTensor& y) {
    return std::memcmp(x.tensor.data(), y.tensor.data(), x.tensor.bytes()) == 0;
  });
}

TEST(Overflow, LeavesOutExactlyThatStep) {
  for (const auto& [name, passes] : {std::pair{"sgd", false},
                                     {"adam", false},
                                     {"adamw", false},
                                     {"accum-adam", false},
                                     {"muon", false},
                                     {"muon", true},
                                     {"sgd", true},
                                     {"adam", true},
                                     {"adamw", true},
                                     {"accum-adam", true}})
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")})
      for (const int when : {0, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << name << (passes ? " by passes " : " by loops ") << bad << " at " << when);
        Small with, without;
        const OptimizerOptions o{.weight_decay = .1, .period = 2};
        const UseBackend use(passes ? "cuda_emulated" : backend(Device::cpu()).name());
        const auto a = make_optimizer(name, with.params, o),
                   b = make_optimizer(name, without.params, o);
        for (int step = 0; step < 6; ++step) {
          if (step == when) {
            with.gradient(99, bad);
            a->step(.05f, nullptr, {.5, .4});
            EXPECT_TRUE(with.params.skips_step());
            EXPECT_EQ(with.params.skipped_steps(), 1);
            EXPECT_EQ(with.values(), without.values());
          }
          with.gradient(step), without.gradient(step);
          const GradientScale scale{.factor = .5, .clip = step % 2 ? .4 : 0};
          a->step(.05f, nullptr, scale), b->step(.05f, nullptr, scale);
          ASSERT_FALSE(with.params.skips_step());
        }
        EXPECT_EQ(with.params.skipped_steps(), 1);
        EXPECT_EQ(without.params.skipped_steps(), 0);
        EXPECT_EQ(with.values(), without.values());
        EXPECT_EQ(with.read(), without.read());
        EXPECT_TRUE(equal(a->state(), b->state()))
            << "momentum and the like, and the steps that were taken";
      }
}

// A2CiD2's mixing is no part of the gradient: time goes on while a step is left out.
TEST(Overflow, MixesAllTheSame) {
  for (const char* name : {"sgd", "adamw"}) {
    Small m;
    const auto optimizer = make_optimizer(name, m.params, {.weight_decay = .1});
    Twin twin{Tensor::full({m.params.size()}, 3), 0.75f, 0.25f};
    Tensor x = m.params.values().clone(), y = twin.values.clone();
    mix(x, y, 0.75f, 0.25f);
    m.gradient(1, std::nanf(""));
    optimizer->step(.05f, &twin);
    EXPECT_TRUE(std::ranges::equal(m.params.values().span<float>(), x.span<float>()));
    EXPECT_TRUE(std::ranges::equal(twin.values.span<float>(), y.span<float>()));
    EXPECT_EQ(m.read()[0], static_cast<float>(
                               f16(m.params.windows(m.params.values())[0].tensor.span<float>()[0])))
        << "the copy that layers read follows";
  }
}

// Eight parameters at a time, as on a GPU, read the flag where it lies, so nobody waits.
TEST(Overflow, LeavesOutTheSameInEveryWay) {
  for (const bool bad : {false, true})
    for (const bool adam : {false, true})
      for (const bool eight : {false, true}) {
        Small one, two;
        const i64 n = one.params.size();
        Tensor momentum = Tensor::full({n}, .5f), same = momentum.clone();
        AdamRule rule{Tensor::full({n}, .1f), Tensor::full({n}, .2f), {}, .1f},
            rule2{rule.first.clone(), rule.second.clone(), {}, .1f};
        UpdateBlocks blocks{Tensor::full({n}, 2), {}, {}}, blocks2{Tensor::full({n}, 2), {}, {}};
        if (eight) blocks2.own = blocks2.received = Tensor::zeros({n});
        for (Small* m : {&one, &two}) {
          m->gradient(2, bad ? std::numeric_limits<float>::infinity() : 0);
          find_overflow(m->params);
        }
        const StepNumbers numbers{
            .learning_rate = .05f,
            .grad_scale = .5f,
            .mix_c = .75f,
            .mix_s = .25f,
            .adam = AdamFactors<float>::at(3, 1, static_cast<double>(.05f), .9, .999, 1e-8)};
        if (adam) {
          gossamer::testing::plain_adam(one.params, rule, numbers, blocks);
          adam_pass(two.params, rule2, gossamer::testing::numbers_of(numbers), blocks2);
        } else {
          gossamer::testing::plain_sgd(one.params, {momentum, .9f, .1f}, numbers, blocks);
          sgd_pass(two.params, {same, .9f, .1f}, gossamer::testing::numbers_of(numbers), blocks2);
        }
        EXPECT_EQ(one.values(), two.values());
        EXPECT_EQ(one.read(), two.read());
        EXPECT_TRUE(equal({{"twin", blocks.twin},
                           {"momentum", momentum},
                           {"first", rule.first},
                           {"second", rule.second}},
                          {{"twin", blocks2.twin},
                           {"momentum", same},
                           {"first", rule2.first},
                           {"second", rule2.second}}));
        EXPECT_EQ(momentum.span<float>()[0] == .5f, bad || adam);
        EXPECT_EQ(rule.first.span<float>()[0] == .1f, bad || !adam);
      }
}

TEST(Overflow, HappensInF16WhenTheScaleIsTooLargeAndIsCounted) {
  const Curve run = train({.compute = DType::f16, .loss_scale = 0x1p24f}, 3),
              none = train({.compute = DType::f16, .loss_scale = 1024}, 0);
  EXPECT_EQ(run.skipped, 3);
  EXPECT_EQ(run.values, none.values) << "the initial values";
  EXPECT_TRUE(std::isfinite(run.losses.back()));
}

}  // namespace
}  // namespace gossamer::nn
