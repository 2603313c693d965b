// Batch norm with ReLU and addition fused, for the CPU backend: two passes forward, two backward.
// See backend.h for the formulas.
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer::cpu {

void batch_norm_train(const Tensor& x, const Tensor* add, const Tensor& scale, const Tensor& shift,
                      float eps, bool relu, Tensor& y, Tensor& mean, Tensor& inv_std);
void batch_norm_apply(const Tensor& x, const Tensor* add, const Tensor& scale, const Tensor& shift,
                      bool relu, const Tensor& mean, const Tensor& inv_std, Tensor& y);
void batch_norm_back(const Tensor& dy, const Tensor& x, const Tensor* y, const Tensor& scale,
                     const Tensor& mean, const Tensor& inv_std, bool relu, Tensor& dx,
                     Tensor& d_scale, Tensor& d_shift, Tensor* d_add);

}  // namespace gossamer::cpu
