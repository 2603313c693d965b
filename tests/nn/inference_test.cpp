// Networks as steps for inference: what is folded, what runs as it is, and whose memory a sum
// takes.
#include "gossamer/nn/inference.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/nn/init.h"
#include "support/error_of.h"
#include "support/repeated_work.h"
#include "support/use_backend.h"

namespace gossamer::nn {
namespace {

using ::testing::HasSubstr;

Tensor drawn(Shape shape, std::uint64_t seed = 1) {
  Rng rng(seed);
  return normal(shape, 0, 1, rng);
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], 1e-4f) << i;
}

void draw_statistics(Module& net) {
  for (const NamedTensor& t : net.buffers())
    if (t.name.ends_with("var"))
      Tensor(t.tensor).copy_from(square(drawn(t.tensor.shape(), 2)) + 0.5f);
    else if (t.name.ends_with("mean"))
      Tensor(t.tensor).copy_from(drawn(t.tensor.shape(), 3));
}

// relu(norm(conv(x)) + x) + x: x is needed after the sum that would like to take its memory.
struct Twice : Module {
  Conv2d& conv = add("conv", Conv2d(16, 16, {.padding = 1, .bias = true}));
  BatchNorm& norm = add("norm", BatchNorm(16));
  Tensor forward(const Tensor& x) override {
    return norm.apply(conv(relu(norm.apply(conv(x), true, x))), true, x);
  }
  int fold(FoldedSteps& steps, int x) override {
    const int y = steps.conv(x, conv, norm, true, x);
    return steps.conv(steps.apply(y, relu), conv, norm, true, x);
  }
};

TEST(Inference, ASumTakesNoMemoryThatIsStillNeeded) {
  Twice net;
  draw_statistics(net);
  Tensor(net.parameters()[1].tensor).copy_from(drawn({16}, 4));
  net.eval();
  const NoGrad no_grad;
  const Tensor x = drawn({2, 6, 6, 16}), before = x.clone();
  expect_near(Inference(net)(x), net(x));
  expect_near(x, before);
}

struct Plain : Module {
  Conv2d& conv = add("conv", Conv2d(3, 4));
  BatchNorm& norm = add("norm", BatchNorm(4));
  Dropout& dropout = add("dropout", Dropout(0.5f));
  Linear& head = add("head", Linear(4, 2));
  Tensor forward(const Tensor& x) override {
    return head(dropout(global_avg_pool(norm.apply(conv(x), true))));
  }
};

TEST(Inference, ANetworkThatDoesNotSayHowItIsFoldedRunsAsItIs) {
  Sequential net;
  net.push(Plain());
  draw_statistics(net);
  net.eval();
  const Tensor x = drawn({3, 6, 6, 3});
  const Tensor got = Inference(net)(x);
  EXPECT_FALSE(got.requires_grad());
  expect_near(got, net(x).detach());
}

TEST(Inference, AnEmptyNetworkIsTheIdentity) {
  Sequential net;
  net.eval();
  const Tensor x = drawn({2, 3});
  expect_near(Inference(net)(x), x);
}

TEST(Inference, WantsEvalModeOfEveryLayer) {
  Twice net;
  EXPECT_THAT(error_of<ConfigError>([&] { Inference folded(net); }), HasSubstr("call eval()"));
}

TEST(Inference, ChangesOfFoldedWeightsDoNotShow) {
  Twice net;
  net.eval();
  const Tensor x = drawn({2, 6, 6, 16});
  const Inference folded(net);
  const Tensor before = folded(x);
  for (const NamedTensor& t : net.parameters()) Tensor(t.tensor).fill(0);
  expect_near(folded(x), before);
}

TEST(Inference, OfANetworkOfItsOwnIsTheSame) {
  auto net = std::make_unique<Twice>();
  net->eval();
  const Tensor x = drawn({2, 6, 6, 16});
  const Tensor want = Inference(*net)(x);
  const Inference folded(std::move(net));
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(std::ranges::equal(folded(x).span<float>(), want.span<float>()));
}

TEST(Inference, ManyRowsComeInParts) {
  Twice net;
  net.eval();
  const int threads = compute_threads();
  set_compute_threads(1);
  const Tensor x = drawn({53, 5, 6, 16}), all = Inference(net)(x);
  ASSERT_EQ(all.shape(), net(x).shape());
  expect_near(all, net(x));
  set_compute_threads(threads);
}

