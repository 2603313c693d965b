// Batch norm with ReLU and addition fused, for the CPU: two passes forward, two backward. The
// formulas are those of backend.h.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

void batch_statistics(Norm&, float eps);  // mean and inv_std
void batch_norm(const Norm&, const Tensor* add, bool relu, Tensor& y);
// y: the output of a ReLU, null without one
void batch_norm_back(const Norm&, const Tensor* y, const Tensor& dy, const NormGrads&,
                     Tensor* d_add);

}  // namespace gossamer::cpu
