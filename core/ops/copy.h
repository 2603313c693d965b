// Conversions and fills on any device: what Tensor's copies are made of. Internal to tensor.cpp and
// op_copy.cpp.
#pragma once

#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"

namespace gossamer::detail {

// n elements that both lie on `device`, converted one by one (through f32 where one of the types is
// bf16 or f16).
void convert(Device device, DType from_type, const void* from, DType to_type, void* to, i64 n);
void fill(Device device, DType type, void* to, float value, i64 n);

}  // namespace gossamer::detail
