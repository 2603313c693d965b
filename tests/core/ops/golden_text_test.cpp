// The ops of language models against PyTorch's results and gradients, stored in
// golden/text_ops.safetensors by golden/text_ops.py, on every backend.
#include <cmath>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

Tensor golden(const std::string& name) {
  static const SafeTensors file =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/text_ops.safetensors");
  const Tensor* t = file.find(name);
  if (!t) throw std::runtime_error("golden/text_ops.safetensors has no " + name);
  return t->clone();
}
Tensor integers(std::vector<std::int32_t> v, const Shape& shape) {
  return Tensor::from(v, {static_cast<i64>(v.size())}).reshape(shape);
}

void expect_close(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], 3e-6f) << what << ", element " << i;
}

// Runs f on the stored inputs, sends the stored gradient back, compares the result and every
// input's gradient.
void check_case(const std::string& name, const std::vector<std::string>& inputs,
                const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(name + " on " + form);
    const UseBackend use(form);
    std::vector<Tensor> x;
    for (const std::string& key : inputs) x.push_back(golden(name + "." + key).requires_grad());
    const Tensor y = f(x);
    expect_close(y.detach(), golden(name + ".y"), "y");
    sum(mul(y, golden(name + ".g"))).backward();
    for (std::size_t k = 0; k < x.size(); ++k)
      expect_close(x[k].grad(), golden(name + ".d" + inputs[k]), "gradient of " + inputs[k]);
  }
}

TEST(GoldenTextOps, LayerNormMatchesPyTorch) {
  check_case("layer_norm", {"x", "scale", "shift"},
             [](const auto& in) { return layer_norm(in[0], in[1], in[2]); });
}

TEST(GoldenTextOps, AttentionMatchesPyTorch) {
  check_case("attention_causal", {"qkv"},
             [](const auto& in) { return attention(in[0], {.heads = 3, .causal = true}); });
  check_case("attention_cross", {"q", "kv"}, [](const auto& in) {
    return attention(in[0], in[1], {.heads = 2}, integers({7, 4}, {2}));
  });
}

TEST(GoldenTextOps, EmbeddingMatchesPyTorch) {
  check_case("embedding", {"table"}, [](const auto& in) {
    return embedding(integers({3, 0, 3, 5, 3, 0}, {2, 3}), in[0]);
  });
}

TEST(GoldenTextOps, HeadLossMatchesPyTorch) {
  check_case("head_loss", {"x", "table"}, [](const auto& in) {
    return head_loss(in[0], in[1], integers({3, -1, 0, 8, 8, -1, 2}, {7}),
                     {.label_smoothing = 0.1f, .ignore = -1});
  });
}

}  // namespace
}  // namespace gossamer
