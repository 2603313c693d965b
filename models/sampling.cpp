// See sampling.h.
#include "gossamer/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "gossamer/core/error.h"

namespace gossamer::models {

void check_choice(const Choice& o) {
  check<ConfigError>(std::isfinite(o.temperature) && o.temperature >= 0,
                     "temperature = ", o.temperature, "; it must be 0 (the likeliest id) or above");
  check<ConfigError>(o.top_k >= 0, "top-k = ", o.top_k, "; it must be 0 (all ids) or more");
  check<ConfigError>(o.top_p > 0 && o.top_p <= 1, "top-p = ", o.top_p,
                     "; it must be above 0, up to 1 (all ids)");
  check<ConfigError>(o.min_p >= 0 && o.min_p <= 1, "min-p = ", o.min_p,
                     "; it must be 0 (all ids) up to 1");
  check<ConfigError>(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
                     "repetition penalty = ", o.repetition_penalty,
                     "; it must be above 0; 1 changes nothing");
  check<ConfigError>(o.known >= 0, "known = ", o.known, "; it must be 0 (all ids) or more");
}

i64 largest(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

i64 sample(std::span<const float> logits, const Choice& options, double uniform,
           std::span<const std::int32_t> seen) {
  check_choice(options);
  std::vector<float> penalised(logits.begin(), logits.end());
  const auto penalty = static_cast<float>(options.repetition_penalty);
  for (const std::int32_t id : std::set(seen.begin(), seen.end())) {
    float& x = penalised.at(static_cast<std::size_t>(id));
    x = x > 0 ? x / penalty : x * penalty;
  }
  logits = penalised;
  if (options.known > 0 && options.known < static_cast<i64>(logits.size()))
    logits = logits.first(static_cast<std::size_t>(options.known));
  for (const float v : logits) check(!std::isnan(v), "a logit is not a number");
  const i64 best = largest(logits);
  const double top = static_cast<double>(logits[static_cast<std::size_t>(best)]);
  check(std::isfinite(top), "the largest of ", logits.size(), " logits is ", top);
  if (options.temperature == 0) return best;

  struct Candidate {
    i64 id;
    double weight;  // not normalized
  };
  float least = -INFINITY;
  if (const auto k = static_cast<std::size_t>(options.top_k); k > 0 && k < logits.size()) {
    std::vector<float> sorted(logits.begin(), logits.end());
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::ranges::nth_element(sorted, at, std::greater<>());
    least = *at;
  }
  std::vector<Candidate> candidates;
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < least) continue;
    const double weight = std::exp((static_cast<double>(logits[i]) - top) / options.temperature);
    candidates.push_back({static_cast<i64>(i), weight});
    sum += weight;
  }
  if (options.top_p < 1) {
    std::vector<Candidate> falling = candidates;
    std::ranges::sort(falling, std::greater<>(), &Candidate::weight);
    double wanted = options.top_p * sum, last = 0;
    for (auto c = falling.begin(); c != falling.end() && wanted > 0; ++c) {
      last = c->weight;
      wanted -= last;
    }
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < last; });
    sum = 0;
    for (const Candidate& c : candidates) sum += c.weight;
  }
  if (options.min_p > 0) {  // the likeliest has weight 1
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < options.min_p; });
    sum = 0;
    for (const Candidate& c : candidates) sum += c.weight;
  }
  double left = uniform * sum;
  for (const Candidate& c : candidates) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  // rounding: `left` was as large as all weights together
  return std::ranges::find_if(candidates.rbegin(), candidates.rend(),
                              [](const Candidate& c) { return c.weight > 0; })
      ->id;
}

}  // namespace gossamer::models
