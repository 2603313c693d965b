// What simulated workers can train on, and what comes of it over time.
// Threads: any.
#pragma once

#include <optional>

#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {

// f_i(x) = 1/2 sum_k h_k (x_k - b_ik)^2, with b_ik normal of deviation `heterogeneity` and h_k from
// curvature / condition to curvature, evenly on a logarithmic scale; gradients have normal noise of
// deviation `noise` in each coordinate. All start at x = 1. curvature 0: noise only, so the
// distance between workers is that of a random walk with gossip.
struct QuadraticOptions {
  int dims = 16;
  double curvature = 1, condition = 1, heterogeneity = 1, noise = 1;
  std::uint64_t seed = 0;
};
std::unique_ptr<Problem> make_quadratic(int workers, const QuadraticOptions&);

// Logistic regression on `samples` made-up points a worker, in `dims` - 1 features and a constant:
// y = 1 or -1 with odds exp(3 w_i.a). Workers see different points (their features are shifted) and
// different labels (w_i differs), both by normal values of deviation `heterogeneity`. Gradients are
// of `batch` points drawn at random. All start at 0; loss() is above the minimum over all data,
// found by Newton's method.
struct LogisticOptions {
  int dims = 16, samples = 128, batch = 8;
  double heterogeneity = 0.5, l2 = 1e-3;
  // workers that see the opposite of each label; loss() goes by the true ones
  std::vector<int> wrong_labels{};
  std::uint64_t seed = 0;
};
std::unique_ptr<Problem> make_logistic(int workers, const LogisticOptions&);

// What consensus control made of it: Xi = sqrt(mean |x_i - mean|^2) and its target at
// TrainingResult::time (0: none), means over seeds.
struct ControlResult {
  std::vector<double> xi, target;
  ControlTally tally;  // of all seeds
  // beyond the method's own, of the whole network, mean over seeds
  double exchanges = 0;
};
struct TrainingResult {
  // Of the mean model above its minimum; mean (x - mean)^2; means over seeds. Of asynchronous
  // methods at `time`, of synchronous ones over all steps after the time before and up to this one.
  std::vector<double> time, loss, distance;
  double final_loss = 0;  // of the mean model at the end
  // means over time from stationary_from on
  double stationary_loss = 0, stationary_distance = 0;
  double stationary_from = 0;
  int seeds = 0;
  double gradients = 0, exchanges = 0;   // of the whole network, means over seeds
  std::optional<ControlResult> control;  // of consensus-control
};
// stationary_from < 0: time / 3. The run ends at `time`: control's phases are fractions of it.
TrainingResult simulate_training(const SimulationPlan&, const Problem&, double time, int seeds,
                                 double stationary_from = -1);

}  // namespace gossamer::dist
