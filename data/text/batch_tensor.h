// Memory of a batch of ids.
// Threads: any.
#pragma once

#include "gossamer/core/cuda.h"
#include "gossamer/core/tensor.h"

namespace gossamer::data {

// i32, not filled; pinned: in page-locked memory, which is kept as long as the tensor lives.
inline Tensor make_id_tensor(const Shape& shape, bool pinned) {
  if (!pinned) return Tensor::empty(shape, DType::i32);
  std::shared_ptr<Block> block =
      cuda::allocate_pinned(static_cast<std::size_t>(shape.numel()) * sizeof(std::int32_t));
  return Tensor::wrap(block->data, shape, DType::i32, [block]() mutable { block.reset(); });
}

}  // namespace gossamer::data
