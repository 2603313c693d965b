// A solution of unit 9 of the course: what a learning rate does to the mean model and to a worker's
// own.
#include <vector>

#include "check.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/simulation/problems.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: 16 workers take 400 steps. Which learning rate is best for their mean model?
// (For 100 steps it is 0.0429.)
const double prediction = .0126;

struct Loss {
  double of_mean = 0;    // of the mean model
  double of_worker = 0;  // of a worker's own model, mean over workers
};

// The expected loss ½|x|² in d dimensions after t steps of
//   x_i <- sum over j of W_ij (x_j - gamma (x_j + noise_j)),
// noise of variance 1 in each coordinate, from x = 1. eigenvalues: all n of W, the largest, 1,
// first.
Loss expected_loss(double gamma, int t, int d, const std::vector<double>& eigenvalues) {
  const auto n = static_cast<double>(eigenvalues.size());
  // What noise of variance 1 leaves of a mode that shrinks by l a in a step.
  const auto noise = [&](double l) {
    const double keep = l * l * (1 - gamma) * (1 - gamma);
    return l * l * gamma * gamma * (1 - std::pow(keep, t)) / (1 - keep);
  };
  double distance = 0;
  for (std::size_t k = 1; k < eigenvalues.size(); ++k) distance += noise(eigenvalues[k]) / n;
  const double mean = std::pow(1 - gamma, 2. * t) + noise(1) / n;
  return {.of_mean = d * mean / 2, .of_worker = d * (mean + distance) / 2};
}
