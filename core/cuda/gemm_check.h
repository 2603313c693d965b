// Whether a product is right, at some of its elements: sums of products that our own code computes,
// independently of how a vendor's kernel did.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cublas {

// Largest difference between elements of c and activation(op(a) op(b) + bias), over the root mean
// square of the latter; `samples` elements spread over c. a [m, k] or [k, m] if ta, b [k, n] or
// [n, k] if tb, c [m, n]; bias [n] of c's type or undefined; no activation but gelu_tanh. What c's
// type cannot hold is not compared: a step of f16 may overflow. The host waits.
double gemm_error(bool ta, bool tb, const Tensor& a, const Tensor& b, const Tensor& c,
                  const Tensor& bias = {}, bool gelu_tanh = false, int samples = 48);

}  // namespace gossamer::cublas
