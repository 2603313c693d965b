// Batch norm with ReLU and addition fused, for the CPU: two passes forward, two backward. The
// formulas are those of backend.h.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

void batch_statistics(Norm&, float eps);  // mean and inv_std
// y = relu?(a x + b (+ add | + second, normalised)); add and second may be null
void batch_norm(const Norm&, const Tensor* add, const Norm* second, bool relu, Tensor& y);
// y: what batch_norm wrote, with relu; null: it is computed again, bit for bit, which needs a norm
// to which nothing was added, in a type that keeps the sign of small numbers (not f16)
void batch_norm_back(const Norm&, bool relu, const Tensor* y, const Tensor& dy, const NormGrads&,
                     Tensor* d_add);

}  // namespace gossamer::cpu
