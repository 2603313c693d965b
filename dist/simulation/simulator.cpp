// What all simulations share: checking the options, starting values, and how far apart the workers
// are.
#include "gossamer/dist/simulation/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/methods/mixes_models.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

constexpr int kMostWorkers = 4096;
constexpr auto kPairings =
    std::to_array<std::string_view>({"poisson", "matching", "handshake", "schedule", "rounds"});

std::string rounds_for(const SimulationPlan& plan) {
  const SimulationOptions& o = plan.options;
  if (!o.rounds.empty()) return o.rounds;
  if (plan.formula) return plan.formula->is_push_sum() ? "one-peer-exp-directed" : "";
  if (o.pairing == "matching") return o.graph == "ring" ? "ring-matching" : "one-peer-exp";
  return "";
}

// ConfigError for a method that can't be simulated, or settings that it doesn't have.
const MethodRow& row_of(const SimulationOptions& o) {
  const std::vector<std::string> known = simulated_methods();
  check<ConfigError>(std::ranges::find(known, o.method) != known.end(), "simulate: method \"",
                     o.method, "\" is unknown; known are: ", listed(known));
  const MethodRow& row = method_row(o.method);
  if (row.traits.controls) {
    const std::string inner = stepping_method(o.method, o.settings);
    std::vector<std::string> controllable;
    for (const MethodRow& each : method_rows())
      if (each.traits.controllable) controllable.push_back(each.traits.name);
    check<ConfigError>(std::ranges::find(controllable, inner) != controllable.end(),
                       "simulate: ", o.method, " of \"", inner,
                       "\" is not possible; it can control: ", listed(controllable));
  }
  return row;
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

void check_attacks(const SimulationOptions& o) {
  const std::vector<Injection> all = parse_injections(o.inject);
  validate(all, o.workers);
  for (const Injection& each : all) {
    check<ConfigError>(each.kind == Injection::Kind::attack && each.at_s == 0, "simulate: \"",
                       to_text(each),
                       "\" can't be simulated; attacks can, such as attack:3:alie, "
                       "from a step on: attack:3:alie@step=100");
    check<ConfigError>(!each.lies() || mixes_models(o.method, o.settings), "simulate: \"",
                       to_text(each), "\" needs workers that mix models, and those of ", o.method,
                       " don't");
  }
}

}  // namespace

std::vector<std::string> simulated_methods() {
  std::vector<std::string> names;
  for (const bool synchronous : {false, true})
    for (const MethodRow& row : method_rows())
      if (row.traits.synchronous == synchronous) names.push_back(row.traits.name);
  return names;
}

// Consensus control hands on what the method under control takes.
std::vector<NamedSetting> simulated_settings(const std::string& method, const Settings& given) {
  const MethodRow& of = method_row(method);
  std::vector<NamedSetting> all = of.simulated_settings(given);
  for (const MethodRow& row : method_rows())
    if (of.traits.controls && row.traits.controllable)
      for (NamedSetting& each : row.simulated_settings(given)) all.push_back(std::move(each));
  return all;
}

std::vector<NamedSetting> simulated_settings() {
  std::vector<NamedSetting> all;
  for (const MethodRow& row : method_rows())
    for (NamedSetting& each : row.simulated_settings({}))
      if (std::ranges::none_of(
              all, [&](const NamedSetting& s) { return s.setting.name == each.setting.name; }))
        all.push_back(std::move(each));
  return all;
}

bool is_ideal(const std::string& pairing) { return pairing == "poisson" || pairing == "matching"; }

SimulationPlan plan_simulation(const SimulationOptions& o) {
  check<ConfigError>(o.workers >= 2 && o.workers <= kMostWorkers,
                     "simulate: ", counted(o.workers, "worker"), "; from 2 to ", kMostWorkers,
                     " can be simulated");
  const MethodRow& row = row_of(o);
  const bool synchronous = row.traits.synchronous;
  check<ConfigError>(std::ranges::find(kPairings, o.pairing) != kPairings.end(),
                     "simulate: pairing \"", o.pairing,
                     "\" is unknown; known are: ", listed(kPairings));
  check<ConfigError>(o.realised_rate == 1 || o.pairing == "poisson",
                     "simulate: a realised rate can be set with pairing poisson only");
  check<ConfigError>(!row.gossip.published_order || o.pairing == "poisson",
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
  check<ConfigError>(o.momentum >= 0 && o.momentum < 1, "simulate: momentum ", o.momentum,
                     "; it must be from 0 to below 1");

  SimulationPlan plan;
  plan.options = o;
  plan.row = &row;
  if (row.gossip.tracks) plan.options.machines.bytes *= 2;  // y travels with x
  check_attacks(o);
  if (synchronous) plan.formula = row.formula(o.settings);
  plan.graph = make_graph(o.graph, o.workers, o.rate);
  if (o.rate_is_limit) {
    const double factor = o.rate / largest_row(plan.graph);
    for (Edge& e : plan.graph.edges) e.rate *= factor;
  }
  if (!synchronous) plan.constants = constants(plan.graph);
  if (const std::string name = rounds_for(plan); !name.empty())
    plan.rounds = make_rounds(name, o.workers, o.machines.node_size);
  else if (synchronous)
    plan.rounds = make_rounds(plan.graph);
  if (synchronous) row.check_rounds(*plan.rounds);
  check<ConfigError>(
      synchronous || !plan.rounds || in_pairs(*plan.rounds),
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
  if (plan.formula) return make_round_simulation(plan, problem, seed);
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
