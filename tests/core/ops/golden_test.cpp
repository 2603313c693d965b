// Ops against PyTorch's results and gradients, stored in golden/ops.safetensors by golden/ops.py
// and in golden/rearrange.safetensors by golden/rearrange.py.
#include <cmath>

#include <gtest/gtest.h>

#include "core/ops/golden_cases.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/rearrange.h"
#include "gossamer/core/update.h"
#include "support/updates.h"

namespace gossamer {
namespace {

const GoldenCases& golden() {
  static const GoldenCases cases({"ops.safetensors", "rearrange.safetensors"}, 1e-7f, 1e-5f,
                                 {backend(Device::cpu()).name()});
  return cases;
}

TEST(GoldenOps, ConvolutionsMatchPyTorch) {
  const auto conv = [](ConvOptions o) {
    return [o](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], o); };
  };
  golden().check("conv_3x3", {"x", "w"}, conv({.padding = 1}));
  golden().check("conv_stride", {"x", "w"}, conv({.stride = 2, .padding = 1}));
  golden().check("conv_dilated", {"x", "w"}, conv({.padding = 2, .dilation = 2}));
  golden().check("conv_groups", {"x", "w"}, conv({.padding = 1, .groups = 2}));
  golden().check("conv_stem", {"x", "w"}, conv({.stride = 2, .padding = 3}));
}

TEST(GoldenOps, PoolingMatchesPyTorch) {
  golden().check("max_pool", {"x"}, [](const auto& in) { return max_pool2d(in[0], {3, 2, 1}); });
  golden().check("avg_pool", {"x"}, [](const auto& in) { return avg_pool2d(in[0], {3, 2, 1}); });
  golden().check("global_avg_pool", {"x"}, [](const auto& in) { return global_avg_pool(in[0]); });
}

TEST(GoldenOps, BatchNormWithAddAndReluMatchesPyTorchInTrainingAndEvaluation) {
  for (const bool training : {true, false}) {
    const std::string name = training ? "norm_train" : "norm_eval";
    const Tensor mean = golden()(name + ".mean_before"), var = golden()(name + ".var_before");
    golden().check(name, {"x", "scale", "shift", "add"}, [&](const auto& in) {
      return batch_norm(in[0], in[1], in[2], mean, var, {.training = training, .relu = true},
                        in[3]);
    });
    golden().expect_close(mean, golden()(name + ".mean_after"), name + " running mean");
    golden().expect_close(var, golden()(name + ".var_after"), name + " running variance");
  }
}

TEST(GoldenOps, RearrangingMatchesPyTorch) {
  golden().check("transpose", {"x"}, [](const auto& in) { return transpose(in[0], -2, 0); });
  golden().check("slice_along", {"x"}, [](const auto& in) { return slice_along(in[0], 1, 1, 4); });
  golden().check("sum_along", {"x"}, [](const auto& in) { return sum_along(in[0], 1); });
  golden().check("concat", {"a", "b", "c"}, [](const auto& in) {
    return concat({in[0], in[1], in[2], in[0]}, 1);
  });
}

TEST(GoldenOps, ActivationsAndSoftmaxMatchPyTorch) {
  golden().check("gelu", {"x"}, [](const auto& in) { return gelu(in[0]); });
  golden().check("gelu_tanh", {"x"}, [](const auto& in) { return gelu_tanh(in[0]); });
  golden().check("sigmoid", {"x"}, [](const auto& in) { return sigmoid(in[0]); });
  golden().check("tanh", {"x"}, [](const auto& in) { return tanh(in[0]); });
  golden().check("softmax", {"x"}, [](const auto& in) { return softmax(in[0]); });
  golden().check("log_softmax", {"x"}, [](const auto& in) { return log_softmax(in[0]); });
}

TEST(GoldenOps, LinearMatchesPyTorch) {
  golden().check("linear", {"x", "w", "bias"},
                 [](const auto& in) { return linear(in[0], in[1], in[2]); });
  for (const auto& [name, activation] : {std::pair{"linear_relu", Activation::relu},
                                         {"linear_gelu", Activation::gelu},
                                         {"linear_gelu_tanh", Activation::gelu_tanh}})
    golden().check(name, {"x", "w", "bias"}, [activation = activation](const auto& in) {
      return linear(in[0], in[1], in[2], activation);
    });
}

TEST(GoldenOps, CrossEntropyMatchesPyTorch) {
  for (const std::string name : {"cross_entropy", "cross_entropy_smooth"}) {
    const Tensor labels = golden()(name + ".labels").to(DType::i32);
    const float smoothing = name == "cross_entropy" ? 0.0f : 0.1f;
    golden().check(name, {"x"}, [&](const auto& in) {
      return cross_entropy(in[0], labels, {.label_smoothing = smoothing});
    });
  }
}

TEST(GoldenOps, FiveSgdStepsMatchPyTorch) {
  for (const std::string name : {"sgd", "sgd_nesterov"}) {
    SCOPED_TRACE(name);
    Tensor w = golden()(name + ".w0"), b = golden()(name + ".b0");
    FlatParams params({{"w", w}, {"b", b}});
    Tensor momentum = Tensor::zeros({params.size()});
    for (int step = 0; step < 5; ++step) {
      for (NamedTensor& window : params.windows(params.grads()))
        window.tensor.copy_from(golden()(name + ".g" + window.name + std::to_string(step)));
      for (const NamedTensor& p : {NamedTensor{"w", w}, NamedTensor{"b", b}})
        p.tensor.slot()->stale = false;
      testing::sgd_update(params, momentum,
                          {.learning_rate = 0.1f,
                           .momentum = 0.9f,
                           .weight_decay = 0.05f,
                           .nesterov = name == "sgd_nesterov"});
    }
    golden().expect_close(w, golden()(name + ".w5"), "w");
    golden().expect_close(b, golden()(name + ".b5"), "b");
  }
}

}  // namespace
}  // namespace gossamer
