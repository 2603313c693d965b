// What cuDNN would do on an H200, asked without one: every convolution of ResNet-50 gets a Hopper
// kernel with a small workspace. And plans as text: they come back.
#include <cstdio>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_plan.h"

namespace gossamer::cudnn {
namespace {

class Planning : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
    if (library_version().starts_with("not found")) GTEST_SKIP() << library_version();
  }
};

struct Layer {
  std::string name;
  ConvProblem problem;  // forward
};

// The 53 convolutions of ResNet-50 v1.5 (the stride sits on the 3x3) on 224 x 224 pictures; the
// stem as 4 x 4 convolution of 2 x 2 blocks of pixels, 12 channels padded to 16.
std::vector<Layer> resnet50(i64 batch, DType type) {
  std::vector<Layer> layers;
  const auto add = [&](const std::string& name, i64 size, i64 c, i64 k, i64 kernel, i64 stride,
                       i64 before, i64 after) {
    layers.push_back(
        {name,
         {ConvOp::forward, type, batch, size, size, c, k, kernel, kernel, stride, before, after}});
  };
  add("stem", 112, 16, 64, 4, 1, 2, 1);
  const int blocks[] = {3, 4, 6, 3};
  i64 in = 64, size = 56;
  for (int stage = 0; stage < 4; ++stage) {
    const i64 width = i64{64} << stage;
    for (int b = 0; b < blocks[stage]; ++b) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b) + ".";
      const i64 stride = stage > 0 && b == 0 ? 2 : 1;
      add(name + "conv1", size, in, width, 1, 1, 0, 0);
      add(name + "conv2", size, width, width, 3, stride, 1, 1);
      add(name + "conv3", size / stride, width, 4 * width, 1, 1, 0, 0);
      if (b == 0) add(name + "downsample", size, in, 4 * width, 1, stride, 0, 0);
      in = 4 * width;
      size /= stride;
    }
  }
  return layers;
}

class PlanningOf : public Planning, public testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, PlanningOf, testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return name_of(test.param); });
TEST_P(PlanningOf, ResNet50GivesEveryConvolutionAHopperKernelWithinTheWorkspaceOnAnH200) {
  const Planner planner = Planner::for_properties(h200_properties());
  const std::vector<Layer> layers = resnet50(256, GetParam());
  ASSERT_EQ(layers.size(), 53u);
  std::map<std::string, std::string> seen;  // problem -> first layer with it
  std::size_t searches = 0;
  std::printf(
      "cuDNN %s, H200, batch 256, %s: first plan with cluster knobs, and its place in cuDNN's "
      "list\n",
      library_version().c_str(), name_of(GetParam()));
  for (const Layer& layer : layers) {
    for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
      // nobody wants the gradient of the pictures
      if (op == ConvOp::backward_data && layer.name == "stem") continue;
      ConvProblem problem = layer.problem;
      problem.op = op;
      // added to the gradient of the shortcut
      problem.accumulate = op == ConvOp::backward_data;
      if (!seen.emplace(problem.key(), layer.name).second) continue;
      ++searches;
      const std::vector<ConvPlan> plans = planner.plans(problem);
      std::size_t place = 0;
      while (place < plans.size() && !(plans[place].clusters() && !plans[place].compiles()))
        ++place;
      ASSERT_LT(place, plans.size()) << layer.name << ", " << problem.key() << ": none of "
                                     << plans.size() << " plans is Hopper-native";
      EXPECT_LE(plans[place].workspace(), kWorkspaceCap);
      EXPECT_TRUE(plans[place].tensor_cores());
      std::printf("  %-18s %-58s %2zu of %2zu  %s\n", layer.name.c_str(), problem.key().c_str(),
                  place + 1, plans.size(), plans[place].describe().c_str());
    }
  }
  EXPECT_EQ(searches, 3 * 23u - 1);
}

