// Ops that move numbers to other places or sum along one dimension, with their gradients. They are
// ops as those of core/ops.h.
// Errors: as ops (core/ops.h).
// Threads: any; tensors that several threads give to ops may not change meanwhile.
#pragma once

#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

// x with dimensions a and b exchanged: y[…, j, …, i, …] = x[…, i, …, j, …]. Dimensions below 0
// count from the end here and below. A new tensor of x's type, since tensors are dense.
Tensor transpose(const Tensor& x, int a, int b);
// The tensors one behind the other along `dim`; all other extents and the types are equal. At least
// one tensor.
Tensor concat(const std::vector<Tensor>& parts, int dim);
// y = x[…, begin … end - 1, …] along `dim`; 0 <= begin < end <= the extent there.
Tensor slice_along(const Tensor& x, int dim, i64 begin, i64 end);
// y[…, …] = sum over i of x[…, i, …] along `dim`, which y has no more: [A, D, B] -> [A, B], f32.
Tensor sum_along(const Tensor& x, int dim);

}  // namespace gossamer
