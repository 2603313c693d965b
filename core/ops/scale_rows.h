// What a batch norm does to the filters of the convolution before it, for inference. Outside the
// tape.
// Errors and threads: as ops (core/ops.h).
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer {

// Row i of x [N, …], a floating type, times factors[i], in f32 and rounded once. factors: f32 [N].
Tensor scale_rows(const Tensor& x, const Tensor& factors);

}  // namespace gossamer
