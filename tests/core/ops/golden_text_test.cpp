// The ops of language models against PyTorch's results and gradients, stored in
// golden/text_ops.safetensors by golden/text_ops.py, on every backend.
#include <cmath>

#include <gtest/gtest.h>

#include "core/ops/golden_cases.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/ops.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

const GoldenCases& golden() {
  static const GoldenCases cases({"text_ops.safetensors"}, 3e-6f, 0, backend_names());
  return cases;
}
Tensor integers(std::vector<std::int32_t> v, const Shape& shape) {
  return Tensor::from(v, {static_cast<i64>(v.size())}).reshape(shape);
}

TEST(GoldenTextOps, LayerNormMatchesPyTorch) {
  golden().check("layer_norm", {"x", "scale", "shift"},
                 [](const auto& in) { return layer_norm(in[0], in[1], in[2]); });
}

TEST(GoldenTextOps, AttentionMatchesPyTorch) {
  golden().check("attention_causal", {"qkv"},
                 [](const auto& in) { return attention(in[0], {.heads = 3, .causal = true}); });
  golden().check("attention_cross", {"q", "kv"}, [](const auto& in) {
    return attention(in[0], in[1], {.heads = 2}, integers({7, 4}, {2}));
  });
}

TEST(GoldenTextOps, EmbeddingMatchesPyTorch) {
  golden().check("embedding", {"table"}, [](const auto& in) {
    return embedding(integers({3, 0, 3, 5, 3, 0}, {2, 3}), in[0]);
  });
}

TEST(GoldenTextOps, HeadLossMatchesPyTorch) {
  golden().check("head_loss", {"x", "table"}, [](const auto& in) {
    return head_loss(in[0], in[1], integers({3, -1, 0, 8, 8, -1, 2}, {7}),
                     {.label_smoothing = 0.1f, .ignore = -1});
  });
}

}  // namespace
}  // namespace gossamer
