// See consensus.h.
#include "gossamer/dist/consensus.h"

#include <cmath>

#include "gossamer/core/update.h"

namespace gossamer::dist {

double exact_consensus_distance(Tensor copy, Collectives& all) {
  Tensor mean = copy.clone();
  all.all_reduce_sum(mean);
  scale(mean, 1.0f / static_cast<float>(all.members()));
  double square[] = {squared_distance(copy, mean)};
  all.all_reduce_sum(std::span<double>(square));
  return std::sqrt(square[0] / all.members());
}

}  // namespace gossamer::dist
