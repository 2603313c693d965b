// Agreement without gradients: distance over time, averaged over seeds, and its decay.
#include "gossamer/dist/simulation/consensus.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

constexpr int kSamples = 90;
constexpr double kRounding = 1e-24;  // of the first distance: below it, rounding errors show
constexpr double kEventsOfAllSeeds = 5e6;
constexpr int kMostSeeds = 10'000;
constexpr double kLongest = 300;  // unless more is asked for
// E(x - mean)^2 is then e^-20 of what it was late in the run
constexpr double kDecays = 20;
// The mean over seeds is fitted while its standard error is below this part of it.
constexpr double kKnown = .1;
// the exact exponent shall not take longer than the simulation
constexpr int kMostWorkersExactly = 256;

std::optional<double> exact_decay(const SimulationPlan& plan) {
  const SimulationOptions& o = plan.options;
  if (o.pairing != "poisson" || o.workers > kMostWorkersExactly || plan.formula ||
      plan.row->gossip.published_order)
    return std::nullopt;
  Graph g = plan.graph;
  for (Edge& e : g.edges) e.rate *= o.realised_rate;
  if (!plan.row->gossip.accelerated)
    return decay_exponent(g, 0, plan.constants.alpha, plan.constants.alpha);
  return decay_exponent(g, o.eta_scale * plan.constants.eta, plan.constants.alpha,
                        plan.constants.alpha_tilde);
}

// Distances of all seeds, [seeds, times].
struct Runs {
  std::size_t times;
  std::vector<double> all;
  std::size_t count() const { return all.size() / times; }
  double at(std::size_t seed, std::size_t k) const { return all[seed * times + k]; }

  double mean(std::size_t k) const {
    double sum = 0;
    for (std::size_t s = 0; s < count(); ++s) sum += at(s, k);
    return sum / static_cast<double>(count());
  }
  double median(std::size_t k) const {
    std::vector<double> at_k(count());
    for (std::size_t s = 0; s < count(); ++s) at_k[s] = at(s, k);
    const auto middle = at_k.begin() + static_cast<std::ptrdiff_t>(count() / 2);
    std::ranges::nth_element(at_k, middle);
    return *middle;
  }
};

// The standard error of the mean over seeds of f(seed).
template <class F>
double standard_error(std::size_t seeds, F&& f) {
  const auto n = static_cast<double>(seeds);
  double sum = 0, squares = 0;
  for (std::size_t s = 0; s < seeds; ++s) {
    const double v = f(s);
    sum += v, squares += v * v;
  }
  return seeds < 2 ? NAN : std::sqrt(std::max(0., squares - sum * sum / n) / n / (n - 1));
}

// How many of the first values are above rounding errors.
std::size_t above_rounding(std::span<const double> values) {
  std::size_t end = 0;
  while (end < values.size() && values[end] > kRounding * values[0]) ++end;
  return end;
}

// Of the fitted slope, by the first order of its logarithms: one seed changes the slope by the sum
// of slope_weight(k) times its distance relative to the mean.
double slope_error(const Runs& runs, std::span<const double> time, std::span<const double> mean,
                   std::size_t begin, std::size_t end) {
  double middle = 0, spread = 0;
  for (std::size_t k = begin; k < end; ++k) middle += time[k] / static_cast<double>(end - begin);
  for (std::size_t k = begin; k < end; ++k) spread += (time[k] - middle) * (time[k] - middle);
  return standard_error(runs.count(), [&](std::size_t s) {
    double sum = 0;
    for (std::size_t k = begin; k < end; ++k)
      sum += (time[k] - middle) / spread * runs.at(s, k) / mean[k];
    return sum;
  });
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
  check<ConfigError>(time >= 0 && std::isfinite(time), "simulate consensus: a time of ", time,
                     "; it must be above 0");
  check<ConfigError>(!plan.traits().controls, "simulate consensus: ", plan.options.method,
                     " has nothing to do without gradients, which ",
                     "drive workers apart; quadratic and logreg have them");
  check<ConfigError>(seeds >= 0, "simulate consensus: ", seeds, " seeds; at least 1 is needed");
  ConsensusResult out;
  out.exact = exact_decay(plan);
  if (time == 0)
    time = out.exact && *out.exact > 0 ? std::min(kLongest, std::ceil(kDecays / *out.exact))
                                       : kLongest;
  check<ConfigError>(fit_from < time, "simulate consensus: the fit shall begin at ", fit_from,
                     ", after the end at ", time);
  const double events = plan.options.rate * plan.options.workers / 2 * time;
  out.seeds = seeds > 0
                  ? seeds
                  : static_cast<int>(std::clamp(kEventsOfAllSeeds / events, 1., 1. * kMostSeeds));
  // Rounds happen at whole times; between them nothing changes.
  const bool rounds = plan.formula || plan.options.pairing == "matching";
  for (int k = 0; k <= kSamples; ++k) {
    const double t = rounds ? std::floor(time * k / kSamples) : time * k / kSamples;
    if (out.time.empty() || t > out.time.back()) out.time.push_back(t);
  }
  Runs runs{out.time.size(), {}};
  for (int seed = 0; seed < out.seeds; ++seed) {
    const auto simulation =
        make_simulation(plan, nullptr, plan.options.seed + static_cast<std::uint64_t>(seed));
    for (const double t : out.time) {
      simulation->run_until(t);
      runs.all.push_back(simulation->distance());
    }
    const auto exchanges = static_cast<double>(simulation->exchanges());
    out.exchanges += exchanges / out.seeds;
    if (simulation->gradients() > 0)
      out.per_gradient += 2 * exchanges / static_cast<double>(simulation->gradients()) / out.seeds;
    if (exchanges > 0)
      out.repeated += static_cast<double>(simulation->repeats()) / (2 * exchanges) / out.seeds;
  }
  std::vector<double> typical;
  for (std::size_t k = 0; k < runs.times; ++k) {
    out.distance.push_back(runs.mean(k));
    typical.push_back(runs.median(k));
  }
  std::size_t end = above_rounding(out.distance);
  const auto error = [&](std::size_t k) {
    return standard_error(runs.count(), [&](std::size_t s) { return runs.at(s, k); });
  };
  if (fit_from < 0)
    while (end > 1 && error(end - 1) > kKnown * out.distance[end - 1]) --end;
  out.fit_to = end > 0 ? out.time[end - 1] : 0;
  const double from = fit_from >= 0 ? fit_from : out.fit_to / 3;
  const auto begin =
      static_cast<std::size_t>(std::ranges::lower_bound(out.time, from - 1e-9) - out.time.begin());
  out.fit_from = begin < out.time.size() ? out.time[begin] : from;
  // NaN where exact means (all-reduce, local SGD) take the distance to 0 in one step: what was
  // before that says nothing of a rate.
  const auto rate = [&](std::span<const double> values, std::size_t last) {
    const bool decays =
        begin + 2 < last && (last == values.size() || values[last - 1] != values[begin]);
    return decays ? fitted_exponent(std::span(out.time).subspan(begin, last - begin),
                                    values.subspan(begin, last - begin))
                  : NAN;
  };
  out.decay_rate = rate(out.distance, end);
  if (std::isfinite(out.decay_rate))
    out.decay_error = 1.96 * slope_error(runs, out.time, out.distance, begin, end);
  out.typical_rate = rate(typical, std::min(end, above_rounding(typical)));
  return out;
}

}  // namespace gossamer::dist