TEST_F(Planning, PlansComeBackFromTheirText) {
  const Planner planner = Planner::for_properties(h200_properties());
  const auto plans =
      planner.plans({ConvOp::backward_filter, DType::bf16, 64, 14, 14, 256, 256, 3, 3, 1, 1, 1}, 3);
  ASSERT_EQ(plans.size(), 3u);
  for (const ConvPlan& plan : plans) {
    const ConvPlan again = planner.from_json(plan.json());
    ASSERT_TRUE(again.defined());
    EXPECT_EQ(again.workspace(), plan.workspace());
    EXPECT_EQ(again.engine(), plan.engine());
    EXPECT_EQ(again.json(), plan.json());
  }
  EXPECT_FALSE(planner.from_json("{\"not\": \"a plan\"}").defined());
  EXPECT_FALSE(planner.from_json("").defined());
}

TEST_F(Planning, F32PlansKeepTheirDigitsUnlessTf32IsAllowed) {
  const Planner planner = Planner::for_properties(h200_properties());
  ConvProblem problem{ConvOp::forward, DType::f32, 32, 28, 28, 128, 128, 3, 3, 1, 1, 1};
  const auto exact = planner.plans(problem);
  ASSERT_FALSE(exact.empty());
  for (const ConvPlan& plan : exact) EXPECT_FALSE(plan.tensor_cores()) << plan.describe();
  problem.tf32 = true;
  const auto fast = planner.plans(problem);
  ASSERT_FALSE(fast.empty());
  EXPECT_TRUE(fast[0].tensor_cores()) << fast[0].describe();
}

// cuDNN's first list may hold nothing but kernels that round products.
TEST_F(Planning, EveryConvolutionOfResNet50HasAnExactF32Plan) {
  const Planner planner = Planner::for_properties(h200_properties());
  for (const i64 batch : {4, 256})
    for (const Layer& layer : resnet50(batch, DType::f32))
      for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
        if (op == ConvOp::backward_data && layer.name == "stem") continue;
        ConvProblem problem = layer.problem;
        problem.op = op;
        EXPECT_FALSE(planner.plans(problem).empty()) << layer.name << ", " << problem.key();
      }
}

TEST_F(Planning, SaysWhatItWasAskedWhenCuDnnRefuses) {
  const Planner planner = Planner::for_properties(h200_properties());
  try {
    (void)planner.plans({ConvOp::forward, DType::u8, 1, 8, 8, 16, 16, 3, 3, 1, 1, 1});
    FAIL() << "u8 convolutions do not exist here";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("u8"), std::string::npos) << e.what();
  }
  EXPECT_THROW((void)Planner::for_properties("{}"), DeviceError);
}

TEST(ConvProblem, IsPaddedBehindAsTheGeometrySays) {
  const auto padding = [](const ConvGeometry& g) {
    const ConvProblem p = problem_of(ConvOp::forward, DType::bf16, g);
    EXPECT_EQ(p.ho(), g.ho);
    EXPECT_EQ(p.wo(), g.wo);
    return std::pair(p.pad_before, p.pad_after);
  };
  // the last column is not looked at
  EXPECT_EQ(padding({1, 56, 56, 64, 64, 3, 3, 28, 28, 2, 1, 1, 1}), std::pair(i64{1}, i64{1}));
  // the stem on pairs of pixels
  EXPECT_EQ(padding({1, 112, 112, 16, 64, 4, 4, 112, 112, 1, 2, 1, 1}), std::pair(i64{2}, i64{1}));
}

TEST(ConvProblem, NamesEverythingThatTellsItFromOthers) {
  const ConvProblem base{ConvOp::forward, DType::bf16, 8, 14, 15, 64, 128, 3, 5, 2, 1, 2, 1, 4,
                         false,           false};
  EXPECT_EQ(base.key(), "fprop bf16 n8 14x15x64 k128 3x5 s2 p1,2 d1 g4");
  EXPECT_EQ(base.ho(), 8);
  EXPECT_EQ(base.wo(), 7);
  std::vector<ConvProblem> others(15, base);
  others[0].op = ConvOp::backward_data, others[1].type = DType::f32, others[2].n = 9,
  others[3].h = 16, others[4].w = 16, others[5].c = 32;
  others[6].k = 64, others[7].r = 1, others[8].s = 3, others[9].stride = 1,
  others[10].pad_before = 0, others[11].pad_after = 1;
  others[12].dilation = 2, others[13].groups = 1, others[14].accumulate = true;
  for (const ConvProblem& other : others) EXPECT_NE(other.key(), base.key());
}

}  // namespace
}  // namespace gossamer::cudnn
