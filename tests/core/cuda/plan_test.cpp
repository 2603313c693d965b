// What cuDNN would do on an H200 and other GPUs, asked without one: every convolution of every
// model and of the list of ops has plans whose kernels ship with cuDNN. And plans as text: they
// come back.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/cuda/gpu_properties.h"
#include "core/cuda/model_convs.h"
#include "core/ops/op_cases.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_engine.h"
#include "gossamer/core/cuda/cudnn_plan.h"
#include "gossamer/models/registry.h"

namespace gossamer::cudnn {
namespace {

using testing::Form, testing::Layer, testing::form_of, testing::forms, testing::layers_of;
using testing::kH200;

class Planning : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
    if (library_version().starts_with("not found")) GTEST_SKIP() << library_version();
  }
};

TEST(PlanningTable, HasTheFiltersOfTheModels) {
  for (const Form& form : forms()) {
    std::vector<std::string> wanted, found;
    for (const NamedTensor& p : models::make(form.model)->parameters())
      if (p.tensor.rank() == 4) wanted.push_back(p.tensor.shape().str());
    for (const Layer& layer : layers_of(form, 1, DType::bf16)) {
      const ConvProblem& p = layer.problem;
      const bool pairs = form.imagenet && layer.name == "stem";
      found.push_back((pairs ? Shape{p.k, 7, 7, 3} : Shape{p.k, p.r, p.s, p.c}).str());
    }
    EXPECT_EQ(found, wanted) << form.model;
  }
}

class PlanningOf : public Planning, public ::testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, PlanningOf, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return name_of(test.param); });
TEST_P(PlanningOf, ResNet50GivesEveryConvolutionAHopperKernelWithinTheWorkspaceOnAnH200) {
  const Planner planner = Planner::for_properties(kH200);
  const std::vector<Layer> layers = layers_of(form_of("resnet50"), 256, GetParam());
  ASSERT_EQ(layers.size(), 53u);
  std::map<std::string, std::string> seen;  // problem -> first layer with it
  std::size_t searches = 0;
  std::printf(
      "cuDNN %s, H200, batch 256, %s: first plan with cluster knobs, and its place in cuDNN's "
      "list\n",
      library_version().c_str(), name_of(GetParam()));
  for (const Layer& layer : layers) {
    for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
      // the gradient of the pictures is not needed
      if (op == ConvOp::backward_data && layer.name == "stem") continue;
      ConvProblem problem = layer.problem;
      problem.op = op;
      // added to the gradient of the shortcut
      problem.accumulate = op == ConvOp::backward_data;
      if (!seen.emplace(problem.key(), layer.name).second) continue;
      ++searches;
      const std::vector<Plan> plans = planner.plans(problem);
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

// Whatever the GPU: a convolution has plans, and none of their kernels is compiled while the
// program runs.
class PlanningFor
    : public Planning,
      public ::testing::WithParamInterface<std::tuple<std::pair<const char*, std::string>, DType>> {
 protected:
  void expect_plans(const std::string& name, ConvProblem problem) {
    problem.type = std::get<DType>(GetParam());
    if (!seen_.insert(problem.key()).second) return;
    const std::vector<Plan> plans = planner().plans(problem);
    EXPECT_FALSE(plans.empty()) << name << ", " << problem.key();
    fewest_ = std::min(fewest_, plans.size());
    for (const Plan& plan : plans) {
      EXPECT_FALSE(plan.compiles()) << name << ", " << problem.key() << ": " << plan.describe();
      EXPECT_LE(plan.workspace(), kWorkspaceCap);
    }
    if (!plans.empty()) largest_ = std::max(largest_, plans[0].workspace());
  }
  const Planner& planner() {
    if (!planner_) planner_.emplace(Planner::for_properties(std::get<0>(GetParam()).second));
    return *planner_;
  }
  void report(const char* what) const {
    std::printf("%s, %s: %zu %s, at least %zu plans each, first guesses need %.1f MB at most\n",
                std::get<0>(GetParam()).first, name_of(std::get<DType>(GetParam())), seen_.size(),
                what, fewest_, static_cast<double>(largest_) / 1e6);
  }

 private:
  std::optional<Planner> planner_;
  std::set<std::string> seen_;
  std::size_t fewest_ = 1000, largest_ = 0;
};
const std::pair<const char*, std::string> kGpus[] = {{"A100", testing::kA100},
                                                     {"L40S", testing::kL40S},
                                                     {"H100", testing::kH100},
                                                     {"B200", testing::kB200},
                                                     {"RTX5090", testing::kRtx5090}};
INSTANTIATE_TEST_SUITE_P(Gpus, PlanningFor,
                         ::testing::Combine(::testing::ValuesIn(kGpus),
                                            ::testing::Values(DType::bf16, DType::f16, DType::f32)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).first) +
                                  name_of(std::get<DType>(test.param));
                         });

