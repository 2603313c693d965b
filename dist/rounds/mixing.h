// The weights of one worker in a round of synchronous mixing. Pure.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "gossamer/dist/graph/rounds.h"

namespace gossamer::dist {

// x_i <- (1 - phi) x_i + phi sum_j W_ij x_j, as a round of its own. phi: the consensus factor of
// Decent-DP's successor (arXiv 2602.02899); 1: the whole way, 0: none. Sums of weights stay as they
// are.
inline Round with_consensus_factor(Round round, double phi) {
  round.own = (1 - phi) + phi * round.own;
  for (Neighbour& n : round.in) n.weight *= phi;
  for (Neighbour& n : round.out) n.weight *= phi;
  return round;
}

// Push-sum (Kempe et al. 2003; SGP, Assran et al. 2019): with weights w beside the values, u = w z
// is summed by columns and z = u / w.
//   w' = own w + sum_j W_ij w_j,   z' = (own w z + sum_j W_ij w_j z_j) / w'
struct PushSum {
  double weight = 0;  // w'
  double own = 0;     // on z; the share of z_j is share(W_ij w_j)
  double share(double mass) const { return mass / weight; }
};
inline PushSum push_sum(double own_mass, double incoming_mass) {
  const double weight = own_mass + incoming_mass;
  return {weight, own_mass / weight};
}

// Self-centred clipping (He, Karimireddy, Jaggi 2022, arXiv 2202.01545): of the difference to a
// neighbour at most `radius` is used, so that none pulls further, whatever it sends:
//   x_i <- x_i + sum_j W_ij clip(x_j - x_i),   clip(v) = v min(1, radius/|v|)
// Where that clips on one side of an edge and not on the other, the mean moves.
struct Clipping {
  // 0: adaptive: the second largest distance to a neighbour, or the largest of one
  double radius = 0;
};
// W_ij times the part of each difference that is used, from their norms. None of one that is not a
// number.
inline std::vector<double> clipped(const Clipping& by, std::vector<double> weights,
                                   const std::vector<double>& distances) {
  double radius = by.radius;
  if (radius == 0) {
    std::vector<double> known = distances;
    for (double& each : known)
      if (!(each >= 0)) each = std::numeric_limits<double>::infinity();
    std::ranges::sort(known, std::greater());
    if (!known.empty()) radius = known[std::min<std::size_t>(1, known.size() - 1)];
  }
  for (std::size_t j = 0; j < weights.size(); ++j) {
    const double distance = distances[j];
    weights[j] *= distance <= radius ? 1 : distance > radius ? radius / distance : 0;
  }
  return weights;
}

}  // namespace gossamer::dist
