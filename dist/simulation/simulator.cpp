// What all simulations share: checking the options, starting values, and how far apart the workers
// are.
#include "gossamer/dist/simulation/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/plural.h"

namespace gossamer::dist {
namespace {

constexpr int kMostWorkers = 4096;
constexpr auto kSynchronous =
    std::to_array<std::string_view>({"dpsgd", "dpsgd-atc", "dadam", "accum-adam", "allreduce",
                                     "sgp", "local-sgd", "diloco", "noloco", "consensus-control"});
constexpr auto kControlled =
    std::to_array<std::string_view>({"dpsgd", "dpsgd-atc", "sgp", "local-sgd"});
constexpr auto kAsynchronous = std::to_array<std::string_view>({"a2cid2", "adpsgd", "published"});
constexpr auto kPairings =
    std::to_array<std::string_view>({"poisson", "matching", "handshake", "schedule", "rounds"});

std::string listed(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view each : names) (out += out.empty() ? "" : ", ") += each;
  return out;
}

std::string rounds_for(const SimulationOptions& o) {
  if (!o.rounds.empty()) return o.rounds;
  if (mixing_method(o) == "sgp") return "one-peer-exp-directed";
  if (o.pairing == "matching" && !is_synchronous(o.method))
    return o.graph == "ring" ? "ring-matching" : "one-peer-exp";
  return "";
}

double largest_row(const Graph& g) {
  std::vector<double> row(static_cast<std::size_t>(g.n));
  for (const Edge& e : g.edges)
    row[static_cast<std::size_t>(e.a)] += e.rate, row[static_cast<std::size_t>(e.b)] += e.rate;
  return *std::ranges::max_element(row);
}

// In each of the first rounds every worker meets one other, which meets it too, or none: those that
// follow are of the same kind.
bool in_pairs(const Rounds& rounds) {
  constexpr i64 kLooked = 64;
  for (i64 k = 0; k < std::min(rounds.period(), kLooked); ++k)
    for (int i = 0; i < rounds.workers(); ++i) {
      const std::vector<Neighbour> met = rounds.round(i, k).in;
      if (met.empty()) continue;
      const std::vector<Neighbour> back = rounds.round(met[0].worker, k).in;
      if (met.size() > 1 || back.size() != 1 || back[0].worker != i) return false;
    }
  return true;
}

}  // namespace

bool is_synchronous(const std::string& method) {
  return std::ranges::find(kSynchronous, method) != kSynchronous.end();
}
bool is_ideal(const std::string& pairing) { return pairing == "poisson" || pairing == "matching"; }
const std::string& mixing_method(const SimulationOptions& o) {
  return o.method == "consensus-control" ? o.control.method : o.method;
}