TEST_P(PlanningFor, EveryConvolutionOfTheModels) {
  testing::each_conv_of_the_models(
      std::get<DType>(GetParam()),
      [&](const std::string& what, const ConvProblem& p) { expect_plans(what, p); });
  report("convolutions of models");
}

// Each with what follows it: a ReLU, behind the last of a block a sum, too; a shortcut has none.
TEST_P(PlanningFor, EveryConvolutionOfInferenceWithItsTail) {
  for (const Form& form : forms())
    for (const i64 batch : {1, 32, 256})
      for (const Layer& layer : layers_of(form, batch, std::get<DType>(GetParam()))) {
        ConvProblem problem = layer.problem;
        problem.bias = true;
        problem.relu = !layer.name.ends_with("downsample");
        problem.add = layer.name.ends_with(form.bottleneck ? "conv3" : "conv2");
        expect_plans(form.model + (" " + layer.name), problem);
      }
  report("convolutions with tails");
}

TEST_P(PlanningFor, EveryConvolutionOfTheListOfOps) {
  for (const testing::rows::ConvCase& c : testing::rows::conv_cases())
    for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
      ConvProblem problem{op,          DType::bf16, c.x[0],       c.x[1],    c.x[2],
                          c.x[3],      c.w[0],      c.w[1],       c.w[2],    c.o.stride,
                          c.o.padding, c.o.padding, c.o.dilation, c.o.groups};
      expect_plans(c.what, problem);
    }
  report("convolutions of the list of ops");
}

TEST_F(Planning, PlansComeBackFromTheirText) {
  const Planner planner = Planner::for_properties(kH200);
  const ConvProblem problem{
      ConvOp::backward_filter, DType::bf16, 64, 14, 14, 256, 256, 3, 3, 1, 1, 1};
  const auto plans = planner.plans(problem, 3);
  ASSERT_EQ(plans.size(), 3u);
  for (const Plan& plan : plans) {
    const Plan again = planner.from_json(plan.json(), problem);
    ASSERT_TRUE(again.defined());
    EXPECT_EQ(again.workspace(), plan.workspace());
    EXPECT_EQ(again.engine(), plan.engine());
    EXPECT_EQ(again.tensor_cores(), plan.tensor_cores());
    EXPECT_EQ(again.describe(), plan.describe());
    EXPECT_EQ(again.json(), plan.json());
  }
  EXPECT_FALSE(planner.from_json("{\"not\": \"a plan\"}", problem).defined());
  EXPECT_FALSE(planner.from_json("", problem).defined());
}

// A file may be of another program, or of before a rule.
TEST_F(Planning, APlanFromATextIsHeldToTheRulesOfTheSearch) {
  const Planner planner = Planner::for_properties(kH200);
  ConvProblem problem{ConvOp::forward, DType::f32, 32, 28, 28, 128, 128, 3, 3, 1, 1, 1};
  problem.tf32 = true;
  const auto rounds = planner.plans(problem);
  ASSERT_FALSE(rounds.empty());
  EXPECT_TRUE(planner.from_json(rounds[0].json(), problem).defined());
  problem.tf32 = false;
  EXPECT_FALSE(planner.from_json(rounds[0].json(), problem).defined()) << rounds[0].describe();
  for (const Plan& plan : planner.plans(problem))
    if (plan.workspace() > 0)
      EXPECT_FALSE(planner.from_json(plan.json(), problem, plan.workspace() - 1).defined());
}

