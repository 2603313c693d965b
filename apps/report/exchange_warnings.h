// What the summary of a run has to say about its exchanges.
#pragma once

#include <string>
#include <vector>

#include "gossamer/dist/edge_statistics.h"

namespace gossamer::apps {

// asked: exchanges per worker and gradient; 0: nobody asked. done, gradients: of all workers, an
// exchange counted by both of its two. left_out: of MethodStats.
std::vector<std::string> exchange_warnings(const dist::RealisedRates&, double asked, double done,
                                           double gradients, const std::vector<int>& left_out);
// What was reached and asked for, per gradient, and why it is less. repeated: the part of the
// exchanges that was with the partner of the time before.
std::string rate_warning(double reached, double asked, double repeated);

}  // namespace gossamer::apps
