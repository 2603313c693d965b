// What the tests of several exercises know of simulated workers. `gossamer course check` puts this
// file beside the exercise.
#pragma once

#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/dist/simulation/problems.h"

namespace course {

// Coordinate k of the points b_i to which the workers of make_quadratic() pull, without noise: at
// the origin the gradient is -b_i.
inline std::vector<double> pulls(const gossamer::dist::Problem& problem, int workers, int k) {
  const auto dims = static_cast<std::size_t>(problem.dims());
  const std::vector<double> origin(dims);
  std::vector<double> out, g(dims);
  gossamer::Rng unused(0);
  for (int i = 0; i < workers; ++i) {
    problem.gradient(i, origin, unused, g);
    out.push_back(-g[static_cast<std::size_t>(k)]);
  }
  return out;
}

}  // namespace course
