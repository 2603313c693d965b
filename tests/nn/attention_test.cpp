// The layers of transformers: what they compute, their caches, their errors.
#include "gossamer/nn/attention.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/nn/init.h"
#include "support/use_backend.h"

namespace gossamer::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor noise(Shape shape, std::uint64_t seed) {
  Rng rng(seed);
  return normal(shape, 0, 1, rng);
}
std::vector<float> list(const Tensor& t) {
  return {t.span<float>().begin(), t.span<float>().end()};
}
void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], 3e-6f) << "element " << i;
}
std::vector<std::string> names(const Module& module) {
  std::vector<std::string> all;
  for (const NamedTensor& t : module.parameters()) all.push_back(t.name);
  return all;
}

TEST(EmbeddingLayer, GivesRowsOfItsWeight) {
  Embedding layer(5, 3, 0.02f);
  const Tensor y = layer(Tensor::from(std::vector<std::int32_t>{4, 0}, {1, 2}));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(list(y.detach().reshape({2, 3}).slice(0, 1)),
            list(layer.weight().detach().slice(4, 5)));
  for (const float v : layer.weight().span<float>()) EXPECT_LT(std::fabs(v), 0.2f);
  EXPECT_THROW(Embedding(0, 3), ConfigError);
}

TEST(LayerNormLayer, StartsAsThePlainNormalisation) {
  LayerNorm layer(50);
  EXPECT_THAT(names(layer), ElementsAre("weight", "bias"));
  EXPECT_THAT(names(LayerNorm(4, {.bias = false})), ElementsAre("weight"));
  const Tensor x = noise({4, 50}, 1), add = noise({4, 50}, 2);
  const Tensor y = layer(x);
  EXPECT_NEAR(mean(y).item(), 0, 1e-6);
  EXPECT_NEAR(mean(square(y)).item(), 1, 1e-4);
  const NormedSum both = layer.of_sum(x, add);
  expect_near(both.sum.detach(), gossamer::add(x, add));
  expect_near(both.y.detach(), layer(gossamer::add(x, add)).detach());
}

TEST(SelfAttentionLayer, ByStepsGivesWhatItGivesTheWhole) {
  SelfAttention layer(12, {.heads = 3, .causal = true, .in = "c_attn", .out = "c_proj"});
  EXPECT_THAT(names(layer),
              ElementsAre("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"));
  layer.eval();
  const Tensor x = noise({2, 7, 12}, 1);
  const Tensor whole = layer(x).detach();
  const Tensor cache = layer.cache(2, 7);
  const auto tokens = [&](const Tensor& of, i64 begin, i64 end) {
    std::vector<float> some;
    for (i64 b = 0; b < 2; ++b)
      for (i64 i = begin * 12; i < end * 12; ++i) some.push_back(of.as<float>()[b * 84 + i]);
    return Tensor::from(some, {2, end - begin, 12});
  };
  for (const auto& [begin, end] : {std::pair<i64, i64>{0, 4}, {4, 5}, {5, 7}})
    expect_near(layer.step(tokens(x, begin, end), cache, begin), tokens(whole, begin, end));
  try {
    layer.step(tokens(x, 0, 1), cache, 7);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cache of 7"));
  }
}

// What lies behind the tokens was never written; it may be anything, also NaN.
TEST(SelfAttentionLayer, ReadsNothingBehindTheTokensInItsCache) {
  SelfAttention layer(64, {.heads = 4, .causal = true});
  layer.eval();
  const Tensor first = noise({2, 3, 64}, 1), next = noise({2, 1, 64}, 2);
  for (const std::string& name : backend_names()) {
    SCOPED_TRACE(name);
    const UseBackend use(name);
    const Tensor clean = layer.cache(2, 40);
    Tensor other = layer.cache(2, 40);
    for (const float v : clean.span<float>()) ASSERT_EQ(v, 0) << "a cache begins with zeros";
    other.fill(NAN);
    EXPECT_EQ(list(layer.step(first, other, 0)), list(layer.step(first, clean, 0)));
    EXPECT_EQ(list(layer.step(next, other, 3)), list(layer.step(next, clean, 3)));
    TextPositions positions(2, {});
    positions.move_to(4);
    EXPECT_EQ(list(layer.step(next, other, positions)), list(layer.step(next, clean, positions)));
  }
}

TEST(SelfAttentionLayer, FindsThePositionsOfTheTextsOnTheDevice) {
  SelfAttention layer(12, {.heads = 3, .causal = true});
  layer.eval();
  const Tensor x = noise({2, 5, 12}, 1), one = layer.cache(2, 7), two = layer.cache(2, 7);
  TextPositions positions(2, {});
  layer.step(x, one, 0), layer.step(x, two, 0);
  positions.move_to(5);
  for (i64 at = 5; at < 7; ++at, positions.advance()) {
    const Tensor next = noise({2, 1, 12}, static_cast<std::uint64_t>(at));
    EXPECT_EQ(list(layer.step(next, two, positions)), list(layer.step(next, one, at)));
  }
  EXPECT_THROW(layer.step(x, two, positions), ShapeError) << "one token of each text";
}

TEST(SelfAttentionLayer, DropsWeightsInTrainingOnly) {
  SelfAttention layer(8, {.heads = 2, .dropout = 0.5f});
  const Tensor x = noise({1, 6, 8}, 1);
  EXPECT_NE(list(layer(x)), list(layer(x)));
  layer.eval();
  EXPECT_EQ(list(layer(x)), list(layer(x)));
  EXPECT_THROW(SelfAttention(8, {.heads = 3}), ConfigError);
}

TEST(CrossAttentionLayer, SeesTheMemoryUpToItsLength) {
  CrossAttention layer(8, {.heads = 2});
  const Tensor x = noise({1, 3, 8}, 1), lengths = Tensor::from(std::vector<std::int32_t>{2}, {1});
  Tensor memory = noise({1, 4, 8}, 2);
  const Tensor y = layer.apply(x, layer.keys_values(memory), lengths);
  for (i64 i = 16; i < 32; ++i) memory.as<float>()[i] = 3;
  EXPECT_EQ(list(layer.apply(x, layer.keys_values(memory), lengths)), list(y));
  EXPECT_NE(list(layer.apply(x, layer.keys_values(memory), {})), list(y));
}

TEST(DropoutLayer, AddsToAResidualInOnePass) {
  Dropout one(0.5f, 3), two(0.5f, 3);
  const Tensor x = noise({5, 4}, 1), residual = noise({5, 4}, 2);
  EXPECT_EQ(list(one.add_to(residual, x)), list(add(residual, two(x))));
  one.eval();
  EXPECT_EQ(list(one.add_to(residual, x)), list(add(residual, x)));
}

TEST(SinusoidalPositions, AreThoseOfVaswaniEtAl) {
  const Tensor p = sinusoidal_positions(3, 4);
  const double slow = 2 / std::pow(10000.0, 0.5);
  const std::vector<float> row{static_cast<float>(std::sin(2.0)), static_cast<float>(std::cos(2.0)),
                               static_cast<float>(std::sin(slow)),
                               static_cast<float>(std::cos(slow))};
  EXPECT_EQ(list(p.slice(0, 1)), (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(list(p.slice(2, 3)), row);
  EXPECT_THROW(sinusoidal_positions(3, 5), ShapeError);
}

}  // namespace
}  // namespace gossamer::nn