// The gradients of the filters of resnet8-cifar in f32: cuDNN's engine 20 won all of them on an
// H200, and two runs differed.
TEST_F(Planning, ADeterministicPlannerTakesNoPlanThatCarriesTheNoteAlsoNotFromAText) {
  const Planner any = Planner::for_properties(kH200),
                deterministic = Planner::for_properties(kH200, true);
  const ConvProblem problem{
      ConvOp::backward_filter, DType::f32, 128, 32, 32, 16, 16, 3, 3, 1, 1, 1};
  int noted = 0;
  for (const Plan& plan : any.plans(problem)) {
    EXPECT_TRUE(any.from_json(plan.json(), problem).defined());
    EXPECT_EQ(deterministic.from_json(plan.json(), problem).defined(), !plan.any_order())
        << plan.describe();
    noted += plan.any_order();
  }
  EXPECT_GT(noted, 0) << "this cuDNN has no such plan any more: take another problem";
  const std::vector<Plan> kept = deterministic.plans(problem);
  EXPECT_FALSE(kept.empty());
  for (const Plan& plan : kept) EXPECT_FALSE(plan.any_order()) << plan.describe();
}

TEST_F(Planning, EveryConvolutionOfTheModelsKeepsADeterministicPlanOnAnH200) {
  const Planner planner = Planner::for_properties(kH200, true);
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    int planned = 0;
    testing::each_conv_of_the_models(type, [&](const std::string& what, const ConvProblem& p) {
      const std::vector<Plan> first = planner.plans(p, 1);
      ASSERT_FALSE(first.empty()) << what << ", " << p.key();
      EXPECT_FALSE(first[0].any_order()) << p.key() << ": " << first[0].describe();
      EXPECT_FALSE(first[0].compiles()) << p.key() << ": " << first[0].describe();
      ++planned;
    });
    EXPECT_EQ(planned, 178);
  }
}

TEST(PlanKey, TellsGpusAndDeterministicRunsApart) {
  const ConvProblem problem{ConvOp::forward, DType::bf16, 8, 14, 14, 64, 64, 3, 3, 1, 1, 1};
  cuda::Properties gpu;
  gpu.name = "a GPU";
  gpu.multiprocessors = 132;
  const std::string key = plan_key(problem, gpu);
  EXPECT_NE(key.find(problem.key()), std::string::npos) << key;
  EXPECT_EQ(plan_key(problem, gpu, true), key + " deterministic");
  gpu.multiprocessors = 114;
  EXPECT_NE(plan_key(problem, gpu), key);
}

TEST_F(Planning, F32PlansKeepTheirDigitsUnlessTf32IsAllowed) {
  const Planner planner = Planner::for_properties(kH200);
  ConvProblem problem{ConvOp::forward, DType::f32, 32, 28, 28, 128, 128, 3, 3, 1, 1, 1};
  const auto exact = planner.plans(problem);
  ASSERT_FALSE(exact.empty());
  for (const Plan& plan : exact) EXPECT_FALSE(plan.tensor_cores()) << plan.describe();
  problem.tf32 = true;
  const auto fast = planner.plans(problem);
  ASSERT_FALSE(fast.empty());
  EXPECT_TRUE(fast[0].tensor_cores()) << fast[0].describe();
}

// cuDNN's first list may hold nothing but kernels that round products.
TEST_F(Planning, EveryConvolutionOfResNet50HasAnExactF32Plan) {
  const Planner planner = Planner::for_properties(kH200);
  for (const i64 batch : {4, 256})
    for (const Layer& layer : layers_of(form_of("resnet50"), batch, DType::f32))
      for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
        if (op == ConvOp::backward_data && layer.name == "stem") continue;
        ConvProblem problem = layer.problem;
        problem.op = op;
        EXPECT_FALSE(planner.plans(problem).empty()) << layer.name << ", " << problem.key();
      }
}

TEST_F(Planning, SaysWhatItWasAskedWhenCuDnnRefuses) {
  const Planner planner = Planner::for_properties(kH200);
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
