// Modules: names, order, train and eval, Sequential.
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/nn/layers.h"

namespace gossamer::nn {
namespace {

std::string joined(const std::vector<NamedTensor>& tensors) {
  std::string out;
  for (const NamedTensor& t : tensors) out += t.name + " ";
  return out;
}

struct Pair : Module {
  Tensor scale = param("scale", Tensor::zeros({2}));
  Linear& first = add("first", Linear(2, 3));
  BatchNorm& norm = add("norm", BatchNorm(3));
  Tensor count = buffer("count", Tensor::zeros({}, DType::i64));
  Tensor forward(const Tensor& x) override { return norm(first(x)); }
};

TEST(Module, NamesFollowTheTreeAndStateHasTorchsOrder) {
  const Pair pair;
  EXPECT_EQ(joined(pair.parameters()), "scale first.weight first.bias norm.weight norm.bias ");
  EXPECT_EQ(joined(pair.buffers()),
            "count norm.running_mean norm.running_var norm.num_batches_tracked ");
  EXPECT_EQ(joined(pair.state()),
            "scale count first.weight first.bias norm.weight norm.bias norm.running_mean "
            "norm.running_var norm.num_batches_tracked ");
}

TEST(Module, ParametersWantGradientsAndBuffersDoNot) {
  const Pair pair;
  for (const NamedTensor& t : pair.parameters()) EXPECT_TRUE(t.tensor.requires_grad()) << t.name;
  for (const NamedTensor& t : pair.buffers()) EXPECT_FALSE(t.tensor.requires_grad()) << t.name;
}

TEST(Module, AMovedModuleKeepsItsPartsWhereTheyWere) {
  Pair pair;
  const Tensor weight = pair.parameters()[1].tensor;
  Sequential list;
  list.push(std::move(pair)).push(Linear(3, 1));
  EXPECT_EQ(list.parameters()[1].name, "0.first.weight");
  EXPECT_EQ(list.parameters()[1].tensor.data(), weight.data());
  EXPECT_EQ(list(Tensor::full({4, 2}, 1)).shape(), (Shape{4, 1}));
  const Sequential moved = std::move(list);
  EXPECT_EQ(moved.size(), 2u);
}

TEST(Module, TrainAndEvalReachEveryModuleBelow) {
  Sequential list;
  list.push(Pair()).push(Dropout(0.5f));
  EXPECT_EQ(list.modules().size(), 5u);
  for (const bool on : {false, true}) {
    list.train(on);
    for (const Module* m : list.modules()) EXPECT_EQ(m->training(), on);
  }
  list.eval();
  EXPECT_FALSE(list[1].training());
}

TEST(Module, AFrozenBatchNormKeepsItsStatisticsInTrainingToo) {
  Sequential net;
  net.push(Conv2d(3, 4)).push(BatchNorm(4)).push(BatchNorm(4));
  net.freeze([](const std::string& name) { return name.starts_with("1.") || name == "2.bias"; });
  net.train();
  EXPECT_TRUE(net.training() && net[0].training() && net[2].training());
  EXPECT_TRUE(net[1].frozen() && !net[1].training());
  const auto names = [](const std::vector<NamedTensor>& tensors) {
    std::vector<std::string> out;
    for (const NamedTensor& t : tensors) out.push_back(t.name);
    return out;
  };
  const Module::Parts parts = net.parts();
  EXPECT_EQ(names(parts.parameters), (std::vector<std::string>{"0.weight", "2.weight"}));
  EXPECT_EQ(names(parts.buffers),
            (std::vector<std::string>{"2.running_mean", "2.running_var", "2.num_batches_tracked"}));
  EXPECT_EQ(names(parts.frozen),
            (std::vector<std::string>{"1.weight", "1.bias", "1.running_mean", "1.running_var",
                                      "1.num_batches_tracked", "2.bias"}));
  const Tensor x = Tensor::full({2, 5, 5, 3}, 1);
  estimate_batch_norm(net, [&] { net(x); });
  sum(net(x)).backward();
  EXPECT_TRUE(parts.parameters[0].tensor.grad().defined());
  EXPECT_TRUE(parts.parameters[1].tensor.grad().defined());
  for (const NamedTensor& t : parts.frozen) EXPECT_FALSE(t.tensor.grad().defined()) << t.name;
  for (const float v : parts.frozen[2].tensor.span<float>()) EXPECT_EQ(v, 0);
  for (const float v : parts.frozen[3].tensor.span<float>()) EXPECT_EQ(v, 1);
  EXPECT_EQ(*parts.frozen[4].tensor.as<i64>(), 0);
  EXPECT_EQ(*parts.buffers[2].tensor.as<i64>(), 2);
}

TEST(Module, TwoPartsOfOneNameAreRefused) {
  struct Twice : Module {
    Linear& a = add("a", Linear(1, 1));
    Tensor b = param("a", Tensor::zeros({1}));
    Tensor forward(const Tensor& x) override { return x; }
  };
  EXPECT_THROW(Twice(), Error);
  struct Dotted : Module {
    Linear& a = add("a.b", Linear(1, 1));
    Tensor forward(const Tensor& x) override { return x; }
  };
  EXPECT_THROW(Dotted(), Error);
}

TEST(Module, AnEmptySequentialIsTheIdentity) {
  Sequential none;
  const Tensor x = Tensor::full({2}, 3);
  EXPECT_EQ(none(x).data(), x.data());
}

}  // namespace
}  // namespace gossamer::nn
