// The Base-(k+1) graph (Takezawa et al., "Beyond exponential graph", 2023, arXiv 2305.11420):
// rounds of weighted averages after which all workers hold the exact mean, for any number of
// workers, though none ever meets more than k others in a round. A pure function of n and k.
#pragma once

#include <vector>

#include "gossamer/dist/graph/rounds.h"

namespace gossamer::dist {

// All rounds: [round][worker]. n and k are 1 or more.
std::vector<std::vector<Round>> base_rounds(int n, int k);

}  // namespace gossamer::dist
