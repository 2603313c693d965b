// Exchanges until agreement: synchronous gossip, the same with Chebyshev's acceleration, and A2CiD2
// (theory: Nabli et al. 2023, table 1).
#include <cmath>
#include <numbers>

#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/consensus.h"

namespace gossamer::dist {
namespace {

constexpr double kAgreed = 1e-6;  // of the first |x - mean|

// The eigenvector of the graph that shrinks slowest.
std::vector<double> slowest_start(const std::string& graph, int n) {
  std::vector<double> x(static_cast<std::size_t>(n));
  if (graph == "ring") {
    for (int i = 0; i < n; ++i)
      x[static_cast<std::size_t>(i)] = std::cos(2 * std::numbers::pi * i / n);
  } else {
    x[1] = 1, x[2] = -1;  // the hub of a star is worker 0
  }
  return x;
}

// W = I - weight * Laplacian; its second eigenvalue
struct Weighted {
  std::vector<Edge> edges;
  double weight;
  double second;
};

Weighted metropolis(const std::string& graph, int n) {
  Weighted w{make_graph(graph, n).edges, 0, 0};
  if (graph == "ring")
    w.weight = 1.0 / 3, w.second = (1 + 2 * std::cos(2 * std::numbers::pi / n)) / 3;
  else if (graph == "star")
    w.weight = 1.0 / n, w.second = 1 - 1.0 / n;
  else if (graph == "complete")
    w.weight = 1.0 / n, w.second = 0;
  else
    fail<ConfigError>("simulate exchanges: graph \"", graph, "\"; known are: star, ring, complete");
  return w;
}

void apply(const Weighted& w, const std::vector<double>& x, std::vector<double>& y) {
  y = x;
  for (const Edge& e : w.edges) {
    const auto a = static_cast<std::size_t>(e.a), b = static_cast<std::size_t>(e.b);
    const double d = w.weight * (x[a] - x[b]);
    y[a] -= d;
    y[b] += d;
  }
}

// of |x - mean|: the starts have mean 0, and the mean is kept
double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

// Rounds of x <- W x, or with omega_1 = 1, omega_2 = 1/(1 - rho^2/2), omega_k+1 = 1/(1 - rho^2
// omega_k/4): x_k+1 = omega_k+1 (W x_k - x_k-1) + x_k-1 (Golub & Varga 1961).
double rounds_until_agreed(const Weighted& w, const std::vector<double>& start, bool accelerated) {
  std::vector<double> before, x = start, y;
  const double goal = kAgreed * norm(start), rho2 = w.second * w.second;
  double omega = 1;
  double rounds = 0;
  while (norm(x) > goal) {
    apply(w, x, y);
    if (accelerated && rounds > 0) {
      omega = rounds == 1 ? 1 / (1 - rho2 / 2) : 1 / (1 - rho2 * omega / 4);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = omega * (y[i] - before[i]) + before[i];
    }
    before.swap(x);
    x.swap(y);
    ++rounds;
  }
  return rounds;
}

// Time until the mean over seeds of |x - mean|^2 is small enough, looked at a few hundred times.
double time_until_agreed(const SimulationPlan& plan, int seeds) {
  std::vector<std::unique_ptr<Simulation>> runs;
  for (int seed = 0; seed < seeds; ++seed)
    runs.push_back(
        make_simulation(plan, nullptr, plan.options.seed + static_cast<std::uint64_t>(seed)));
  const double step = -std::log(kAgreed) / plan.constants.eta / 400,
               goal = kAgreed * kAgreed * runs[0]->distance();
  double before = 0;
  for (double t = 0;; t += step) {
    double distance = 0;
    for (const auto& run : runs) {
      run->run_until(t);
      distance += run->distance() / seeds;
    }
    if (distance <= goal) return t - step * std::log(goal / distance) / std::log(before / distance);
    before = distance;
  }
}

}  // namespace

ExchangeCount count_exchanges(const std::string& graph, int workers, int seeds) {
  check<ConfigError>(workers >= 3 && seeds >= 1, "simulate exchanges: ", workers, " workers and ",
                     seeds, " seeds; at least 3 and 1 are needed");
  const Weighted w = metropolis(graph, workers);
  const std::vector<double> start = slowest_start(graph, workers);
  const auto edges = static_cast<double>(w.edges.size());
  ExchangeCount out{graph, workers};
  out.rounds = rounds_until_agreed(w, start, false);
  out.accelerated_rounds = rounds_until_agreed(w, start, true);
  out.synchronous = out.rounds * edges;
  out.accelerated = out.accelerated_rounds * edges;
  SimulationOptions options;
  options.graph = graph;
  options.workers = workers;
  options.dims = 1;
  SimulationPlan plan = plan_simulation(options);
  plan.start = start;
  out.time = time_until_agreed(plan, seeds);
  out.a2cid2 = out.time * workers / 2;
  double busiest = 0;  // exchanges of the hub a unit of time
  for (const int j : plan.graph.neighbours(0)) busiest += plan.graph.rate(0, j);
  out.time_limited = out.time * busiest;
  return out;
}

double fitted_power(const std::vector<double>& n, const std::vector<double>& counts) {
  std::vector<double> logs;
  for (const double each : n) logs.push_back(std::log(each));
  return -fitted_exponent(logs, counts);
}

}  // namespace gossamer::dist
