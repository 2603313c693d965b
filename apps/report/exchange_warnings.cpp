// See exchange_warnings.h.
#include "gossamer/apps/report/exchange_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gossamer::apps {
namespace {

constexpr std::size_t kMostPairs = 8;

std::string refusals(const dist::RealisedRates& rates) {
  std::vector<std::string> pairs;
  i64 all = 0;
  for (const dist::RealisedEdge& e : rates.edges) {
    if (e.refused == 0) continue;
    all += e.refused;
    pairs.push_back(fmt::format("{} and {} {} times", e.a, e.b, e.refused));
  }
  if (all == 0) return {};
  if (pairs.size() > kMostPairs) {
    pairs[kMostPairs - 1] = fmt::format("{} more pairs", pairs.size() - kMostPairs + 1);
    pairs.resize(kMostPairs);
  }
  // a worker that is part of all of them is the one to look at
  std::vector<int> in_all;
  for (const dist::RealisedEdge& first : rates.edges) {
    if (first.refused == 0) continue;
    for (const int rank : {first.a, first.b}) {
      bool always = true;
      for (const dist::RealisedEdge& e : rates.edges)
        always = always && (e.refused == 0 || e.a == rank || e.b == rank);
      if (always) in_all.push_back(rank);
    }
    break;
  }
  return fmt::format(
      "{} exchanges were refused by both workers, because their models were not finite or further "
      "apart than can be right: workers {}{}",
      all, fmt::join(pairs, ", "),
      in_all.size() == 1 && pairs.size() > 1
          ? fmt::format("; worker {} was part of all of them", in_all[0])
          : "");
}

}  // namespace

std::vector<std::string> exchange_warnings(const dist::RealisedRates& rates, double asked,
                                           double done, double gradients,
                                           const std::vector<int>& left_out) {
  std::vector<std::string> out;
  if (const std::string text = refusals(rates); !text.empty()) out.push_back(text);
  if (!left_out.empty())
    out.push_back(fmt::format(
        "the average is without worker(s) {}: their models were not finite, or over 1000 times as "
        "large as the others'",
        fmt::join(left_out, ", ")));
  if (!dist::rate_reached(asked, done, gradients))
    out.push_back(rate_warning(done / gradients, asked, rates.repeated) +
                  "; a lower train.rate or a larger train.batch may give a better model");
  return out;
}

std::string rate_warning(double reached, double asked, double repeated) {
  return fmt::format(
      "{:.2f} exchanges per gradient were reached, {:.4g} were asked for (train.rate), {:.0f} % of "
      "them with the partner of the time before: the exchanges take longer than the gradients "
      "between them",
      reached, asked, 100 * repeated);
}

}  // namespace gossamer::apps
