// The consensus distance, measured exactly: how far the workers' models are from their mean.
#pragma once

#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// sqrt(mean over members of |x_i - mean|^2) of the members' copies [n] f32. Collective: all members
// call it. `copy` is used up.
double exact_consensus_distance(Tensor copy, Collectives&);

}  // namespace gossamer::dist
