// A stream of dropout by its number.
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer {

inline Tensor stream_of(i64 number, const Tensor& beside) {
  const Tensor stream = Tensor::zeros({}, DType::i64);
  *stream.as<i64>() = number;
  return stream.to(beside.device());
}

}  // namespace gossamer
