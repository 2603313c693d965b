// A tensor over the floats of a test's vector, which outlives it; none of an empty one.
#pragma once

#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

inline Tensor over(std::vector<float>& v) {
  if (v.empty()) return {};
  return Tensor::wrap(v.data(), {static_cast<i64>(v.size())}, DType::f32);
}

}  // namespace gossamer
