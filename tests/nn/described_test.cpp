// Networks from text: what is read, what is made of it, and which line is wrong.
#include "gossamer/nn/described.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/nn/attention.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layer_text.h"
#include "gossamer/nn/layers.h"
#include "support/error_of.h"

namespace gossamer::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> out;
  for (const NamedTensor& t : tensors) out.push_back(t.name);
  return out;
}

TEST(LayerText, LayersStandOnLinesOrBeforeSemicolons) {
  const std::vector<LayerText> layers =
      parse_layers("\n relu ;; gelu\r\n\n head: linear out=3\tin=2 bias=false;\n");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].kind, "relu");
  EXPECT_EQ(layers[0].line, 2);
  EXPECT_EQ(layers[1].name, "1");
  EXPECT_EQ(layers[2].name, "head");
  EXPECT_EQ(layers[2].line, 4);
  const auto linear = layers[2].as<LinearText>();
  EXPECT_EQ(linear.in, 2);
  EXPECT_EQ(linear.out, 3);
  EXPECT_FALSE(linear.bias);
}

TEST(LayerText, GroupsAreInBraces) {
  const std::vector<LayerText> layers =
      parse_layers("residual { relu; residual {\n tanh } {}\n } { gelu }; sigmoid");
  ASSERT_EQ(layers.size(), 2u);
  ASSERT_EQ(layers[0].groups.size(), 2u);
  ASSERT_EQ(layers[0].groups[0].size(), 2u);
  EXPECT_EQ(layers[0].groups[0][1].groups[0][0].kind, "tanh");
  EXPECT_EQ(layers[0].groups[0][1].groups[0][0].line, 2);
  EXPECT_TRUE(layers[0].groups[0][1].groups[1].empty());
  EXPECT_EQ(layers[0].groups[1][0].kind, "gelu");
}

TEST(LayerText, WhatIsWrongIsNamedWithItsLine) {
  const auto error = [](const std::string& text) {
    return error_of<ConfigError>([&] { parse_layers(text); });
  };
  EXPECT_THAT(error(" ;\n"), HasSubstr("names no layer"));
  EXPECT_THAT(error("relu\n\nrelo"), HasSubstr("line 3: there is no layer relo"));
  EXPECT_THAT(error("relu gelu"), HasSubstr("line 1, relu: gelu"));
  EXPECT_THAT(error("relu p=1"), HasSubstr("it has none"));
  EXPECT_THAT(error("linear in=2"), HasSubstr("line 1, linear: out is missing; it must be 1 to "));
  EXPECT_THAT(error("linear in=2 out=0"), HasSubstr("line 1, linear: out 0; it must be 1 to "));
  EXPECT_THAT(error("linear in=2 outs=3"), HasSubstr("line 1, linear has no setting outs"));
  EXPECT_THAT(error("linear in=2 out=2.5"), HasSubstr("a whole number"));
  EXPECT_THAT(error("linear in=2 in=3 out=1"), HasSubstr("given twice"));
  EXPECT_THAT(error("dropout p=1"), HasSubstr("p 1"));
  EXPECT_THAT(error("relu { tanh }"), HasSubstr("takes no group"));
  EXPECT_THAT(error("residual"), HasSubstr("in braces"));
  EXPECT_THAT(error("residual { }"), HasSubstr("in braces"));
  EXPECT_THAT(error("residual { relu } { } { }"), HasSubstr("too many"));
  EXPECT_THAT(error("residual\n{ relu }"), HasSubstr("in braces"));
  EXPECT_THAT(error("residual {\n relu"), HasSubstr("line 1: { without its }"));
  EXPECT_THAT(error("residual { relu } relu"), HasSubstr("after }"));
  EXPECT_THAT(error("relu }"), HasSubstr("} without its {"));
  EXPECT_THAT(error("{ relu }"), HasSubstr("{ without a layer"));
  EXPECT_THAT(error("a: relu\na: gelu"), HasSubstr("line 2, gelu: two layers are called a"));
  EXPECT_THAT(error("a.b: relu"), HasSubstr("can't be called"));
  EXPECT_THAT(error("a:"), HasSubstr("no layer after its name a"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "residual { ";
  EXPECT_THAT(error(deep), HasSubstr("groups in each other"));
}

TEST(Described, IsTheNetworkThatItsLayersMake) {
  seed_initialisation(5);
  const auto net = make_described(
      "conv in=3 out=4 padding=1 stride=2; bn: batch_norm width=4; relu\n"
      "residual { conv in=4 out=4 padding=1 } { conv in=4 out=4 kernel=1 bias=true }\n"
      "flatten; fc: linear in=64 out=2");
  EXPECT_THAT(names(net->parameters()),
              ElementsAre("0.weight", "bn.weight", "bn.bias", "3.body.0.weight",
                          "3.shortcut.0.weight", "3.shortcut.0.bias", "fc.weight", "fc.bias"));
  EXPECT_THAT(names(net->buffers()),
              ElementsAre("bn.running_mean", "bn.running_var", "bn.num_batches_tracked"));
  // The same layers, with the same draws.
  seed_initialisation(5);
  Conv2d stem(3, 4, {.stride = 2, .padding = 1});
  BatchNorm norm(4);
  Conv2d body(4, 4, {.padding = 1}), shortcut(4, 4, {.kernel = 1, .bias = true});
  Linear head(64, 2);
  Rng rng(1);
  const Tensor x = normal({2, 8, 8, 3}, 0, 1, rng);
  const Tensor h = norm.apply(stem(x), true);
  const Tensor wanted = head(add(shortcut(h), body(h)).reshape({2, -1}));
  const Tensor y = (*net)(x);
  ASSERT_EQ(y.shape(), wanted.shape());
  for (i64 i = 0; i < y.numel(); ++i) EXPECT_EQ(y.as<float>()[i], wanted.as<float>()[i]);
}

TEST(Described, TokensGetPositionsAndAttention) {
  seed_initialisation(5);
  const auto net = make_described(
      "embedding rows=7 width=8; positions length=5 width=8\n"
      "residual { layer_norm width=8; attention width=8 heads=2 causal=true }\n"
      "dropout p=0.2; linear in=8 out=7");
  EXPECT_THAT(names(net->parameters()), testing::Contains("1.rows.weight"));
  const Tensor ids = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 1, 2, 6}, {2, 3});
  net->eval();
  const Tensor y = (*net)(ids);
  EXPECT_EQ(y.shape(), Shape({2, 3, 7}));
  // The two texts differ at their last token only, which no other one sees.
  for (i64 i = 0; i < 14; ++i) EXPECT_EQ(y.as<float>()[i], y.as<float>()[21 + i]);
  EXPECT_NE(y.as<float>()[14], y.as<float>()[35]);
  EXPECT_THAT(error_of<ShapeError>([&] {
                (*net)(Tensor::zeros({1, 6}, DType::i32));
              }),
              HasSubstr("at most 5"));
}

TEST(Described, LayersSayWhatIsWrongWithTheirSizes) {
  EXPECT_THROW(make_described("conv in=3 out=4 groups=2"), ConfigError);
  EXPECT_THROW(make_described("attention width=6 heads=4"), ConfigError);
}

}  // namespace
}  // namespace gossamer::nn
