// Norms that look at one sample alone, so that they need no batch and no statistics of the past.
// They are ops as those of core/ops.h.
// Errors: as ops (core/ops.h).
// Threads: any; tensors that several threads give to ops may not change meanwhile.
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer {

struct GroupNormOptions {
  i64 groups = 1;  // of neighbouring channels; divides their number
  float eps = 1e-5f;
};
// y = scale (x - mean)/sqrt(var + eps) + shift, with mean and biased variance of each sample and
// group, over its pixels and channels (Wu and He 2018). x [N, ..., C]; scale and shift f32 [C].
Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, GroupNormOptions = {});
// y = scale x sigmoid(v x)/sqrt(var + eps) + shift, with that variance (EvoNorm-S0: Liu et al.
// 2020): norm and nonlinearity in one. v f32 [C], trained.
Tensor evonorm_s0(const Tensor& x, const Tensor& v, const Tensor& scale, const Tensor& shift,
                  GroupNormOptions = {});

}  // namespace gossamer
