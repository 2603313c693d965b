// Adam and its relatives: against exact numbers, against PyTorch, against themselves in pieces and
// with a twin.
#include "gossamer/nn/optim.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/ops.h"
#include "support/updates.h"

namespace gossamer::nn {
namespace {

constexpr double kGradients[] = {1, -2, 3, .5, -1, 2, 1, 1};

// The formula alone, in double.
double after_steps(i64 period, std::span<const double> gradients) {
  double x = 1, first = 0, second = 0, sum = 0;
  i64 step = 0;
  for (const double g : gradients) {
    const auto factors = AdamFactors<double>::at(++step, period, 1e-3, .9, .999, 1e-8);
    x -= period > 1 ? adam_direction<true>(factors, g, first, second, sum)
                    : adam_direction<false>(factors, g, first, second, sum);
  }
  return x;
}

TEST(Adam, T19_ExactNumbersInDouble) {
  EXPECT_NEAR(after_steps(1, kGradients), .997284368846, 1e-12);
  EXPECT_NEAR(after_steps(2, kGradients), .997159076068, 1e-12);
  EXPECT_NEAR(after_steps(4, kGradients), .995393811541, 1e-12);
  const std::vector<double> constant(40, 2.5);
  for (const i64 period : {1, 2, 3, 8})
    EXPECT_NEAR(after_steps(period, constant), 1 - 40 * 1e-3, 1e-9) << period;
}

// Two parameters, a matrix and a vector, whose gradients are written down.
struct Small {
  // more: elements of a second matrix
  explicit Small(FlatOptions o = {}, i64 more = 0)
      : params(more > 0 ? std::vector<NamedTensor>{{"w2", grow(more)}, {"w", w}, {"b", b}}
                        : std::vector<NamedTensor>{{"w", w}, {"b", b}},
               {}, o) {}
  Tensor grow(i64 more) {
    w2 = Tensor::full({2, more / 2}, .3f);
    return w2;
  }
  Tensor w = Tensor::from(std::vector<float>{.5f, -1.25f, 2, .1f, -.3f, .75f}, {2, 3}),
         b = Tensor::from(std::vector<float>{.2f, -.4f}, {2}), w2;
  FlatParams params;
  void gradient(int step) {
    params.settle_grads();
    for (NamedTensor& g : params.windows(params.grads())) {
      int i = 0;
      for (float& v : g.tensor.span<float>())
        v = static_cast<float>((i++ * 7 + step * 5) % 11 - 5) * .3f;
    }
  }
  std::vector<float> values() const {
    return {params.values().span<float>().begin(), params.values().span<float>().end()};
  }
};

// torch 1.13, float32: lr .05, betas (.8, .95), eps 1e-6, weight decay .1 on the matrix, six steps
// of the gradients above.
TEST(Adam, SixStepsMatchPyTorch) {
  struct Golden {
    const char* name;
    std::vector<float> w, b;
  };
  for (const Golden& golden :
       {Golden{"adam",
               {.535703f, -1.1984084f, 2.0138831f, -.05563771f, -.32140908f, .88431907f},
               {.24697518f, -.37631467f}},
        Golden{"adamw",
               {.53053671f, -1.1889594f, 2.0130203f, -.055725724f, -.31883436f, .87941647f},
               {.24697518f, -.37631467f}}}) {
    Small m;
    const auto adam = make_optimizer(
        golden.name, m.params, {.weight_decay = .1, .beta1 = .8, .beta2 = .95, .epsilon = 1e-6});
    EXPECT_STREQ(adam->name(), golden.name);
    for (int step = 0; step < 6; ++step) m.gradient(step), adam->step(.05f);
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(m.w.span<float>()[i], golden.w[i], 1e-6) << golden.name << " w " << i;
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(m.b.span<float>()[i], golden.b[i], 1e-6) << golden.name << " b " << i;
  }
}

TEST(Adam, T19_AccumulatedWithPeriod1IsAdamBitForBit) {
  Small plain, accumulated;
  const auto zeros = [&] { return Tensor::zeros({plain.params.size()}); };
  const AdamRule moments{zeros(), zeros(), {}, .1f}, with_sum{zeros(), zeros(), zeros(), .1f};
  for (int step = 0; step < 200; ++step) {
    plain.gradient(step), accumulated.gradient(step);
    const StepNumbers n{
        .learning_rate = .01f,
        .adam = AdamFactors<float>::at(step + 1, 1, static_cast<double>(.01f), .9, .999, 1e-8)};
    adam_pass(plain.params, moments, gossamer::testing::numbers_of(n));
    // a sum is there: the path of the accumulated form
    adam_pass(accumulated.params, with_sum, gossamer::testing::numbers_of(n));
    ASSERT_EQ(plain.values(), accumulated.values()) << step;
  }
}

TEST(Adam, AConstantGradientMovesEveryStepByTheLearningRate) {
  for (const i64 period : {1, 3, 4}) {
    Small m;
    Adam adam(m.params, {.period = period});
    for (int step = 1; step <= 20; ++step) {
      m.params.settle_grads();
      for (NamedTensor& g : m.params.windows(m.params.grads())) g.tensor.fill(-3);
      adam.step(.01f);
      EXPECT_NEAR(m.w.span<float>()[0], .5f + .01f * static_cast<float>(step), 2e-6)
          << period << " step " << step;
    }
  }
}

TEST(Optimizers, InPiecesEqualTheWholeAndATwinTakesTheSameUpdate) {
  for (const char* name : {"sgd", "adam", "adamw", "accum-adam", "accum-adamw"})
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(name);
      Small whole({.compute = type, .separate = true}, 60),
          pieces({.compute = type, .separate = true}, 60),
          twinned({.compute = type, .separate = true}, 60);
      const OptimizerOptions options{.weight_decay = .1, .period = 3};
      const auto a = make_optimizer(name, whole.params, options),
                 b = make_optimizer(name, pieces.params, options),
                 c = make_optimizer(name, twinned.params, options);
      const Twin twin{twinned.params.values().clone(), 1, 0};
      for (int step = 0; step < 8; ++step) {
        whole.gradient(step), pieces.gradient(step), twinned.gradient(step);
        a->step(.03f, nullptr, {.5});
        b->begin_step({.5});
        b->update({64, -1}, .03f);  // from within a matrix to the last vector
        b->update({0, 64}, .03f);
        c->step(.03f, &twin, {.5});
      }
      EXPECT_EQ(whole.values(), pieces.values());
      EXPECT_EQ(whole.values(), twinned.values());
      EXPECT_TRUE(
          std::ranges::equal(twin.values.span<float>(), twinned.params.values().span<float>()));
      const Tensor read = whole.w.to(DType::f32), read2 = pieces.w.to(DType::f32);
      EXPECT_TRUE(std::ranges::equal(read.span<float>(), read2.span<float>()))
          << "the copy that layers read";
      EXPECT_EQ(read.span<float>()[0], whole.params.windows(whole.params.values())[0]
                                           .tensor.to(type)
                                           .to(DType::f32)
                                           .span<float>()[0]);
    }
}

// The optimizers against plain loops, bit for bit, with whatever a step may bring, and in pieces.
TEST(Optimizers, ThePassIsThePlainLoopsBitForBit) {
  for (const char* name : {"sgd", "adam", "adamw", "accum-adam", "accum-adamw"})
    for (const FlatOptions flat : {FlatOptions{}, FlatOptions{.separate = true},
                                   FlatOptions{.compute = DType::bf16, .separate = true}})
      for (int what = 0; what < 8; ++what) {
        const bool with_twin = what & 1, late = what & 2, nesterov = what & 4;
        SCOPED_TRACE(::testing::Message()
                     << name << " in " << name_of(flat.compute) << " separate " << flat.separate
                     << " twin " << with_twin << " difference " << late);
        Small one(flat), two(flat), three(flat);
        const OptimizerOptions options{.weight_decay = .1, .nesterov = nesterov, .period = 3};
        const auto pass = make_optimizer(name, two.params, options),
                   pieces = make_optimizer(name, three.params, options);
        const i64 n = one.params.size(), border = one.params.decayed();
        const auto zeros = [&] { return Tensor::zeros({n}); };
        const bool accumulates = std::string(name).starts_with("accum");
        const SgdRule sgd{zeros(), .9f, .1f, nesterov};
        const AdamRule adam{zeros(), zeros(), accumulates ? zeros() : Tensor(), .1f,
                            std::string(name).ends_with("w")};
        Tensor twins[3] = {zeros(), zeros(), zeros()};
        Difference difference{zeros(), zeros(), .5f, .7f};
        for (i64 i = 0; i < n; ++i) {
          difference.own.as<float>()[i] = static_cast<float>(i % 7) * .1f;
          difference.received.as<float>()[i] = static_cast<float>(i % 5) * -.2f;
        }
        for (int step = 0; step < 7; ++step) {
          one.gradient(step), two.gradient(step), three.gradient(step);
          const float rate = .05f / static_cast<float>(step + 1),
                      c = .9f - .05f * static_cast<float>(step);
          // clips, or not
          const GradientScale scale{.factor = step % 2 ? .25 : 1,
                                    .clip = step % 3 == 2   ? 1.5
                                            : step % 3 == 0 ? 100
                                                            : 0};
          const Twin twin[3] = {{twins[0], c, 1 - c}, {twins[1], c, 1 - c}, {twins[2], c, 1 - c}};
          const Difference* arrived = late && step % 3 == 1 ? &difference : nullptr;
          const double norm = scale.factor * std::sqrt(squared_gradient(one.params));
          const StepNumbers numbers{
              .learning_rate = rate,
              .grad_scale = static_cast<float>(scale.clip > 0 && norm > scale.clip
                                                   ? scale.factor * scale.clip / norm
                                                   : scale.factor),
              .mix_c = c,
              .mix_s = 1 - c,
              .jump_x = .5f,
              .jump_twin = .7f,
              .jump = arrived != nullptr,
              .adam = AdamFactors<float>::at(step + 1, accumulates ? 3 : 1,
                                             static_cast<double>(rate), .9, .999, 1e-8)};
          const UpdateBlocks blocks{with_twin ? twins[0] : Tensor(), difference.own,
                                    difference.received};
          if (std::string(name) == "sgd")
            gossamer::testing::plain_sgd(one.params, sgd, numbers, blocks);
          else
            gossamer::testing::plain_adam(one.params, adam, numbers, blocks);
          pass->step(rate, with_twin ? &twin[1] : nullptr, scale, arrived);
          pieces->begin_step(scale);
          pieces->update({border, -1}, rate, with_twin ? &twin[2] : nullptr, arrived);
          pieces->update({0, border}, rate, with_twin ? &twin[2] : nullptr, arrived);
          for (Small* other : {&two, &three}) {
            ASSERT_EQ(one.values(), other->values()) << step;
            const Tensor read = one.w.to(DType::f32), theirs = other->w.to(DType::f32);
            ASSERT_TRUE(std::ranges::equal(read.span<float>(), theirs.span<float>()))
                << "the copy that layers read, step " << step;
            ASSERT_TRUE(std::ranges::equal(one.b.span<float>(), other->b.span<float>())) << step;
          }
          for (const Tensor& t : {twins[1], twins[2]})
            ASSERT_TRUE(std::ranges::equal(twins[0].span<float>(), t.span<float>())) << step;
          const std::vector<Tensor> want = std::string(name) == "sgd"
                                               ? std::vector<Tensor>{sgd.momentum}
                                               : std::vector<Tensor>{adam.first, adam.second};
          const auto got = pass->state();
          for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(std::memcmp(want[i].data(), got[i].tensor.data(), want[i].bytes()), 0)
                << got[i].name;
        }
      }
}

TEST(Optimizers, WhatAPassCannotDoIsSaid) {
  Small m;
  Sgd sgd(m.params);
  EXPECT_THROW(sgd.update({}, .1f), Error) << "without begin_step";
  sgd.begin_step();
  Difference difference{Tensor::zeros({m.params.size()}), Tensor::zeros({m.params.size()}), 1, 1};
  EXPECT_THROW(sgd.update({17, -1}, .1f), ShapeError) << "not at a parameter's edge";
  difference.received = Tensor();
  EXPECT_THROW(sgd.step(.1f, nullptr, {}, &difference), ShapeError);
  difference = {Tensor(), Tensor::zeros({m.params.size()}), 1, 1};
  EXPECT_THROW(sgd.step(.1f, nullptr, {}, &difference), ShapeError);
}

// With the whole norm, whatever range is updated first; and never by more than `factor`.
TEST(Optimizers, BringTheNormOfGradientsDownToItsLimit) {
  for (const double clip : {0.0, .75, 1e3}) {
    SCOPED_TRACE(::testing::Message() << "clip " << clip);
    Small m;
    Sgd sgd(m.params, {.momentum = 0});
    const std::vector<float> before = m.values();
    m.gradient(3);
    const double factor = .5, norm = factor * std::sqrt(squared_norm(m.params.grads()));
    ASSERT_GT(norm, .75);
    sgd.step(1, nullptr, {factor, clip});
    double moved = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
      moved += std::pow(static_cast<double>(m.values()[i]) - static_cast<double>(before[i]), 2);
    EXPECT_NEAR(std::sqrt(moved), clip == .75 ? clip : norm, 1e-6 * norm);
  }
}

// A gradient that no backward reached counts as zero.
TEST(Optimizers, AParameterWithoutAGradientOnlyDecays) {
  Small m;
  Sgd sgd(m.params, {.momentum = 0, .weight_decay = .5f});
  m.gradient(1);
  m.params.zero_grad();
  sgd.step(.1f);
  EXPECT_NEAR(m.w.span<float>()[0], .5f * .95f, 1e-6f);
  EXPECT_EQ(m.b.span<float>()[0], .2f);
}

TEST(Optimizers, GoOnFromTheirSavedState) {
  for (const char* name : {"sgd", "adamw", "accum-adam"}) {
    Small through, first, second;
    const auto a = make_optimizer(name, through.params), b = make_optimizer(name, first.params),
               c = make_optimizer(name, second.params);
    for (int step = 0; step < 9; ++step) through.gradient(step), a->step(.02f);
    for (int step = 0; step < 5; ++step) first.gradient(step), b->step(.02f);
    Tensor(second.params.values()).copy_from(first.params.values());
    const auto from = b->state(), to = c->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < to.size(); ++i) Tensor(to[i].tensor).copy_from(from[i].tensor);
    for (int step = 5; step < 9; ++step) second.gradient(step), c->step(.02f);
    EXPECT_EQ(through.values(), second.values()) << name;
  }
}

