// How far apart two snapshots on a device are.
#pragma once

#include "gossamer/core/exchange.h"

namespace gossamer::dist {

// out (f32 [1]) <- |a - b|^2 of f32 or f16 tensors of one length. Only enqueued.
inline void distance_to(const Tensor& a, const Tensor& b, const Tensor& out) {
  if (a.dtype() == DType::f32) return squared_distance_to(a, b, out);
  squared_distance_to(a.to(DType::f32), b.to(DType::f32), out);
}

}  // namespace gossamer::dist
