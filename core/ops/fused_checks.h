// A check of shape, type and device for op_fused_update.cpp.
#pragma once

#include "gossamer/core/ops/eight.h"
#include "gossamer/core/tensor.h"

namespace gossamer::fused {

inline void check_type(const char* op, const char* what, const Tensor& t, const Shape& shape,
                       DType type, Device device) {
  check<ShapeError>(
      t.defined() && t.shape() == shape && t.dtype() == type, op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted ", type, " ", shape);
  check<DeviceError>(t.device() == device, op, ": ", what, " is on ", t.device(), ", wanted on ",
                     device);
}

}  // namespace gossamer::fused