TEST(Inference, AGraphForEachShapeComputesWhatTheStepsDo) {
  for (const char* name : {"cpu", "cuda_emulated"}) {
    const UseBackend use(name);
    Twice net;
    net.eval();
    RepeatedWork graphs;
    const Inference eager(net), folded(net, {.capture = graphs.capture()});
    std::vector<Tensor> inputs, results;
    for (int step = 0; step < 6; ++step)
      for (const i64 rows : {1, 3}) {
        inputs.push_back(drawn({rows, 6, 6, 16}));
        for (float& v : inputs.back().span<float>()) v *= static_cast<float>(step + 1);
        results.push_back(folded(inputs.back()));
      }
    for (std::size_t i = 0; i < inputs.size(); ++i)  // no result lies where the next one does
      EXPECT_TRUE(std::ranges::equal(results[i].span<float>(), eager(inputs[i]).span<float>()))
          << name << " " << i;
    EXPECT_EQ(graphs.captured, 2);
    EXPECT_EQ(graphs.launched, 2 * (6 - CapturedStep::kEagerSteps));
  }
}

TEST(Inference, TheMostUsedShapesHaveGraphs) {
  Twice net;
  net.eval();
  RepeatedWork graphs;
  const Inference folded(net, {.capture = graphs.capture()});
  const auto often = [&](i64 rows, int times = 1 + CapturedStep::kEagerSteps) {
    const int before = graphs.captured;
    for (int i = 0; i < times; ++i) folded(drawn({rows, 6, 6, 16}));
    return graphs.captured - before;
  };
  const auto most = static_cast<i64>(CapturedStep::kMostGraphs);
  for (i64 rows = 1; rows <= most; ++rows) EXPECT_EQ(often(rows), 1);
  EXPECT_EQ(often(most + 1), 0) << "it is used no more often than they";
  EXPECT_EQ(often(most + 1, 20), 1) << "instead of one of them";
  EXPECT_EQ(folded.graphs(), CapturedStep::kMostGraphs);
}

TEST(Inference, SaysWhyItRunsWithoutAGraph) {
  Twice net;
  net.eval();
  RepeatedWork graphs;
  graphs.fails = "the steps wait for the device";
  std::vector<std::string> told;
  const auto say = [&](const std::string& why) { told.push_back(why); };
  const Inference eager(net), folded(net, {graphs.capture(), say}),
      silent(net, {.capture = graphs.capture()});
  const Tensor x = drawn({2, 6, 6, 16}), want = eager(x);
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(std::ranges::equal(folded(x).span<float>(), want.span<float>()));
  EXPECT_EQ(told, std::vector<std::string>{graphs.fails});
  EXPECT_EQ(folded.graphs(), 0u);
  for (int i = 0; i < CapturedStep::kEagerSteps; ++i) silent(x);
  EXPECT_THAT(error_of<DeviceError>([&] { silent(x); }), HasSubstr(graphs.fails));
}

TEST(Inference, AWeightThatIsNoNumberShows) {
  Twice net;
  net.eval();
  net.parameters()[0].tensor.as<float>()[0] = std::nanf("");
  const Tensor y = Inference(net)(drawn({2, 6, 6, 16}));
  EXPECT_TRUE(std::ranges::any_of(y.span<float>(), [](float v) { return std::isnan(v); }));
}

TEST(Inference, ErrorsNameTheShapes) {
  const InferenceConv conv(Tensor::zeros({4, 3, 3, 8}), Tensor::zeros({4}));
  EXPECT_THAT(error_of<ShapeError>([&] {
                conv(Tensor::zeros({1, 6, 6, 7}), true);
              }),
              HasSubstr("[1, 6, 6, 7]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                conv(Tensor::zeros({1, 6, 6, 8}), true, Tensor::zeros({1, 6, 6, 4}));
              }),
              HasSubstr("add is f32 [1, 6, 6, 4], the result is f32 [1, 4, 4, 4]"));
  EXPECT_THAT(error_of<ShapeError>([] {
                InferenceConv(Tensor::zeros({4, 3, 3, 8}), Tensor::zeros({3}));
              }),
              HasSubstr("wanted weight [K, R, S, C/groups] and bias f32 [K]"));
}

TEST(Largest, AreInOrderAndOfEqualOnesTheFirstComesFirst) {
  const std::vector<float> x{.1f, .5f, .2f, .5f, .3f};
  EXPECT_EQ(largest(x, 3), (std::vector<i64>{1, 3, 4}));
  EXPECT_EQ(largest(x, 9).size(), x.size());
  EXPECT_TRUE(largest(x, 0).empty());
}

}  // namespace
}  // namespace gossamer::nn
