// Lies of simulated workers.
#include "gossamer/dist/simulation/liars.h"

#include <algorithm>

namespace gossamer::dist {

std::optional<Attack> Liars::lie_of(int worker, i64 steps) const {
  const auto found = std::ranges::find_if(all_, [&](const Injection& each) {
    return each.lies() && each.rank == worker && steps >= each.at_step;
  });
  return found == all_.end() ? std::nullopt : std::optional(found->how);
}

std::span<const double> PairLies::said(int from, int to, i64 steps, std::span<const double> x,
                                       std::span<const double> target,
                                       FunctionRef<void(int, std::span<double>)> look,
                                       std::vector<double>& lie) const {
  const std::optional<Attack> attack = liars_.any() ? liars_.lie_of(from, steps) : std::nullopt;
  if (!attack || liars_.lie_of(to, steps)) return x;
  std::vector<std::vector<double>> models;
  double liars = 1;
  for (const int each : graph_.neighbours(to)) {
    if (each == from) continue;
    if (liars_.lie_of(each, steps)) {
      ++liars;
      continue;
    }
    look(each, models.emplace_back(target.size()));
  }
  std::vector<KnownModel<double>> others;
  for (const std::vector<double>& each : models) others.push_back({1, each});
  lie.resize(x.size());
  dist::lie<double>(*attack, x, target, liars, others, lie);
  return lie;
}

}  // namespace gossamer::dist
