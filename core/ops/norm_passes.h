// Batch norm and what ends in one as ops made of the passes of fused.h: what a GPU does, and the
// backend "passes". The callers have checked shapes and types.
#pragma once

#include "gossamer/core/ops.h"

namespace gossamer::detail {

Tensor inverse_std(const NormInput&);  // 1/sqrt(running_var + eps), f32 [C]

// relu?(batch_norm(a) + batch_norm(b)? + add?); at most one of b and add; b only with relu. With a
// gradient: in training only.
Tensor norm_by_passes(const char* op, const NormInput& a, const NormInput* b, const Tensor& add,
                      bool relu);
// max_pool2d(relu(batch_norm(a)), {3, 2, 1}). With a gradient: in training only.
Tensor pool_by_passes(const char* op, const NormInput& a);

}  // namespace gossamer::detail
