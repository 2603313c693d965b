// Norms that need no batch (core/ops/group_norm.h) as layers.
// Threads: as Module (module.h).
#pragma once

#include "gossamer/core/ops/group_norm.h"
#include "gossamer/nn/module.h"

namespace gossamer::nn {

struct GroupNormLayerOptions {
  i64 groups = 1;  // divides the number of channels
  float eps = 1e-5f;
  bool zero_scale = false;
};
// weight 1 (or 0), bias 0: f32 [C].
class GroupNorm : public Module {
 public:
  explicit GroupNorm(i64 channels, GroupNormLayerOptions = {});
  Tensor forward(const Tensor& x) override;  // [N, ..., C]

 private:
  GroupNormLayerOptions options_;
  Tensor weight_, bias_;
};

// A norm and the nonlinearity after it (evonorm_s0): no ReLU follows. weight 1 (or 0), bias 0, v 1:
// f32 [C].
class EvoNorm : public Module {
 public:
  explicit EvoNorm(i64 channels, GroupNormLayerOptions = {});
  Tensor forward(const Tensor& x) override;  // [N, ..., C]

 private:
  GroupNormLayerOptions options_;
  Tensor weight_, bias_, v_;
};

}  // namespace gossamer::nn
