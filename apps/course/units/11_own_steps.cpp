// Unit 11 of the course: own steps between averages. Fill the holes, then
//   gossamer course check 11
#include <algorithm>
#include <vector>

#include "check.h"
#include "gossamer/dist/simulation/problems.h"
#include "workers.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: without noise, with gamma 0.02 and 8 own steps, (x - mean)² is 0.00657. What is
// it with 32?
const double prediction = NAN;

// The expected mean of (x_i - mean)² over the n workers and over a period: after k = 0 ... period -
// 1 own steps since all were equal. unlike: the mean of (b_i - mean b)²; noise: s², the variance
// of a gradient's noise.
double mean_distance(int period, double gamma, int n, double unlike, double noise) {
  // The first hole.
  (void)period, (void)gamma, (void)n, (void)unlike, (void)noise;
  return 0;
}

// How many models each of n workers sends in so many steps, if there is an average of all after
// every `period` of them; with pairs: an average with one other worker instead.
double models_sent(int n, int steps, int period, bool pairs) {
  // The second hole. Steps that do not fill a period end without an average.
  (void)n, (void)steps, (void)period, (void)pairs;
  return 0;
}

// DiLoCo's outer step. mean: of all models now.
void outer_step(double& outer, double& velocity, double mean, double rate, double momentum) {
  // The third hole.
  (void)outer, (void)velocity, (void)mean, (void)rate, (void)momentum;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

constexpr int kWorkers = 16;

// The mean of E(x - mean)² over a period, step by step: of a drift by gamma (b - x), or straight
// on, and of noise.
double followed(int period, double gamma, int n, double unlike, double noise, int first = 0,
                bool straight = false) {
  double drift = 0, walk = 0, sum = 0;
  for (int k = 0; k < period + first; ++k) {
    if (k >= first) sum += drift * drift * unlike + walk;
    drift += gamma * (straight ? 1 : 1 - drift);
    walk = (1 - gamma) * (1 - gamma) * walk + gamma * gamma * noise * (n - 1) / n;
  }
  return sum / period;
}

void check_distance() {
  using course::expect, course::near, course::shown, course::shown_beside;
  for (const auto& [unlike, noise] : {std::pair{1., 0.}, {0., 1.}, {2., .5}})
    for (const int period : {1, 2, 10}) {
      const double is = 1e3 * mean_distance(period, .1, 4, unlike, noise),
                   wanted = 1e3 * followed(period, .1, 4, unlike, noise);
      expect(near(is, wanted, 1e-9),
             "1,000 times the distance is " + shown_beside(wanted, is) + " with period " +
                 std::to_string(period) + ", unlike " + shown(unlike) + " and noise " +
                 shown(noise),
             near(is, 1e3 * followed(period, .1, 4, unlike, noise, 1), 1e-9)
                 ? "k runs from 0, just after an average, to period - 1"
             : near(is, 1e3 * followed(period, .1, 4, unlike, noise * 4 / 3), 1e-9)
                 ? "the mean model moves, too: of the noise 1 - 1/n is left (1. / n, for whole "
                   "numbers "
                   "give 0)"
             : near(is, 1e3 * followed(period, .1, 4, unlike, noise * noise), 1e-9)
                 ? "noise is s² already: do not square it"
             : near(is, 1e3 * followed(period, .1, 4, unlike, noise, 0, true), 1e-9)
                 ? "γk is only the start of 1 - a^k"
             : near(is, period * wanted, 1e-9)
                 ? "a mean over the period: divide by it"
                 : "it is " + shown_beside(is, wanted) +
                       ": two sums over k, of the drift squared and of noise");
    }
  course::done("the distance, with unlike data, noise, and both");
  const auto problem = make_quadratic(kWorkers, {.dims = 1, .noise = 0});
  const std::vector<double> b = course::pulls(*problem, kWorkers, 0);
  double mean = 0, unlike = 0;
  for (const double each : b) mean += each / kWorkers;
  for (const double each : b) unlike += (each - mean) * (each - mean) / kWorkers;
  SimulationOptions o;
  o.workers = kWorkers, o.method = "local-sgd", o.learning_rate = .02;
  const auto plan = plan_simulation(o);
  const double is = simulate_training(plan, *problem, 480, 1, 97).stationary_distance,
               wanted = mean_distance(8, .02, kWorkers, unlike, 0);
  expect(near(is / wanted, 1, 1e-6), "the simulator's workers are so far apart",
         "they are " + shown_beside(is, wanted) + " apart, by your function " +
             shown_beside(wanted, is));
  course::done("so far apart are the simulator's workers");
}

void check_bytes() {
  using course::expect, course::near, course::shown;
  const double of_pairs = models_sent(4, 100, 10, true), of_all = models_sent(4, 100, 10, false);
  expect(
      near(of_pairs, 10, 1e-12), "an average with one other sends a model",
      "it is " + shown(of_pairs) + ": 100 steps with period 10 have 10 averages, one model each");
  expect(near(models_sent(4, 109, 10, true), 10, 1e-12), "109 steps have 10 averages, too",
         "steps that do not fill a period end without an average: divide whole numbers");
  expect(near(of_all, 15, 1e-12), "an average of all sends 2 (n - 1) / n models",
         "it is " + shown(of_all) + " instead of 15, for 10 averages of 4 workers" +
             (near(of_all, 10, 1e-12) ? "; do you divide whole numbers?" : ""));
  course::done("what is sent");
}

void check_outer_step() {
  using course::expect, course::near, course::shown, course::shown_beside;
  double outer = 1, velocity = 0;
  outer_step(outer, velocity, .5, 1, 0);
  expect(outer == .5, "rate 1 without momentum takes the mean",
         "o is " + shown(outer) + " instead of 0.5: it goes along d = o - m, downwards");
  const auto problem = make_quadratic(kWorkers, {.dims = 1, .noise = 0});
  double b = 0;
  for (const double each : course::pulls(*problem, kWorkers, 0)) b += each / kWorkers;
  SimulationOptions o;
  o.workers = kWorkers, o.method = "diloco", o.learning_rate = .02;
  const SimulationPlan plan = plan_simulation(o);
  const auto simulation = make_simulation(plan, problem.get(), 0);
  outer = 1, velocity = 0;
  for (int round = 1; round <= 20; ++round) {
    const double before = outer, mean = b + std::pow(.98, 8) * (outer - b), v = velocity;
    outer_step(outer, velocity, mean, .7, .9);
    simulation->run_until(8. * round);
    const double is = simulation->mean()[0], d = before - mean;
    expect(near(outer, is, 1e-9), "o is that of DiLoCo after period " + std::to_string(round),
           near(before - .7 * (d + .9 * v), outer, 1e-12)
               ? "that is the heavy ball: update v first, then go along d + μ v"
           : near(velocity, .9 * v + .1 * d, 1e-12)
               ? "v <- μ v + d, without a factor"
               : "it is " + shown_beside(outer, is) + " instead of " + shown_beside(is, outer));
  }
  course::done("the outer step: as the program's DiLoCo for 20 periods");
}

int main() {
  check_distance();
  check_bytes();
  check_outer_step();
  const auto problem = make_quadratic(kWorkers, {.dims = 64, .noise = 0});
  SimulationOptions o;
  o.workers = kWorkers, o.method = "local-sgd", o.learning_rate = .02;
  o.settings.set("period", 32);
  const TrainingResult run = simulate_training(plan_simulation(o), *problem, 480, 1, 97);
  course::predicted(prediction, run.stationary_distance, .1, "the distance with 32 own steps");
  return course::end();
}
