// The structs of DLPack 0.8 (github.com/dmlc/dlpack), with which programs lend each other tensors.
#pragma once

#include <cstdint>

struct DLDevice {
  std::int32_t device_type, device_id;  // 1: a CPU
};
struct DLDataType {
  std::uint8_t code, bits;  // 0: signed, 1: unsigned, 2: IEEE float, 4: bfloat
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;  // strides in elements; null: contiguous
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
