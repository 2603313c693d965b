// See usual_distance.h.
#include "gossamer/dist/usual_distance.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gossamer::dist {
namespace {
constexpr std::size_t kKept = 31, kFirst = 8;  // distances
constexpr double kTimes = 1e3, kNormsAtFirst = 1e6;
}  // namespace

double UsualDistance::limit() const {
  if (last_.size() < kFirst) return norm_ == 0 ? INFINITY : kNormsAtFirst * norm_;
  std::vector<double> sorted = last_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const double of_norm = kTimes * norm_;  // not finite: of a model that nobody should get
  return std::isfinite(of_norm) ? std::max(kTimes * *middle, of_norm) : of_norm;
}

void UsualDistance::accepted(double distance) {
  if (!(distance > 0)) return;
  if (last_.size() < kKept) return last_.push_back(distance);
  last_[next_] = distance;
  next_ = (next_ + 1) % kKept;
}

bool UsualDistance::wants_norm() {
  const bool doubled = ++begun_ == measure_at_;
  if (doubled) measure_at_ *= 2;
  return std::exchange(norm_due_, false) || doubled;
}

bool too_far(double distance, double one_limit, double other_limit) {
  return !(std::isfinite(distance) && distance <= one_limit && distance <= other_limit);
}

double estimated_consensus_distance(double squared, int workers) {
  return std::sqrt(squared * std::max(1, workers - 1) / (2.0 * std::max(2, workers)));
}

}  // namespace gossamer::dist
