// Agreement without gradients: distance over time, averaged over seeds, and its decay.
#include "gossamer/dist/simulation/consensus.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/theory.h"

namespace gossamer::dist {
namespace {

constexpr int kSamples = 90;
constexpr double kRounding = 1e-24;  // of the first distance: below it, rounding errors show
constexpr double kEventsOfAllSeeds = 2e7;
// the exact exponent shall not take longer than the simulation
constexpr int kMostWorkersExactly = 256;

std::optional<double> exact_decay(const SimulationPlan& plan) {
  const SimulationOptions& o = plan.options;
  if (o.pairing != "poisson" || o.workers > kMostWorkersExactly ||
      (o.method != "a2cid2" && o.method != "adpsgd"))
    return std::nullopt;
  Graph g = plan.graph;
  for (Edge& e : g.edges) e.rate *= o.realised_rate;
  if (o.method == "adpsgd") return decay_exponent(g, 0, plan.constants.alpha, plan.constants.alpha);
  return decay_exponent(g, o.eta_scale * plan.constants.eta, plan.constants.alpha,
                        plan.constants.alpha_tilde);
}

}  // namespace

double fitted_exponent(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(y.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double v = std::log(y[i]);
    sx += x[i], sy += v, sxx += x[i] * x[i], sxy += x[i] * v;
  }
  return -(n * sxy - sx * sy) / (n * sxx - sx * sx);
}

ConsensusResult simulate_consensus(const SimulationPlan& plan, double time, int seeds,
                                   double fit_from) {
  check<ConfigError>(time > 0 && std::isfinite(time), "simulate consensus: a time of ", time,
                     "; it must be above 0");
  check<ConfigError>(
      plan.options.method != "consensus-control",
      "simulate consensus: consensus-control has nothing to do without gradients, which ",
      "drive workers apart; quadratic and logreg have them");
  check<ConfigError>(seeds >= 0, "simulate consensus: ", seeds, " seeds; at least 1 is needed");
  check<ConfigError>(fit_from < time, "simulate consensus: the fit shall begin at ", fit_from,
                     ", after the end at ", time);
  ConsensusResult out;
  const double events = plan.options.rate * plan.options.workers / 2 * time;
  out.seeds = seeds > 0 ? seeds : std::clamp(static_cast<int>(kEventsOfAllSeeds / events), 1, 40);
  // Rounds happen at whole times; between them nothing changes.
  const bool rounds = is_synchronous(plan.options.method) || plan.options.pairing == "matching";
  for (int k = 0; k <= kSamples; ++k) {
    const double t = rounds ? std::floor(time * k / kSamples) : time * k / kSamples;
    if (out.time.empty() || t > out.time.back()) out.time.push_back(t);
  }
  out.distance.assign(out.time.size(), 0.0);
  for (int seed = 0; seed < out.seeds; ++seed) {
    const auto simulation =
        make_simulation(plan, nullptr, plan.options.seed + static_cast<std::uint64_t>(seed));
    for (std::size_t k = 0; k < out.time.size(); ++k) {
      simulation->run_until(out.time[k]);
      out.distance[k] += simulation->distance() / out.seeds;
    }
    out.exchanges += static_cast<double>(simulation->exchanges()) / out.seeds;
  }
  out.exact = exact_decay(plan);
  std::size_t end = 0;
  while (end < out.distance.size() && out.distance[end] > kRounding * out.distance[0]) ++end;
  out.fit_to = end > 0 ? out.time[end - 1] : 0;
  const double from = fit_from >= 0 ? fit_from : out.fit_to / 3;
  const auto begin =
      static_cast<std::size_t>(std::ranges::lower_bound(out.time, from - 1e-9) - out.time.begin());
  out.fit_from = begin < out.time.size() ? out.time[begin] : from;
  const auto part = [&](const std::vector<double>& all) {
    return std::span(all).subspan(begin, end - begin);
  };
  // Exact means (all-reduce, local SGD) take the distance to 0 in one step: what was before that
  // says nothing of a rate.
  const bool decays = begin + 2 < end &&
                      (end == out.distance.size() || out.distance[end - 1] != out.distance[begin]);
  out.decay_rate = decays ? fitted_exponent(part(out.time), part(out.distance)) : NAN;
  return out;
}

}  // namespace gossamer::dist
