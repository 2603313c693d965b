// The weights of one worker in a round of synchronous mixing. Pure.
#pragma once

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

}  // namespace gossamer::dist
