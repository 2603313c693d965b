// Softmax cross-entropy on the CPU, row by row, in vectors; formulas in backend.h.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows&, Tensor& losses,
                  const Tensor& dz);

}  // namespace gossamer::cpu
