// Unit 4 of the course: gossip with a second copy. Fill the three holes, then
//   gossamer course check 4
#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/theory.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: at which rate do 64 workers on a ring agree by A2CiD2? Plain gossip: 0.0048.
const double prediction = NAN;

// eta and alpha~ of a graph.
struct Numbers {
  double eta = 0, alpha_tilde = .5;
};
Numbers numbers_of(double chi1, double chi2) {
  Numbers numbers;
  // The first hole.
  (void)chi1, (void)chi2;
  return numbers;
}

// x and its twin after the time dt without an event: the exact solution of
//   x' = eta (twin - x), twin' = eta (x - twin)
void drift(double& x, double& twin, double eta, double dt) {
  // The second hole.
  (void)x, (void)twin, (void)eta, (void)dt;
}

// This worker's side of an exchange, d = x_own - x_peer.
void exchange(double& x, double& twin, double d, double alpha_tilde) {
  // The third hole.
  (void)x, (void)twin, (void)d, (void)alpha_tilde;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

// Workers on a ring of 64 until `time`, exchanges at Poisson times. Calls see(t, distance) at each
// whole time.
template <class See>
void ring_of_64(const Numbers& numbers, std::uint64_t seed, int time, See see) {
  constexpr int n = 64, dims = 16;
  Rng random(seed);
  double x[n][dims], twin[n][dims], last[n] = {};
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < dims; ++k) twin[i][k] = x[i][k] = random.normal();
  const auto bring = [&](int i, double now) {
    for (int k = 0; k < dims; ++k) drift(x[i][k], twin[i][k], numbers.eta, now - last[i]);
    last[i] = now;
  };
  double next = random.exponential() / (n / 2);
  for (int t = 0; t <= time; ++t) {
    for (; next < t; next += random.exponential() / (n / 2)) {
      const int i = static_cast<int>(random.below(n)), j = (i + 1) % n;
      bring(i, next), bring(j, next);
      for (int k = 0; k < dims; ++k) {
        const double d = x[i][k] - x[j][k];
        exchange(x[i][k], twin[i][k], d, numbers.alpha_tilde);
        exchange(x[j][k], twin[j][k], -d, numbers.alpha_tilde);
      }
    }
    double sum[dims] = {}, both[dims] = {}, distance = 0;
    for (int i = 0; i < n; ++i) {
      bring(i, t);
      for (int k = 0; k < dims; ++k)
        sum[k] += x[i][k] / n, both[k] += (x[i][k] + twin[i][k]) / (2 * n);
    }
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < dims; ++k) distance += std::pow(x[i][k] - sum[k], 2) / (n * dims);
    see(t, distance, both[0]);
  }
}

int main() {
  using course::expect;
  // two drifts are one
  double x = 3, twin = -1, y = 3, other = -1;
  drift(x, twin, .2, 5);
  expect(x != 3 || twin != -1, "x and its twin move between events", "the second hole is empty");
  expect(course::near(x + twin, 2, 1e-12), "a drift keeps the mean of x and its twin",
         "both move: what x gains the twin loses");
  drift(y, other, .2, 2), drift(y, other, .2, 3);
  expect(course::near(x, y, 1e-12), "drifts of 2 and 3 are a drift of 5",
         "x + eta (twin - x) dt is right for a small dt only. (x + twin)/2 stays, and x - twin "
         "falls as e^(-2 eta dt)");
  expect(course::near(x - twin, 4 * std::exp(-2.0), 1e-12), "x - twin falls as e^(-2 eta dt)",
         "each of the two approaches the other, so their distance falls at the rate 2 eta");
  course::done("the drift");

  double a = 5, a_twin = 5, b = 1, b_twin = 1;
  exchange(a, a_twin, 4, 1.5), exchange(b, b_twin, -4, 1.5);
  expect(a != 5 || a_twin != 5, "an exchange moves x and its twin", "the third hole is empty");
  expect(a + b == 6, "an exchange keeps the mean", "x loses half of d = x_own - x_peer");
  expect(a == 3 && b == 3, "both workers hold the mean of their models", "x -= d / 2");
  expect(a_twin == -1 && b_twin == 7, "the twins overshoot", "the twin loses alpha~ d");
  course::done("the exchange");

  const Graph ring = make_graph("ring", 64);
  const GraphConstants k = constants(ring);
  const Numbers numbers = numbers_of(k.chi1, k.chi2);
  expect(numbers.eta > 0, "eta is above 0", "the first hole is empty");
  expect(course::near(numbers.eta, k.eta, 1e-9),
         "eta is " + course::shown_beside(k.eta, numbers.eta),
         "it is " + course::shown_beside(numbers.eta, k.eta) + "; 1 / (2 sqrt(chi1 chi2))");
  expect(course::near(numbers.alpha_tilde, k.alpha_tilde, 1e-9),
         "alpha~ is " + course::shown_beside(k.alpha_tilde, numbers.alpha_tilde),
         "it is " + course::shown_beside(numbers.alpha_tilde, k.alpha_tilde) +
             "; sqrt(chi1 / chi2) / 2");
  course::done("eta and alpha~ of the ring of 64");

  constexpr int time = 200, from = 100, seeds = 200;
  double distance[time + 1] = {};
  for (int seed = 0; seed < seeds; ++seed) {
    double start = 0;
    ring_of_64(numbers, static_cast<std::uint64_t>(seed), time, [&](int t, double d, double mean) {
      if (t == 0) start = mean;
      expect(course::near(mean, start, 1e-9), "the mean never moves",
             "it has moved by " + course::shown(mean - start));
      distance[t] += d / seeds;
    });
  }
  const double rate = std::log(distance[from] / distance[time]) / (time - from);
  expect(rate >= .05, "the ring of 64 agrees at a rate of .05 or more",
         "it is " + course::shown_beside(rate, .05));
  const double exact = *decay_exponent(ring, numbers.eta, .5, numbers.alpha_tilde);
  expect(exact >= .054, "in the long run the rate is .054 or more",
         "it is " + course::shown_beside(exact, .054));
  course::done("the ring of 64 agrees at a rate of " + course::shown(rate) + ", in the long run " +
               course::shown(exact));
  course::predicted(prediction, exact, .25, "the rate");
  return course::end();
}
