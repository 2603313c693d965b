// Sizes, names and errors of the models.
#include "gossamer/models/resnet.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/init.h"

namespace gossamer {
namespace {

i64 count(const nn::Module& module) {
  i64 n = 0;
  for (const NamedTensor& p : module.parameters()) n += p.tensor.numel();
  return n;
}

std::set<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> out;
  for (const NamedTensor& t : tensors) out.insert(t.name);
  return out;
}

TEST(ResNet, EveryModelHasThePublishedNumberOfParameters) {
  const std::map<std::string, i64> wanted{{"resnet18", 11'689'512},
                                          {"resnet34", 21'797'672},
                                          {"resnet50", 25'557'032},
                                          {"resnet101", 44'549'160},
                                          {"resnet152", 60'192'808},
                                          {"resnet18-cifar", 11'173'962},
                                          {"resnet8-cifar", 75'290},
                                          {"resnet20-cifar", 269'722},
                                          {"resnet32-cifar", 464'154},
                                          {"resnet56-cifar", 853'018},
                                          {"resnet8-groupnorm-cifar", 75'290},
                                          {"resnet20-groupnorm-cifar", 269'722},
                                          {"resnet8-evonorm-cifar", 75'418},
                                          {"resnet20-evonorm-cifar", 270'074}};
  std::set<std::string> seen;
  for (const models::ModelInfo& info : models::family_of("resnet18").models) {
    ASSERT_TRUE(wanted.contains(info.name)) << info.name;
    const auto model = models::make(info.name);
    EXPECT_EQ(count(*model), wanted.at(info.name)) << info.name;
    seen.insert(info.name);
  }
  EXPECT_EQ(seen.size(), wanted.size());
}

// Its state as a file holds it: convolutions are OIHW.
std::vector<NamedTensor> in_file_layout(const nn::Module& module) {
  std::vector<NamedTensor> state = module.state();
  for (NamedTensor& t : state)
    if (const Shape s = t.tensor.shape(); s.rank() == 4)
      t.tensor = Tensor::empty({s[0], s[3], s[1], s[2]});
  return state;
}

TEST(ResNet, AnUnknownStateIsOfNoModel) {
  std::vector<NamedTensor> state = in_file_layout(*models::make("resnet18"));
  std::erase_if(state, [](const NamedTensor& t) { return t.name.starts_with("fc."); });
  ASSERT_TRUE(models::recognise(state).has_value());
  EXPECT_EQ(models::recognise(state)->name, "resnet18");
  EXPECT_EQ(models::recognise(state)->classes, 0);
  std::erase_if(state, [](const NamedTensor& t) { return t.name.starts_with("layer4.1."); });
  EXPECT_FALSE(models::recognise(state).has_value());
  EXPECT_FALSE(models::recognise({}).has_value());
  EXPECT_FALSE(models::recognise({{"layer1.0.conv1.weight", Tensor::zeros({4})}}).has_value());
}

TEST(ResNet, ResNet50Has320StateEntriesWithTorchvisionsNames) {
  const auto model = models::make("resnet50");
  EXPECT_EQ(model->parameters().size(), 161u);
  EXPECT_EQ(model->buffers().size(), 159u);
  const auto state = model->state();
  ASSERT_EQ(state.size(), 320u);
  const std::set<std::string> all = names(state);
  EXPECT_EQ(all.size(), 320u);
  for (const char* name : {"conv1.weight", "bn1.num_batches_tracked",
                           "layer1.0.downsample.0.weight", "layer1.0.downsample.1.running_var",
                           "layer2.3.conv3.weight", "layer4.2.bn3.bias", "fc.weight", "fc.bias"})
    EXPECT_TRUE(all.contains(name)) << name;
  // torch's state_dict order: own parameters, own buffers, children.
  EXPECT_EQ(state[0].name, "conv1.weight");
  EXPECT_EQ(state[1].name, "bn1.weight");
  EXPECT_EQ(state[3].name, "bn1.running_mean");
  EXPECT_EQ(state[5].name, "bn1.num_batches_tracked");
  EXPECT_EQ(state[6].name, "layer1.0.conv1.weight");
}

TEST(ResNet, ResNet18Has122StateEntriesAndNoDownsampleInItsFirstStage) {
  const auto model = models::make("resnet18");
  const std::set<std::string> all = names(model->state());
  EXPECT_EQ(all.size(), 122u);
  EXPECT_FALSE(all.contains("layer1.0.downsample.0.weight"));
  EXPECT_TRUE(all.contains("layer2.0.downsample.0.weight"));
}

TEST(ResNet, CifarFormsUseTheParameterFreeShortcut) {
  const auto small = models::make("resnet20-cifar");
  for (const std::string& name : names(small->state()))
    EXPECT_EQ(name.find("downsample"), std::string::npos) << name;
  EXPECT_TRUE(
      names(models::make("resnet18-cifar")->state()).contains("layer2.0.downsample.0.weight"));
}

TEST(ResNet, LogitsHaveOneRowPerImageForAnyImageSize) {
  const NoGrad no_grad;
  nn::seed_initialisation(1);
  const auto small = models::make("resnet8-cifar", {.classes = 7});
  for (const i64 size : {32, 33, 64})
    EXPECT_EQ((*small)(Tensor::zeros({2, size, size, 3})).shape(), (Shape{2, 7}));
  const auto large = models::make("resnet18", {.classes = 5});
  EXPECT_EQ((*large)(Tensor::zeros({1, 64, 64, 3})).shape(), (Shape{1, 5}));
}

TEST(ResNet, ZeroInitResidualStartsTheLastNormOfEachBlockAtZeroAndNoOther) {
  const auto model = models::make("resnet50", {.zero_init_residual = true});
  for (const auto& [name, tensor] : model->parameters())
    if (tensor.rank() == 1 && name.ends_with(".weight")) {
      const bool last = name.ends_with("bn3.weight");
      EXPECT_EQ(tensor.as<float>()[0], last ? 0.f : 1.f) << name;
    }
}

// All kinds of block, stem and shortcut: an image's logits do not depend on the rest of the batch.
TEST(ResNet, WithoutBatchNormNothingIsKeptOfABatch) {
  const NoGrad no_grad;
  for (const models::ResNetNorm norm : {models::ResNetNorm::group, models::ResNetNorm::evo})
    for (const bool bottleneck : {false, true})
      for (const bool cifar : {false, true}) {
        nn::seed_initialisation(1);
        const auto net = models::resnet({.blocks = {1, 2},
                                         .widths = {8, 16},
                                         .bottleneck = bottleneck,
                                         .imagenet_stem = !cifar,
                                         .pad_shortcut = cifar,
                                         .classes = 5,
                                         .norm = norm});
        EXPECT_TRUE(net->buffers().empty());
        EXPECT_EQ(names(net->state()).contains("layer2.0.norm1.v"),
                  norm == models::ResNetNorm::evo);
        Tensor x = nn::normal({3, 32, 32, 3}, 0, 1, nn::init_rng());
        const Tensor all = (*net)(x), one = (*net)(x.slice(1, 2));
        for (std::size_t k = 0; k < 5; ++k)
          EXPECT_NEAR(all.span<float>()[5 + k], one.span<float>()[k], 1e-5f);
      }
}

TEST(ResNet, EvoNormStandsWhereANonlinearityFollowsAndGroupNormElsewhere) {
  const auto state = names(models::make("resnet8-evonorm-cifar")->state());
  for (const char* name :
       {"norm1.v", "layer1.0.norm1.v", "layer3.0.norm1.v", "layer3.0.norm2.weight"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_FALSE(state.contains("layer3.0.norm2.v"));
  const auto net = models::make("resnet8-evonorm-cifar", {.zero_init_residual = true});
  for (const auto& [name, tensor] : net->parameters())
    if (name.ends_with(".weight") && tensor.rank() == 1)
      EXPECT_EQ(tensor.as<float>()[0], name.ends_with("norm2.weight") ? 0.f : 1.f) << name;
}

// Without its running statistics a batch norm has the tensors of a group norm.
TEST(ResNet, ABatchNormWithoutStatisticsIsNotTakenForAGroupNorm) {
  std::vector<NamedTensor> state = in_file_layout(*models::make("resnet20-cifar"));
  std::erase_if(state, [](const NamedTensor& t) {
    return t.name.find("running") != t.name.npos || t.name.find("tracked") != t.name.npos;
  });
  ASSERT_TRUE(models::recognise(state).has_value());
  EXPECT_EQ(models::recognise(state)->name, "resnet20-cifar");
}

TEST(ResNet, WithEvoNormTrainsInBfloat) {
  nn::seed_initialisation(1);
  const auto net = models::make("resnet8-evonorm-cifar");
  FlatParams params(net->parameters(), net->buffers(), {.compute = DType::bf16});
  const Tensor x = cast(nn::normal({2, 32, 32, 3}, 0, 1, nn::init_rng()), DType::bf16);
  const Tensor logits = (*net)(x);
  EXPECT_EQ(logits.dtype(), DType::bf16);
  params.zero_grad();
  cross_entropy(logits, Tensor::from(std::vector<std::int32_t>{1, 2}, {2})).backward();
  for (const NamedTensor& g : params.windows(params.grads())) {
    float sum = 0;
    for (const float v : g.tensor.span<float>()) sum += std::fabs(v);
    EXPECT_TRUE(std::isfinite(sum) && sum > 0) << g.name;
  }
}

TEST(ResNet, TheSameSeedGivesTheSameWeightsAndAnotherSeedOthers) {
  const auto first = [](std::uint64_t seed) {
    return models::make("resnet8-cifar", {.seed = seed})->parameters()[0].tensor.as<float>()[0];
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(ResNet, BfloatWeightsWantABfloatInputAndTheErrorSaysHow) {
  const auto model = models::make("resnet8-cifar");
  FlatParams params(model->parameters(), model->buffers(), {.compute = DType::bf16});
  const Tensor x = Tensor::full({2, 32, 32, 3}, 0.5f);
  try {
    (*model)(x);
    FAIL() << "an f32 image went through bf16 weights";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cast(x, DType::bf16)"));
  }
  const Tensor logits = (*model)(cast(x, DType::bf16));
  EXPECT_EQ(logits.shape(), (Shape{2, 10}));
}

TEST(ResNet, AnImageWithoutThreeChannelsIsRefusedWithItsShape) {
  const auto model = models::make("resnet8-cifar");
  try {
    (*model)(Tensor::zeros({2, 3, 32, 32}));
    FAIL() << "NCHW images went through";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("[2, 3, 32, 32]"));
  }
}

TEST(ResNet, OptionsThatDescribeNoNetworkAreRefused) {
  EXPECT_THROW(models::resnet({.blocks = {}, .widths = {}}), ConfigError);
  EXPECT_THROW(models::resnet({.blocks = {1, 1}, .widths = {16}}), ConfigError);
  EXPECT_THROW(models::resnet({.blocks = {0}, .widths = {16}}), ConfigError);
  EXPECT_THROW(models::resnet({.classes = 0}), ConfigError);
}

}  // namespace
}  // namespace gossamer
