// Every model folded for inference computes what it computes in eval mode, on every set of kernels.
#include "gossamer/nn/inference.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/memory.h"
#include "gossamer/models/registry.h"
#include "models/small_resnet.h"

namespace gossamer {
namespace {

// As after training: factors, offsets and statistics of batch norms that are all different. The
// factors keep the activations of a deep network at one size.
void draw_norms(nn::Module& net) {
  Rng rng(5);
  for (const NamedTensor& t : net.state()) {
    if (t.tensor.rank() != 1 || t.name.starts_with("fc.")) continue;
    const bool positive = t.name.ends_with("weight") || t.name.ends_with("var");
    for (float& v : t.tensor.span<float>())
      v = positive ? 0.5f + rng.uniform() : 0.2f * rng.normal();
  }
}

Tensor images(i64 n, i64 side, DType type) {
  Rng rng(6);
  Tensor x = Tensor::empty({n, side, side, 3});
  for (float& v : x.span<float>()) v = rng.normal();
  return x.to(type);
}

// A side that the network takes: another one than usual, if it takes any.
i64 side_of(nn::Module& net, const models::ModelInfo& model, DType type) {
  try {
    net(images(1, 40, type));
    return 40;
  } catch (const ShapeError&) {
    return model.image_size;
  }
}

// The distance of the folded network's logits from the network's own.
double gap(const std::string& name, DType type) {
  const NoGrad no_grad;
  const auto net = models::make(name, {.classes = 11, .seed = 3});
  draw_norms(*net);
  const FlatParams params(net->parameters(), net->buffers(), {.compute = type});
  net->eval();
  const nn::Inference folded(*net);
  const i64 side = side_of(*net, models::info(name), type);
  const Tensor x = images(4, side, type), before = x.clone(), want = (*net)(x).to(DType::f32),
               got = folded(x).to(DType::f32);
  EXPECT_EQ(testing::distance(x.to(DType::f32), before.to(DType::f32)), 0) << "the input is kept";
  EXPECT_EQ(testing::distance(folded(x).to(DType::f32), got), 0) << "another call, the same bits";
  EXPECT_EQ(Node::live(), 0);
  return testing::distance(got, want);
}

struct Folded : ::testing::TestWithParam<std::tuple<std::string, std::string>> {
  void SetUp() override { cpu::limit_kernels(std::get<1>(GetParam())); }
  void TearDown() override { cpu::limit_kernels(""); }
};
INSTANTIATE_TEST_SUITE_P(Models, Folded,
                         ::testing::Combine(::testing::ValuesIn([] {
                                              std::vector<std::string> names;
                                              for (const auto& model : models::list("pictures"))
                                                names.push_back(model.name);
                                              return names;
                                            }()),
                                            ::testing::ValuesIn(cpu::kernel_sets())),
                         [](const auto& p) {
                           std::string name = std::get<0>(p.param) + "_" + std::get<1>(p.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Folding rounds each weight once more, and the sums are added in another order: some 2^-24 a layer
// in f32, 2^-9 in bf16.
TEST_P(Folded, ComputesWhatTheNetworkComputes) {
  const std::string& name = std::get<0>(GetParam());
  const double f32 = gap(name, DType::f32);
  std::printf("%s: relative distance %.1e\n", name.c_str(), f32);
  EXPECT_LT(f32, 2e-5);
  if (name == "resnet18" || name == "resnet8-cifar") EXPECT_LT(gap(name, DType::bf16), 0.03);
}

// Two images at 224 pixels hold 6.4 MB in each of the largest activations, of which three live at
// once. On the emulated GPU the CPU's engine, in the vendor's place, transforms the weights of a 3
// x 3 convolution in each call: 36 numbers for each of 512 x 512 filters.
TEST(Inference, ActivationsAreReused) {
  const bool transforms = std::string(backend(Device::cpu()).name()) == "cuda_emulated";
  const std::size_t most = (std::size_t{24} << 20) + (transforms ? 36 * 512 * 512 * 4 : 0);
  const auto net = models::make("resnet50", {.classes = 11});
  net->eval();
  const nn::Inference folded(*net);
  const Tensor x = images(2, 224, DType::f32);
  folded(x);
  const std::size_t before = memory_stats().in_use;
  reset_peak();
  folded(x);
  EXPECT_LT(memory_stats().peak - before, most);
}

// As nn/module.h and nn/inference.h say.
TEST(Inference, SeveralThreadsCallOneNetwork) {
  const auto net = models::make("resnet8-cifar", {.classes = 3});
  draw_norms(*net);
  net->eval();
  const nn::Inference folded(*net);
  const Tensor x = images(2, 32, DType::f32), want = (*net)(x);
  double distances[4] = {1, 1, 1, 1};
  std::vector<std::thread> threads;
  for (const int i : {0, 1, 2, 3})
    threads.emplace_back([&, i] {
      const Tensor got = i % 2 == 0 ? folded(x) : (*net)(x);  // the latter with a tape
      distances[i] = testing::distance(got, want);
    });
  for (std::thread& each : threads) each.join();
  for (const double distance : distances) EXPECT_LT(distance, 2e-5);
}

TEST(Inference, PassesOfAGpuComputeTheSame) {
  nn::seed_initialisation(3);
  const auto net = models::resnet(testing::small_resnet(true));
  draw_norms(*net);
  net->eval();
  const Tensor x = testing::random_images();
  const Tensor want = nn::Inference(*net)(x);
  const UseBackend use("cuda_emulated");
  EXPECT_LT(testing::distance(nn::Inference(*net)(x), want), 2e-5);
}

}  // namespace
}  // namespace gossamer
