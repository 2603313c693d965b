// Unit 12 of the course: messages that hold a part, and messages that lie. Fill the holes, then
//   gossamer course check 12
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "check.h"
#include "gossamer/dist/graph/linear_algebra.h"
#include "gossamer/dist/simulation/problems.h"
#include "workers.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: with two of eight values in a message (x - mean)² settles at 0.0391. Where does
// it settle with one?
const double prediction = NAN;

using Model = std::vector<double>;

// Q(v): the k values of v that are largest in size; the others are 0.
Model largest(const Model& v, std::size_t k) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t at) { return std::abs(v[at]); });
  Model out(v.size(), 0.0);
  for (std::size_t n = 0; n < k; ++n) out[order[n]] = v[order[n]];
  return out;
}

// An exchange of all workers by replicas: each sends the k largest values of x - replica, adds them
// to its replica, and goes kappa of the way that W has for the replicas. W_ij is w(i, j), with i, j
// from 0 to w.n - 1; x[i] is the model of worker i.
void exchange(const Square& w, double kappa, std::size_t k, std::vector<Model>& x,
              std::vector<Model>& replica) {
  // The first hole.
  (void)w, (void)kappa, (void)k, (void)x, (void)replica;
}

// By what `own` is pulled towards `other`, with the weight of that neighbour: no further than by
// weight * radius.
Model pull(const Model& own, const Model& other, double weight, double radius) {
  Model out(own.size(), 0.0);
  // The second hole.
  (void)other, (void)weight, (void)radius;
  return out;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

constexpr int kWorkers = 8;
constexpr std::size_t kDims = 8;
constexpr double kRate = .05;
using Mix = std::function<void(std::vector<Model>&)>;

// Steps of workers without noise that pull to `b`, beside a simulator's; hint: what to say where
// they differ.
std::vector<Model> beside(Simulation* simulation, const std::vector<Model>& b, int steps,
                          const Mix& mix, const std::string& hint) {
  using course::expect, course::near, course::shown_beside;
  std::vector<Model> x(kWorkers, Model(kDims, 1.0));
  for (int step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t d = 0; d < kDims; ++d) x[i][d] -= kRate * (x[i][d] - b[i][d]);
    mix(x);
    if (!simulation) continue;
    simulation->run_until(step);
    double apart = 0;
    for (std::size_t d = 0; d < kDims; ++d) {
      double mean = 0;
      for (const Model& each : x) mean += each[d] / kWorkers;
      for (const Model& each : x)
        apart += (each[d] - mean) * (each[d] - mean) / (kWorkers * double{kDims});
      expect(near(mean, simulation->mean()[d], 1e-9),
             "the mean is kept, in step " + std::to_string(step),
             "what i gains, others lose; all replicas first, then all models");
    }
    const double wanted = simulation->distance();
    expect(near(apart, wanted, 1e-9),
           "(x - mean)² is " + shown_beside(wanted, apart) + " after step " + std::to_string(step),
           "it is " + shown_beside(apart, wanted) + ": " + hint);
  }
  return x;
}

SimulationOptions options_of(const char* method) {
  SimulationOptions o;
  o.workers = kWorkers, o.method = method, o.learning_rate = kRate;
  return o;
}

struct Data {
  std::unique_ptr<Problem> problem;
  std::vector<Model> b;
};
Data unlike_data() {
  Data out{make_quadratic(kWorkers, {.dims = kDims, .noise = 0}),
           std::vector<Model>(kWorkers, Model(kDims))};
  for (std::size_t d = 0; d < kDims; ++d) {
    const Model all = course::pulls(*out.problem, kWorkers, static_cast<int>(d));
    for (std::size_t i = 0; i < kWorkers; ++i) out.b[i][d] = all[i];
  }
  return out;
}

SimulationPlan choco(double share) {
  SimulationOptions o = options_of("choco");
  o.settings.set("overlap", false).set("compressed_share", share);
  return plan_simulation(o);
}

