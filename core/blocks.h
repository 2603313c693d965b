// Passes over whole f32 blocks, outside the tape. Operands have equal lengths and lie on one
// device; ShapeError and DeviceError say which don't. Where a number is returned, the host waits
// for a GPU.
// Threads: one at a time for a block.
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer {

bool all_finite(const Tensor& x);
// |x|^2 and |a - b|^2, in double
double squared_norm(const Tensor& x);
double squared_distance(const Tensor& a, const Tensor& b);
void scale(Tensor& x, float factor);
// y += a x
void axpy(Tensor& y, float a, const Tensor& x);
// y += x; y, x of any floating type
void accumulate(Tensor& y, const Tensor& x);
// x <- own x + share received
void weighted_sum(Tensor& x, float own, float share, const Tensor& received);

}  // namespace gossamer
