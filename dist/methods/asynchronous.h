// Methods in which every worker trains at its own pace and averages with one neighbour at a time:
// A2CiD2, whose page is gossip/a2cid2.h, and what it is compared with.
#pragma once

#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {

MethodRow a2cid2_row();
MethodRow adpsgd_row();     // AD-PSGD (Lian et al. 2018): eta = 0, so there is no twin
MethodRow published_row();  // for the simulator: A2CiD2 with the events of the published code

}  // namespace gossamer::dist
