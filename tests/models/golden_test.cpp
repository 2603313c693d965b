// Whole models against PyTorch: logits, loss and the gradient of every parameter (files and script
// in golden/).
#include <cmath>

#include <gtest/gtest.h>

#include "golden/formula.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"

namespace gossamer {
namespace {

constexpr double kTolerance = 1e-3;

SafeTensors golden_file(const std::string& name) {
  return read_safetensors(std::string(GOSSAMER_SOURCE_DIR "/tests/golden/") + name +
                          ".safetensors");
}

double norm(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += double(v) * v;
  return std::sqrt(sum);
}

double relative_distance(std::span<const float> x, std::span<const float> wanted) {
  EXPECT_EQ(x.size(), wanted.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += (double(x[i]) - wanted[i]) * (double(x[i]) - wanted[i]);
  return std::sqrt(sum) / norm(wanted);
}

// [norm, sum, up to 64 entries] in torch's order, as make_golden.py takes them.
std::vector<float> sampled(const std::string& name, const Tensor& gradient) {
  const Shape& shape = gradient.shape();
  std::vector<float> flat(static_cast<std::size_t>(shape.numel()));
  double sum = 0;
  for (i64 i = 0; i < shape.numel(); ++i) {
    flat[static_cast<std::size_t>(golden::torch_index(shape, i))] = gradient.as<float>()[i];
    sum += gradient.as<float>()[i];
  }
  std::vector<float> out{static_cast<float>(norm(flat)), static_cast<float>(sum)};
  const std::size_t count = std::min<std::size_t>(64, flat.size()), step = flat.size() / count;
  for (std::size_t i = golden::fnv1a(name) % step; out.size() < count + 2; i += step)
    out.push_back(flat[i]);
  return out;
}

struct Case {
  const char* model;
  i64 batch, size, classes;
};
class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, LogitsLossAndEveryGradientEqualPyTorch) {
  const auto [name, batch, size, classes] = GetParam();
  const SafeTensors wanted = golden_file(name);
  const auto model = models::make(name);
  golden::fill(*model);
  std::size_t biases = 0;
  for (NamedTensor& p : model->parameters())
    if (const Tensor* bias = wanted.find("bias/" + p.name)) {
      p.tensor.copy_from(*bias);
      ++biases;
    }
  FlatParams params(model->parameters(), model->buffers());
  const Tensor images = golden::images(batch, size), labels = golden::labels(batch, classes);

  const Tensor logits = (*model)(images);
  const Tensor loss = cross_entropy(logits, labels);
  EXPECT_LT(relative_distance(logits.span<float>(), wanted.find("logits")->span<float>()),
            kTolerance);
  EXPECT_NEAR(loss.item(), wanted.find("loss")->item(), kTolerance * wanted.find("loss")->item());
  loss.backward();
  params.settle_grads();

  double worst = 0;
  std::size_t seen = 0;
  for (const auto& [key, gradient] : params.windows(params.grads())) {
    const Tensor* file = wanted.find("grad/" + key);
    ASSERT_NE(file, nullptr) << key;
    const std::vector<float> ours = sampled(key, gradient);
    const std::span<const float> theirs = file->span<float>();
    ASSERT_EQ(ours.size(), theirs.size()) << key;
    EXPECT_NEAR(ours[0], theirs[0], kTolerance * theirs[0]) << key << ": norm";
    // |sum of errors| <= sqrt(n) |error|
    EXPECT_NEAR(ours[1], theirs[1], kTolerance * theirs[0] * std::sqrt(double(gradient.numel())))
        << key << ": sum";
    const double distance = relative_distance(std::span(ours).subspan(2), theirs.subspan(2));
    EXPECT_LT(distance, kTolerance) << key << ": entries";
    worst = std::max(worst, distance);
    ++seen;
  }
  EXPECT_EQ(seen + biases + 3, wanted.tensors.size());  // nothing of the file is left over
  RecordProperty("worst_relative_error", std::to_string(worst));

  model->eval();
  const NoGrad no_grad;
  EXPECT_LT(
      relative_distance((*model)(images).span<float>(), wanted.find("eval_logits")->span<float>()),
      kTolerance)
      << "running statistics";
}
INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values(Case{"resnet50", 4, 96, 1000},
                                         Case{"resnet18-cifar", 4, 32, 10},
                                         Case{"resnet20-cifar", 8, 32, 10},
                                         Case{"resnet8-cifar", 16, 32, 10}),
                         [](const auto& test) {
                           std::string name = test.param.model;
                           std::erase(name, '-');
                           return name;
                         });

TEST(GoldenSgd, TenStepsOfNesterovWithWeightDecayHaveTheLossesOfPyTorch) {
  const SafeTensors wanted = golden_file("sgd");
  const auto model = models::make("resnet8-cifar");
  golden::fill(*model);
  FlatParams params(model->parameters(), model->buffers());
  nn::Sgd sgd(params, {.momentum = 0.9f, .weight_decay = 0.05f, .nesterov = true});
  const Tensor images = golden::images(16, 32), labels = golden::labels(16, 10);
  for (const float loss_wanted : wanted.find("losses")->span<float>()) {
    const Tensor loss = cross_entropy((*model)(images), labels);
    EXPECT_NEAR(loss.item(), loss_wanted, kTolerance * loss_wanted);
    params.zero_grad();
    loss.backward();
    sgd.step(0.02f);
  }
}

}  // namespace
}  // namespace gossamer