SimulationPlan plan_simulation(const SimulationOptions& o) {
  check<ConfigError>(o.workers >= 2 && o.workers <= kMostWorkers,
                     "simulate: ", counted(o.workers, "worker"), "; from 2 to ", kMostWorkers,
                     " can be simulated");
  check<ConfigError>(
      is_synchronous(o.method) || std::ranges::find(kAsynchronous, o.method) != kAsynchronous.end(),
      "simulate: method \"", o.method, "\" is unknown; known are: ", listed(kAsynchronous), ", ",
      listed(kSynchronous));
  check<ConfigError>(o.method != "consensus-control" ||
                         std::ranges::find(kControlled, o.control.method) != kControlled.end(),
                     "simulate: consensus-control of \"", o.control.method,
                     "\" is not possible; it can control: ", listed(kControlled));
  check<ConfigError>(std::ranges::find(kPairings, o.pairing) != kPairings.end(),
                     "simulate: pairing \"", o.pairing,
                     "\" is unknown; known are: ", listed(kPairings));
  check<ConfigError>(o.realised_rate == 1 || o.pairing == "poisson",
                     "simulate: a realised rate can be set with pairing poisson only");
  check<ConfigError>(o.method != "published" || o.pairing == "poisson",
                     "simulate: the published order of events is there with pairing poisson only");
  const auto positive = [](double value, const char* what) {
    check<ConfigError>(value > 0 && std::isfinite(value), "simulate: ", what, " ", value,
                       "; it must be above 0");
  };
  positive(o.rate, "rate");
  positive(o.eta_scale, "eta scale");
  positive(o.realised_rate, "realised rate");
  check<ConfigError>(o.realised_rate <= 1, "simulate: a realised rate of ", o.realised_rate,
                     "; it is a fraction, at most 1");
  check<ConfigError>(o.staleness >= 0, "simulate: a staleness of ", o.staleness,
                     "; it must be 0 or more");
  positive(o.machines.compute_s, "compute time");
  positive(o.machines.bandwidth, "bandwidth");
  positive(o.machines.node_bandwidth, "bandwidth within a node");
  check<ConfigError>(o.machines.flow_bandwidth > 0, "simulate: flow bandwidth ",
                     o.machines.flow_bandwidth, "; it must be above 0");
  check<ConfigError>(o.machines.node_size >= 1, "simulate: ", o.machines.node_size,
                     " workers of a node; at least 1 is needed");
  const auto finite = [](double value, const char* what) {
    check<ConfigError>(value >= 0 && std::isfinite(value), "simulate: ", what, " ", value,
                       "; it must be a finite number, 0 or more");
  };
  finite(o.machines.latency_s, "latency");
  finite(o.machines.node_latency_s, "latency within a node");
  finite(o.machines.bytes, "a model's bytes");
  finite(o.learning_rate, "learning rate");
  check<ConfigError>(o.machines.buckets >= 1, "simulate: ", o.machines.buckets,
                     " buckets; at least 1 is needed");
  for (const double factor : o.machines.slow) positive(factor, "a worker's slowness");
  check<ConfigError>(o.machines.slow.size() <= static_cast<std::size_t>(o.workers),
                     "simulate: worker ", o.machines.slow.size() - 1,
                     " shall be slow, but the workers are 0 to ", o.workers - 1);
  check<ConfigError>(o.dims >= 1 && o.dims <= 1 << 20, "simulate: ", o.dims,
                     " dimensions; from 1 to 2^20 can be simulated");
  check<ConfigError>(o.period >= 1, "simulate: a period of ", o.period,
                     " steps; it must be at least 1");
  check<ConfigError>(o.momentum >= 0 && o.momentum < 1, "simulate: momentum ", o.momentum,
                     "; it must be from 0 to below 1");

  SimulationPlan plan{o, make_graph(o.graph, o.workers, o.rate), {}, nullptr, {}};
  if (o.rate_is_limit) {
    const double factor = o.rate / largest_row(plan.graph);
    for (Edge& e : plan.graph.edges) e.rate *= factor;
  }
  if (!is_synchronous(o.method)) plan.constants = constants(plan.graph);
  if (const std::string name = rounds_for(o); !name.empty())
    plan.rounds = make_rounds(name, o.workers, o.machines.node_size);
  else if (is_synchronous(o.method))
    plan.rounds = make_rounds(plan.graph);
  check<ConfigError>(
      is_synchronous(o.method) || !plan.rounds || in_pairs(*plan.rounds),
      "simulate: pairing matching by the rounds ", o.rounds,
      ", in which workers do not meet in pairs; ring-matching and one-peer-exp are such");
  return plan;
}

std::vector<double> simulated_start(const SimulationPlan& plan, const Problem* problem,
                                    std::uint64_t seed, int worker) {
  if (problem) return problem->start();
  const auto d = static_cast<std::ptrdiff_t>(plan.options.dims);
  if (!plan.start.empty())
    return {plan.start.begin() + worker * d, plan.start.begin() + (worker + 1) * d};
  Rng random(seed, 0x7374617274000000u + static_cast<std::uint64_t>(worker));
  std::vector<double> x(static_cast<std::size_t>(plan.options.dims));
  for (double& each : x) each = random.normal();
  return x;
}

std::unique_ptr<Simulation> make_simulation(const SimulationPlan& plan, const Problem* problem,
                                            std::uint64_t seed) {
  if (is_synchronous(plan.options.method)) return make_round_simulation(plan, problem, seed);
  return is_ideal(plan.options.pairing) ? make_event_simulation(plan, problem, seed)
                                        : make_network_simulation(plan, problem, seed);
}

void Simulation::gather() {
  const auto n = static_cast<std::size_t>(workers_), d = static_cast<std::size_t>(dims_);
  all_.resize(n * d);
  mean_.assign(d, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<double> x(all_.data() + i * d, d);
    present(static_cast<int>(i), x);
    for (std::size_t k = 0; k < d; ++k) mean_[k] += x[k] / static_cast<double>(n);
  }
}

double Simulation::distance() {
  gather();
  const auto d = static_cast<std::size_t>(dims_);
  double sum = 0;
  for (std::size_t i = 0; i < all_.size(); i += d)
    for (std::size_t k = 0; k < d; ++k) sum += (all_[i + k] - mean_[k]) * (all_[i + k] - mean_[k]);
  return sum / static_cast<double>(all_.size());
}

std::vector<double> Simulation::mean() {
  gather();
  return mean_;
}

}  // namespace gossamer::dist
