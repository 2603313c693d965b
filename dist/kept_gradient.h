// Gradients that a method keeps from one step to the next are without the loss scale, by which the
// optimizer divides (core/flat.h).
#pragma once

#include "gossamer/core/blocks.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {

// grads() <- grads() without the loss scale; 0 if some overflowed, for what a method keeps of them
// would stay.
inline void remove_loss_scale(FlatParams& params) {
  Tensor gradient = params.grads();
  if (params.overflow().defined()) {
    find_overflow(params);
    if (params.overflow().slice(0, 1).item() > 0) gradient.zero();
  }
  if (params.loss_scale() != 1) scale(gradient, 1 / params.loss_scale());
}

// The same backwards, for the optimizer.
inline void put_loss_scale(FlatParams& params) {
  Tensor gradient = params.grads();
  if (params.loss_scale() != 1) scale(gradient, params.loss_scale());
}

}  // namespace gossamer::dist
