// Ops against PyTorch's results and gradients, stored in golden/ops.safetensors by golden/ops.py
// and in golden/rearrange.safetensors by golden/rearrange.py.
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/rearrange.h"
#include "gossamer/core/update.h"
#include "support/updates.h"

namespace gossamer {
namespace {

Tensor golden(const std::string& name) {
  static const SafeTensors file =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/ops.safetensors");
  static const SafeTensors rearranged =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/rearrange.safetensors");
  const Tensor* t = file.find(name);
  if (!t) t = rearranged.find(name);
  if (!t)
    throw std::runtime_error("golden/ops.safetensors and rearrange.safetensors have no " + name);
  return t->clone();
}

void expect_close(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  float top = 0;
  for (const float v : want.span<float>()) top = std::max(top, std::fabs(v));
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], 1e-5f * top + 1e-7f)
        << what << ", element " << i;
}

// Runs f on the stored inputs, sends the stored gradient back, compares the result and every
// input's gradient.
void check_case(const std::string& name, const std::vector<std::string>& inputs,
                const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  SCOPED_TRACE(name);
  std::vector<Tensor> x;
  for (const std::string& key : inputs) x.push_back(golden(name + "." + key).requires_grad());
  const Tensor y = f(x);
  expect_close(y.detach(), golden(name + ".y"), "y");
  sum(mul(y, golden(name + ".g"))).backward();
  for (std::size_t k = 0; k < x.size(); ++k)
    expect_close(x[k].grad(), golden(name + ".d" + inputs[k]), "gradient of " + inputs[k]);
}

TEST(GoldenOps, ConvolutionsMatchPyTorch) {
  const auto conv = [](ConvOptions o) {
    return [o](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], o); };
  };
  check_case("conv_3x3", {"x", "w"}, conv({.padding = 1}));
  check_case("conv_stride", {"x", "w"}, conv({.stride = 2, .padding = 1}));
  check_case("conv_dilated", {"x", "w"}, conv({.padding = 2, .dilation = 2}));
  check_case("conv_groups", {"x", "w"}, conv({.padding = 1, .groups = 2}));
  check_case("conv_stem", {"x", "w"}, conv({.stride = 2, .padding = 3}));
}

TEST(GoldenOps, PoolingMatchesPyTorch) {
  check_case("max_pool", {"x"}, [](const auto& in) { return max_pool2d(in[0], {3, 2, 1}); });
  check_case("avg_pool", {"x"}, [](const auto& in) { return avg_pool2d(in[0], {3, 2, 1}); });
  check_case("global_avg_pool", {"x"}, [](const auto& in) { return global_avg_pool(in[0]); });
}

TEST(GoldenOps, BatchNormWithAddAndReluMatchesPyTorchInTrainingAndEvaluation) {
  for (const bool training : {true, false}) {
    const std::string name = training ? "norm_train" : "norm_eval";
    const Tensor mean = golden(name + ".mean_before"), var = golden(name + ".var_before");
    check_case(name, {"x", "scale", "shift", "add"}, [&](const auto& in) {
      return batch_norm(in[0], in[1], in[2], mean, var, {.training = training, .relu = true},
                        in[3]);
    });
    expect_close(mean, golden(name + ".mean_after"), name + " running mean");
    expect_close(var, golden(name + ".var_after"), name + " running variance");
  }
}

TEST(GoldenOps, RearrangingMatchesPyTorch) {
  check_case("transpose", {"x"}, [](const auto& in) { return transpose(in[0], -2, 0); });
  check_case("slice_along", {"x"}, [](const auto& in) { return slice_along(in[0], 1, 1, 4); });
  check_case("sum_along", {"x"}, [](const auto& in) { return sum_along(in[0], 1); });
  check_case("concat", {"a", "b", "c"}, [](const auto& in) {
    return concat({in[0], in[1], in[2], in[0]}, 1);
  });
}

TEST(GoldenOps, ActivationsAndSoftmaxMatchPyTorch) {
  check_case("gelu", {"x"}, [](const auto& in) { return gelu(in[0]); });
  check_case("gelu_tanh", {"x"}, [](const auto& in) { return gelu_tanh(in[0]); });
  check_case("sigmoid", {"x"}, [](const auto& in) { return sigmoid(in[0]); });
  check_case("tanh", {"x"}, [](const auto& in) { return tanh(in[0]); });
  check_case("softmax", {"x"}, [](const auto& in) { return softmax(in[0]); });
  check_case("log_softmax", {"x"}, [](const auto& in) { return log_softmax(in[0]); });
}

TEST(GoldenOps, LinearMatchesPyTorch) {
  check_case("linear", {"x", "w", "bias"},
             [](const auto& in) { return linear(in[0], in[1], in[2]); });
  for (const auto& [name, activation] : {std::pair{"linear_relu", Activation::relu},
                                         {"linear_gelu", Activation::gelu},
                                         {"linear_gelu_tanh", Activation::gelu_tanh}})
    check_case(name, {"x", "w", "bias"}, [activation = activation](const auto& in) {
      return linear(in[0], in[1], in[2], activation);
    });
}

TEST(GoldenOps, CrossEntropyMatchesPyTorch) {
  for (const std::string name : {"cross_entropy", "cross_entropy_smooth"}) {
    const Tensor labels = golden(name + ".labels").to(DType::i32);
    const float smoothing = name == "cross_entropy" ? 0.0f : 0.1f;
    check_case(name, {"x"}, [&](const auto& in) {
      return cross_entropy(in[0], labels, {.label_smoothing = smoothing});
    });
  }
}

TEST(GoldenOps, FiveSgdStepsMatchPyTorch) {
  for (const std::string name : {"sgd", "sgd_nesterov"}) {
    SCOPED_TRACE(name);
    Tensor w = golden(name + ".w0"), b = golden(name + ".b0");
    FlatParams params({{"w", w}, {"b", b}});
    Tensor momentum = Tensor::zeros({params.size()});
    for (int step = 0; step < 5; ++step) {
      for (NamedTensor& window : params.windows(params.grads()))
        window.tensor.copy_from(golden(name + ".g" + window.name + std::to_string(step)));
      for (const NamedTensor& p : {NamedTensor{"w", w}, NamedTensor{"b", b}})
        p.tensor.slot()->stale = false;
      testing::sgd_update(params, momentum,
                          {.learning_rate = 0.1f,
                           .momentum = 0.9f,
                           .weight_decay = 0.05f,
                           .nesterov = name == "sgd_nesterov"});
    }
    expect_close(w, golden(name + ".w5"), "w");
    expect_close(b, golden(name + ".b5"), "b");
  }
}

}  // namespace
}  // namespace gossamer
