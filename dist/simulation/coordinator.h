// The pairing of the code published with A2CiD2 (p2p_sync.py, p2p_averaging.py, adp.py), in time:
// worker 0 hears who is free, in order of arrival, and pairs it with a free neighbour. A worker's
// gradients and its exchanges meet at a barrier after each gradient, so an exchange that comes late
// holds the next gradient up. Both sides send one after the other.
#pragma once

#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {

struct CoordinatedRun {
  std::vector<i64> gradients, exchanges;  // of each worker
  std::vector<double> waited_s;           // of each worker at the barrier
  double seconds = 0;                     // until all workers together have done so many gradients
};
// Ends after `gradients` of all workers together. The exchanges of a worker and gradient are drawn
// from a Poisson distribution of mean plan.options.rate >= 1, of which at least one happens; even:
// exactly the rate.
CoordinatedRun coordinated_run(const SimulationPlan&, i64 gradients, bool even = false);

}  // namespace gossamer::dist
