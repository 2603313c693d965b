// The layers GroupNorm and EvoNorm: names, initial values, their ops, and what they refuse.
#include "gossamer/nn/group_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

using nn::EvoNorm;
using nn::GroupNorm;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const NamedTensor& t : module.state()) out.push_back(t.name);
  return out;
}
float first(const nn::Module& module, std::size_t parameter) {
  return module.parameters()[parameter].tensor.span<float>()[0];
}
Tensor some() {
  Rng rng(3);
  Tensor x = Tensor::empty({2, 3, 3, 6});
  for (float& v : x.span<float>()) v = rng.normal();
  return x;
}
void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.numel()); ++i)
    ASSERT_EQ(a.span<float>()[i], b.span<float>()[i]) << i;
}

TEST(GroupNormLayer, HasTorchsNamesAndInitialValuesAndNoBuffers) {
  const GroupNorm norm(6, {.groups = 3});
  EXPECT_THAT(names(norm), ElementsAre("weight", "bias"));
  EXPECT_EQ(first(norm, 0), 1);
  EXPECT_EQ(first(norm, 1), 0);
  EXPECT_EQ(first(GroupNorm(6, {.zero_scale = true}), 0), 0);
}

TEST(GroupNormLayer, IsItsOpWithItsGroupsAndEps) {
  GroupNorm norm(6, {.groups = 3, .eps = 0.5f});
  const Tensor x = some(), one = Tensor::full({6}, 1), zero = Tensor::zeros({6});
  expect_equal(norm(x), group_norm(x, one, zero, {.groups = 3, .eps = 0.5f}));
  norm.eval();
  expect_equal(norm(x), group_norm(x, one, zero, {.groups = 3, .eps = 0.5f}));
}

TEST(EvoNormLayer, HasATrainedGateThatBeginsWithOne) {
  EvoNorm norm(6, {.groups = 2});
  EXPECT_THAT(names(norm), ElementsAre("weight", "bias", "v"));
  EXPECT_EQ(first(norm, 0), 1);
  EXPECT_EQ(first(norm, 1), 0);
  EXPECT_EQ(first(norm, 2), 1);
  norm.parameters()[2].tensor.span<float>()[0] = 3;
  Tensor v = Tensor::full({6}, 1);
  v.span<float>()[0] = 3;
  const Tensor x = some();
  expect_equal(norm(x), evonorm_s0(x, v, Tensor::full({6}, 1), Tensor::zeros({6}), {.groups = 2}));
}

template <class Layer>
std::string refusal(i64 channels, nn::GroupNormLayerOptions options) {
  try {
    const Layer layer(channels, options);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "none";
}

TEST(GroupNormLayer, RefusesGroupsThatDoNotDivideTheChannels) {
  EXPECT_THAT(refusal<GroupNorm>(6, {.groups = 4}), HasSubstr("GroupNorm: 6 channels, 4 groups"));
  EXPECT_THAT(refusal<EvoNorm>(6, {.groups = 0}), HasSubstr("EvoNorm: 6 channels, 0 groups"));
  EXPECT_THAT(refusal<EvoNorm>(0, {}), HasSubstr("EvoNorm: 0 channels"));
  EXPECT_THAT(refusal<GroupNorm>(6, {.eps = 0}), HasSubstr("eps 0"));
}

}  // namespace
}  // namespace gossamer
