// Local SGD (Stich 2019): `period` steps of its own, then all workers average their parameters.
// period 1 is parameter averaging in each step.
#pragma once

#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {

MethodRow local_sgd_row();

}  // namespace gossamer::dist