void check_replicas(const Data& data, const Square& w) {
  using course::expect;
  std::vector<Model> x(kWorkers, Model(kDims, 0.0)), replica = x;
  x[0][2] = 2, x[0][5] = -4;
  exchange(w, .5, 1, x, replica);
  expect(replica[0][5] != 0, "something is sent", "the first hole is empty");
  expect(replica[0][5] == -4 && replica[0][2] == 0, "one value is sent, the largest",
         "the message is largest(x - replica, k), and it is added to the replica");
  expect(course::near(x[1][5], -4 * .5 / 3, 1e-12), "a neighbour goes κ W_ij of the way",
         "it is at " + course::shown(x[1][5]) + " instead of " + course::shown(-4 * .5 / 3));
  expect(course::near(x[0][5], -4 + 4 * .5 * 2 / 3, 1e-12), "worker 0 goes towards its neighbours",
         "it is at " + course::shown(x[0][5]) +
             ": by the difference of two replicas, its neighbour's and its own");
  exchange(w, 0, 1, x, replica);
  expect(replica[0][2] == 2, "what was not sent is sent later",
         "send the largest of x - replica, not of x: what is known already is not news");
  const SimulationPlan plan = choco(.25);
  std::vector<Model> known(kWorkers, Model(kDims, 1.0));
  beside(
      make_simulation(plan, data.problem.get(), 0).get(), data.b, 300,
      [&](std::vector<Model>& all) { exchange(w, .4, 2, all, known); },
      "all replicas first, then all models");
  course::done("an exchange by replicas: as the program's choco for 300 steps");
}

void mix_clipped(const Square& w, double radius, std::vector<Model>& x) {
  const std::vector<Model> sent = x;
  for (int i = 0; i < kWorkers; ++i)
    for (int j = 0; j < kWorkers; ++j) {
      if (i == j || w(i, j) == 0) continue;
      const Model by = pull(sent[static_cast<std::size_t>(i)], sent[static_cast<std::size_t>(j)],
                            w(i, j), radius);
      for (std::size_t d = 0; d < kDims; ++d) x[static_cast<std::size_t>(i)][d] += by[d];
    }
}

void check_clipping(const Data& data, const Square& w) {
  using course::expect, course::near, course::shown;
  const Model near_by = pull({0, 0}, {3, 4}, .5, 10), far = pull({0, 0}, {30, 40}, .5, 10);
  expect(near(near_by[0], 1.5, 1e-12) && near(near_by[1], 2, 1e-12),
         "within the radius a neighbour pulls by weight times the difference",
         "it pulls by " + shown(near_by[0]) + ", " + shown(near_by[1]) +
             " instead of 1.5, 2: towards the other");
  expect(near(far[0], 3, 1e-12) && near(far[1], 4, 1e-12),
         "beyond it, by weight times radius, in the same direction",
         near(far[0], 5, 1e-12) && near(far[1], 5, 1e-12)
             ? "clip the length of the difference, not each value: the direction stays"
             : "it pulls by " + shown(far[0]) + ", " + shown(far[1]) + " instead of 3, 4");
  const Model none = pull({1, 2}, {1, 2}, .5, 10);
  expect(none[0] == 0 && none[1] == 0, "one that is at the same place does not pull",
         "a difference of length 0: do not divide by it");
  SimulationOptions o = options_of("clipped-gossip");
  o.settings.set("clip_radius", .1);
  const SimulationPlan plan = plan_simulation(o);
  beside(
      make_simulation(plan, data.problem.get(), 0).get(), data.b, 300,
      [&](std::vector<Model>& x) { mix_clipped(w, .1, x); }, "see pull()");
  course::done("clipping: as the program's clipped-gossip for 300 steps");
  // A liar, and all others alike: the mean of the honest rests where two pulls meet their
  // gradients.
  const std::vector<Model> x = beside(
      nullptr, std::vector<Model>(kWorkers, Model(kDims, 0.0)), 2000,
      [&](std::vector<Model>& all) {
        std::ranges::fill(all[0], 1000.0);
        mix_clipped(w, .1, all);
      },
      "");
  double squared = 0;
  for (std::size_t d = 0; d < kDims; ++d) {
    double mean = 0;
    for (std::size_t i = 1; i < kWorkers; ++i) mean += x[i][d] / (kWorkers - 1);
    squared += mean * mean;
  }
  const double rests = std::sqrt(squared), wanted = 2 * .1 / 3 / (kWorkers - 1) / kRate;
  expect(near(rests / wanted, 1, .01), "a worker that sends 1,000 moves the others by so much only",
         "they rest at " + course::shown_beside(rests, wanted) + " instead of " +
             course::shown_beside(wanted, rests));
  course::done("a worker that sends 1,000 moves the mean of the others by " + shown(rests));
}

int main() {
  const Data data = unlike_data();
  Square w(kWorkers);
  w.values = mixing_matrix(*make_rounds("ring", kWorkers), 0);
  check_replicas(data, w);
  check_clipping(data, w);
  const TrainingResult run = simulate_training(choco(.125), *data.problem, 500, 1);
  course::predicted(prediction, run.stationary_distance, .1, "the distance with one value");
  return course::end();
}
