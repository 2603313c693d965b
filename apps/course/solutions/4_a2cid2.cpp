// A solution of unit 4 of the course: gossip with a second copy.
#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: at which rate do 64 workers on a ring agree by A2CiD2? Plain gossip: 0.0048.
const double prediction = .0567;

// eta and alpha~ of a graph.
struct Numbers {
  double eta = 0, alpha_tilde = .5;
};
Numbers numbers_of(double chi1, double chi2) {
  Numbers numbers;
  numbers.eta = 1 / (2 * std::sqrt(chi1 * chi2));
  numbers.alpha_tilde = std::sqrt(chi1 / chi2) / 2;
  return numbers;
}

// x and its twin after the time dt without an event: the exact solution of
//   x' = eta (twin - x), twin' = eta (x - twin)
void drift(double& x, double& twin, double eta, double dt) {
  const double c = (1 + std::exp(-2 * eta * dt)) / 2, s = 1 - c, before = x;
  x = c * x + s * twin, twin = s * before + c * twin;
}

// This worker's side of an exchange, d = x_own - x_peer.
void exchange(double& x, double& twin, double d, double alpha_tilde) {
  x -= d / 2, twin -= alpha_tilde * d;
}