TEST(Optimizers, UnknownNamesAndImpossibleOptionsAreRefused) {
  Small m;
  try {
    make_optimizer("adamax", m.params);
    ADD_FAILURE();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("sgd, adam, adamw, accum-adam, accum-adamw"),
              std::string::npos);
  }
  EXPECT_THROW(Adam(m.params, {.beta1 = 1}), ConfigError);
  EXPECT_THROW(Adam(m.params, {.beta2 = -.1}), ConfigError);
  EXPECT_THROW(Adam(m.params, {.epsilon = 0}), ConfigError);
  EXPECT_THROW(Adam(m.params, {.weight_decay = -1}), ConfigError);
  EXPECT_THROW(Adam(m.params, {.period = 0}), ConfigError);
  EXPECT_THROW(Adam(m.params).update({}, .1f), Error) << "without begin_step";
  Sgd sgd(m.params);
  sgd.begin_step();
  EXPECT_THROW(sgd.update({0, m.params.size() + 1}, .1f), ShapeError);
}

// --- which part of the block has its gradients

TEST(Ready, BucketsAreReportedOnceWhenTheirLastGradientIsInAndInOrderOfBackward) {
  Tensor w1 = Tensor::full({4, 4}, .5f), w2 = Tensor::full({4, 4}, .5f),
         w3 = Tensor::full({4, 4}, .5f), unused = Tensor::full({4, 4}, 1);
  FlatParams params({{"0", unused}, {"1", w1}, {"2", w2}, {"3", w3}});
  const auto buckets = params.buckets(1);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].begin, 0);
  EXPECT_EQ(buckets[3].end, params.size());
  std::vector<std::size_t> seen;
  params.on_ready(buckets, [&](std::size_t i) {
    seen.push_back(i);
    EXPECT_NE(params.windows(params.grads())[i].tensor.span<float>()[0], 0) << "the gradient is in";
  });
  const auto backward = [&] {
    params.zero_grad();
    const Tensor x = Tensor::full({2, 4}, 1);
    sum(linear(linear(linear(linear(x, w1), w2), w3), w2)).backward();  // w2 twice
  };
  backward();
  EXPECT_TRUE(seen.empty()) << "nobody armed it";
  params.arm_ready();
  backward();
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1, 2}))
      << "w3, w2 after its second use, w1; the unused one never";
  backward();
  EXPECT_EQ(seen.size(), 3u) << "once";
  params.arm_ready();
  backward();
  EXPECT_EQ(seen.size(), 6u);
  params.on_ready({}, nullptr);
  params.arm_ready();
  backward();
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Ready, RangesMustNotCutAParameterAndBucketsHoldAboutTheirSize) {
  Tensor a = Tensor::full({100, 100}, 1), b = Tensor::full({10}, 1), c = Tensor::full({10, 10}, 1);
  FlatParams params({{"a", a}, {"b", b}, {"c", c}});
  EXPECT_THROW(params.on_ready({{0, 50}}, [](std::size_t) {}), ShapeError);
  EXPECT_EQ(params.buckets(1 << 20).size(), 1u);
  EXPECT_EQ(params.buckets(600).size(), 2u) << "c with a, then b: a bucket ends when it is full";
  EXPECT_THROW(params.buckets(0), ConfigError);
}

