// Scratch memory of a kernel, from the allocator of tensors, which caches it.
#pragma once

#include <memory>

#include "gossamer/core/dtype.h"
#include "gossamer/core/memory.h"

namespace gossamer::cpu {

inline std::shared_ptr<Block> scratch(i64 count) {
  return allocate(static_cast<std::size_t>(count) * sizeof(float));
}
inline float* data_of(const std::shared_ptr<Block>& block) {
  return static_cast<float*>(block->data);
}

}  // namespace gossamer::cpu
