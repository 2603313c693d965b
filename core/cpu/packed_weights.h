// Weights of a convolution in the form of a set of kernels.
#pragma once

#include <memory>

#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"

namespace gossamer::cpu {

struct PackedWeights {
  std::shared_ptr<Block> block;
  i64 panel = 0;  // columns of a panel, which differ between sets of kernels
  void check_for(i64 wanted) const {
    check<DeviceError>(panel == wanted,
                       "inference: the weights were packed for another set of kernels; make the "
                       "Inference again after a change of kernels");
  }
};

}  // namespace gossamer::cpu
