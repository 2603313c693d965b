// Unit 9 of the course: what a learning rate does to the mean model and to a worker's own. Fill the
// hole, then
//   gossamer course check 9
#include <vector>

#include "check.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/simulation/problems.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: 16 workers take 400 steps. Which learning rate is best for their mean model?
// (For 100 steps it is 0.0429.)
const double prediction = NAN;

struct Loss {
  double of_mean = 0;    // of the mean model
  double of_worker = 0;  // of a worker's own model, mean over workers
};

// The expected loss ½|x|² in d dimensions after t steps of
//   x_i <- sum over j of W_ij (x_j - gamma (x_j + noise_j)),
// noise of variance 1 in each coordinate, from x = 1. eigenvalues: all n of W, the largest, 1,
// first.
Loss expected_loss(double gamma, int t, int d, const std::vector<double>& eigenvalues) {
  Loss loss;
  // The hole. std::pow(v, 2. * t) is v^(2t).
  (void)gamma, (void)t, (void)d, (void)eigenvalues;
  return loss;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

// A moment that is followed step by step: E v² of v <- keep v + noise.
double moment(double start, double keep, double noise_variance, int t) {
  for (int k = 0; k < t; ++k) start = keep * keep * start + noise_variance;
  return start;
}

void check_on(const char* graph, int n, double gamma, int t) {
  using course::expect, course::near, course::shown, course::shown_beside;
  constexpr int d = 5;
  const std::vector<double> eigenvalues = mixing_eigenvalues(*make_rounds(graph, n));
  const Loss loss = expected_loss(gamma, t, d, eigenvalues);
  const std::string there = std::string(" on the ") + graph + " of " + std::to_string(n) +
                            " after " + std::to_string(t) + (t == 1 ? " step of " : " steps of ") +
                            shown(gamma);
  const double a = 1 - gamma;
  const double mean = moment(1, a, gamma * gamma / n, t), alone = moment(1, a, gamma * gamma, t);
  double distance = 0, late = 0;
  for (std::size_t k = 1; k < eigenvalues.size(); ++k) {
    const double l = eigenvalues[k];
    distance += moment(0, l * a, l * l * gamma * gamma, t) / n;
    late += moment(0, l * a, gamma * gamma, t) / n;
  }
  const double is = loss.of_mean, wanted = d * mean / 2;
  expect(near(is, wanted, 1e-9), "the mean model's loss is " + shown_beside(wanted, is) + there,
         near(is, d * alone / 2, 1e-9)
             ? "that is the loss of one worker: the mean of n noises has the variance 1/n"
         : near(is, d / 2 * mean, 1e-9)
             ? "it is " + shown(is) + ": d / 2 divides whole numbers, and loses a half"
         : t == 0 ? "nothing has been done yet: all are at x = 1, which costs d/2"
                  : "it is " + shown_beside(is, wanted) +
                        ": d/2 times what is left of the start, and of noise");
  const double apart = loss.of_worker - loss.of_mean;
  expect(near(apart, d * distance / 2, 1e-9),
         "a worker's own model costs " + shown_beside(d * distance / 2, apart) + " more" + there,
         near(apart, d * late / 2, 1e-9)
             ? "noise is mixed in the step in which it is drawn: λ² γ² of it arrives"
         : near(loss.of_worker, d * distance / 2, 1e-9)
             ? "of_worker is the loss of the mean model plus d/2 times the distance"
         : near(apart, d / 2 * distance, 1e-9) ? "d / 2 divides whole numbers, and loses a half"
         : near(apart, d * distance / 2 * n / (n - 1), 1e-9)
             ? "the distance is a mean over n workers: divide the sum over modes by n, not n - 1"
         : near(apart, d * distance / 2 * n, 1e-9)
             ? "the distance is a mean over workers: divide the sum over modes by n"
         : near(apart, d * (distance + mean / n) / 2, 1e-9) ||
                 near(apart, d * (distance + (alone - std::pow(a, 2. * t)) / n) / 2, 1e-9)
             ? "the first eigenvalue is that of the mean: the distance begins with the second"
             : "it is " + shown_beside(apart, d * distance / 2) +
                   ": d/2 times the mean over workers of E (x - mean)²");
}

int main() {
  using course::expect;
  for (const char* graph : {"ring", "star", "complete"})
    for (const int t : {0, 1, 2, 50})
      for (const double gamma : {.03, .3}) check_on(graph, 12, gamma, t);
  course::done("both losses are right after 0 to 50 steps, on three graphs");

  constexpr int n = 16, d = 64;
  SimulationOptions options;
  options.method = "dpsgd-atc", options.workers = n, options.learning_rate = .1;
  const auto problem = make_quadratic(n, {.dims = d, .heterogeneity = 0});
  const TrainingResult found = simulate_training(plan_simulation(options), *problem, 300, 4, 100);
  const auto eigenvalues = mixing_eigenvalues(*make_rounds("ring", n));
  const double settled = expected_loss(.1, 300, d, eigenvalues).of_mean;
  expect(course::near(settled / found.stationary_loss, 1, .05), "the simulator settles there",
         "it settles at " + course::shown(found.stationary_loss));
  course::done("16 simulated workers settle at " + course::shown(found.stationary_loss) +
               ", expected " + course::shown(settled));

  double best = 0, least = INFINITY;
  for (double gamma = .001; gamma < .1; gamma += .0001)
    if (const double loss = expected_loss(gamma, 400, d, eigenvalues).of_mean; loss < least)
      best = gamma, least = loss;
  course::predicted(prediction, best, .1, "the best learning rate for 400 steps");
  return course::end();
}
