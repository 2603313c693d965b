// A solution of unit 11 of the course: own steps between averages.
#include <algorithm>
#include <vector>

#include "check.h"
#include "gossamer/dist/simulation/problems.h"
#include "workers.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: without noise, with gamma 0.02 and 8 own steps, (x - mean)² is 0.00657. What is
// it with 32?
const double prediction = .087;

// The expected mean of (x_i - mean)² over the n workers and over a period: after k = 0 ... period -
// 1 own steps since all were equal. unlike: the mean of (b_i - mean b)²; noise: s², the variance
// of a gradient's noise.
double mean_distance(int period, double gamma, int n, double unlike, double noise) {
  const double a = 1 - gamma;
  double sum = 0;
  for (int k = 0; k < period; ++k) {
    const double drift = 1 - std::pow(a, k);
    const double walk = gamma * gamma * (1 - std::pow(a, 2 * k)) / (1 - a * a);
    sum += drift * drift * unlike + (1 - 1. / n) * noise * walk;
  }
  return sum / period;
}

// How many models each of n workers sends in so many steps, if there is an average of all after
// every `period` of them; with pairs: an average with one other worker instead.
double models_sent(int n, int steps, int period, bool pairs) {
  const int averages = steps / period;
  return averages * (pairs ? 1 : 2. * (n - 1) / n);
}

// DiLoCo's outer step. mean: of all models now.
void outer_step(double& outer, double& velocity, double mean, double rate, double momentum) {
  const double d = outer - mean;
  velocity = momentum * velocity + d;
  outer -= rate * (d + momentum * velocity);
}
