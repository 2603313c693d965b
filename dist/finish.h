// The end of training, the same for all methods: one model out of many.
#pragma once

#include "gossamer/core/flat.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {

// values <- mean over the living, batch-norm statistics merged, compute copy refreshed. Returns sqrt(mean |x_i - mean|^2) before.
double average_models(FlatParams&, Membership&);
// The factor on gradients that brings their norm, after `scale`, to at most `clip` (0: no limit).
float clip_factor(const Tensor& grads, double clip, double scale = 1);

}  // namespace gossamer::dist
