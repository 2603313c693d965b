// Layer norm on the CPU: a row at a time, in the first-level cache; formulas in backend.h.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

void layer_norm(const RowNorm&, const Tensor* add, Tensor* sum, Tensor& y);
void layer_norm_back(const RowNorm&, const Tensor& dy, bool accumulate, Tensor& dx,
                     const Tensor& d_scale, const Tensor& d_shift);

}  // namespace gossamer::cpu