TEST(RateFactors, GiveEachParameterTheStepOfAnOptimizerWithThatRate) {
  for (const char* name : {"sgd", "adamw", "accum-adam"}) {
    Small three({}, 6), plain({}, 6), ten({}, 6);
    OptimizerOptions options{.weight_decay = .01, .nesterov = true, .period = 2};
    const auto a = make_optimizer(name, plain.params, options),
               b = make_optimizer(name, ten.params, options);
    options.factors = {{Selection("all but b"), 10}, {Selection("w2"), 1}};
    const auto with = make_optimizer(name, three.params, options);
    for (int step = 0; step < 3; ++step) {
      for (Small* s : {&three, &plain, &ten}) s->gradient(step);
      with->begin_step();
      for (const FlatRange& range : three.params.buckets(1)) with->update(range, .01f);
      a->step(.01f);
      b->step(.01f * 10.f);
    }
    const auto same = [](const Tensor& x, const Tensor& y) {
      return std::ranges::equal(x.span<float>(), y.span<float>());
    };
    EXPECT_TRUE(same(three.w2, plain.w2)) << name;
    EXPECT_TRUE(same(three.b, plain.b)) << name;
    EXPECT_TRUE(same(three.w, ten.w)) << name;
    EXPECT_FALSE(same(three.w, plain.w)) << name;
  }
}

