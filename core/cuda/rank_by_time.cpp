// Medians of a few runs, then a final between the best.
#include "gossamer/core/cuda/rank_by_time.h"

#include <algorithm>
#include <cmath>

namespace gossamer {
namespace {

constexpr double kHopeless = 2;  // times the fastest so far: not timed again
constexpr std::size_t kFinalists = 5;
constexpr int kFirstRuns = 3, kFinalRuns = 15;

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void sort_by_time(std::vector<Ranked>::iterator begin, std::vector<Ranked>::iterator end) {
  std::stable_sort(
      begin, end, [](const Ranked& a, const Ranked& b) { return a.microseconds < b.microseconds; });
}

}  // namespace

std::vector<Ranked> rank_by_time(std::size_t n, const std::function<double(std::size_t)>& time) {
  std::vector<Ranked> order;
  double fastest = INFINITY;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> times{time(i)};
    while (times.back() > 0 && times.size() < kFirstRuns && times[0] <= kHopeless * fastest)
      times.push_back(time(i));
    if (times.back() <= 0) continue;
    order.push_back({i, median(times)});
    fastest = std::min(fastest, order.back().microseconds);
  }
  sort_by_time(order.begin(), order.end());
  const std::size_t finalists = std::min(kFinalists, order.size());
  if (finalists < 2) return order;
  std::vector<std::vector<double>> times(finalists);
  for (int run = 0; run < kFinalRuns; ++run)
    for (std::size_t k = 0; k < finalists; ++k) times[k].push_back(time(order[k].candidate));
  for (std::size_t k = 0; k < finalists; ++k)
    order[k].microseconds = std::ranges::min(times[k]) > 0 ? median(times[k]) : 0;
  sort_by_time(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(finalists));
  std::erase_if(order, [](const Ranked& r) { return r.microseconds <= 0; });
  return order;
}

}  // namespace gossamer
