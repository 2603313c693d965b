// How fast simulated workers agree, and how many exchanges that takes.
// Threads: any.
#pragma once

#include <cmath>
#include <optional>

#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {

struct ConsensusResult {
  // mean over seeds, workers and coordinates of (x - mean)^2; times in mean gradient durations
  std::vector<double> time, distance;
  // of the distance: minus the slope of its logarithm on [fit_from, fit_to]; NaN: nothing to fit
  double decay_rate = 0;
  // half of a 95 % confidence interval, by the spread of the seeds; NaN: one seed, or no rate
  double decay_error = NAN;
  double fit_from = 0, fit_to = 0;
  // The same of the median over seeds: a typical run. Where chance matters (few workers) it falls
  // faster, for the mean is carried by the few runs whose exchanges came late. NaN: not known
  double typical_rate = NAN;
  // of its expectation, late, where theory.h knows it: Poisson exchanges, not too many workers
  std::optional<double> exact;
  int seeds = 0;
  double exchanges = 0;  // of the whole network, mean over seeds
  // of pairs with latencies, means over seeds: exchanges of a worker per gradient of its own; the
  // part of them that was with the partner of the time before
  double per_gradient = 0, repeated = 0;
};
// time: simulated for so long; 0: 300, or less where exact says that workers agree long before.
// fit_from: the fit goes from there to the end of what is above rounding errors; < 0: over the last
// two thirds of the time in which the seeds know the mean to a tenth. seeds 0: as many as make
// about five million exchanges, from 1 to 10,000. Seeds are plan.options.seed, +1, …
ConsensusResult simulate_consensus(const SimulationPlan&, double time, int seeds = 0,
                                   double fit_from = -1);

// Minus the slope of log(y) over x, by least squares.
double fitted_exponent(std::span<const double> x, std::span<const double> y);

// Pairwise exchanges until |x - mean| is 1e-6 of what it was, from the start that is slowest for
// the graph (ring: a wave; star: two leaves that differ; complete: any). Synchronous: every edge
// exchanges in each round (Metropolis weights); accelerated: the same rounds with Chebyshev's
// recurrence, which needs the second eigenvalue; a2cid2: simulated, mean over seeds.
struct ExchangeCount {
  std::string graph;
  int workers = 0;
  double synchronous = 0, accelerated = 0, a2cid2 = 0;
  double rounds = 0, accelerated_rounds = 0;
  // of a2cid2: n/2 exchanges a unit of time over all; no worker more than one a unit of time
  double time = 0, time_limited = 0;
};
// graph: star, ring or complete
ExchangeCount count_exchanges(const std::string& graph, int workers, int seeds = 8);
// The power of n with which counts grow, by least squares over log n.
double fitted_power(const std::vector<double>& n, const std::vector<double>& counts);

}  // namespace gossamer::dist