TEST(RateFactors, OfNoParameterAreRefused) {
  Small s;
  EXPECT_THROW(make_optimizer("sgd", s.params, {.factors = {{Selection("fc"), 10}}}), ConfigError);
  EXPECT_THROW(make_optimizer("sgd", s.params, {.factors = {{Selection("w"), 0}}}), ConfigError);
}

TEST(OwnDecays, GiveEachMatrixTheStepOfAnOptimizerWithThatDecay) {
  for (const char* name : {"sgd", "adamw"}) {
    Small own({}, 6), plain({}, 6), more({}, 6);
    OptimizerOptions options{.weight_decay = .01};
    const auto a = make_optimizer(name, plain.params, options);
    options.weight_decay = .5;
    const auto b = make_optimizer(name, more.params, options);
    options.weight_decay = .01;
    options.decays = {parse_own_decay("w=0.5"), parse_own_decay("b=0.5")};
    const auto with = make_optimizer(name, own.params, options);
    for (int step = 0; step < 3; ++step) {
      for (Small* s : {&own, &plain, &more}) s->gradient(step);
      with->begin_step();
      for (const FlatRange& range : own.params.buckets(1)) with->update(range, .01f);
      a->step(.01f);
      b->step(.01f);
    }
    const auto same = [](const Tensor& x, const Tensor& y) {
      return std::ranges::equal(x.span<float>(), y.span<float>());
    };
    EXPECT_TRUE(same(own.w2, plain.w2)) << name;
    EXPECT_TRUE(same(own.w, more.w)) << name;
    EXPECT_FALSE(same(own.w, plain.w)) << name;
    EXPECT_TRUE(same(own.b, plain.b)) << name;  // a bias has none
  }
}

TEST(OwnDecays, AreReadAsPatternAndNumber) {
  EXPECT_EQ(parse_own_decay("fc, conv1=0.25").weight_decay, .25);
  for (const char* wrong : {"fc", "fc=", "fc=-1", "fc=x", "=1", "fc=inf"})
    EXPECT_THROW(parse_own_decay(wrong), ConfigError) << wrong;
  for (const char* wrong : {"fc", "fc=0", "fc=1e7", "=1", "fc=nan"})
    EXPECT_THROW(parse_rate_factor(wrong), ConfigError) << wrong;
}

}  // namespace
}  // namespace gossamer::nn
