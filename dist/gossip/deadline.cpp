// The limit: median and median absolute deviation over a window.
#include "gossamer/dist/gossip/deadline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// MAD * this is the standard deviation of a normal distribution
constexpr double kNormal = 1.4826;
// of the median: a link that was even until now may still hiccup
constexpr double kLeastSpread = 0.25;

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

AdaptiveDeadline::AdaptiveDeadline(double lower, double upper, double first, double k)
    : lower_(lower), upper_(upper), first_(first > 0 ? first : upper), k_(k) {
  check<ConfigError>(lower > 0 && lower <= upper && k > 0, "a deadline between ", lower, " and ",
                     upper, " s with ", k,
                     " deviations; wanted is 0 < lower <= upper and more than 0 deviations");
}

void AdaptiveDeadline::took(double seconds) {
  if (!(seconds >= 0)) return;
  window_.push_back(seconds);
  if (window_.size() > kWindow) window_.pop_front();
  patience_ = 1;
}

void AdaptiveDeadline::missed() { patience_ = std::min(patience_ * 2, 1e6); }

double AdaptiveDeadline::limit() const {
  if (window_.size() < kFirst) return std::clamp(patience_ * first_, lower_, upper_);
  const double middle = median({window_.begin(), window_.end()});
  std::vector<double> deviations;
  for (const double s : window_) deviations.push_back(std::abs(s - middle));
  const double spread = std::max(kNormal * median(deviations), kLeastSpread * middle);
  return std::clamp(patience_ * std::max(lower_, middle + k_ * spread), lower_, upper_);
}

}  // namespace gossamer::dist
