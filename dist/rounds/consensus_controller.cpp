// Measures, gossips and measures again, and keeps as much of the last round as the target needs.
#include "gossamer/dist/rounds/consensus_controller.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {
constexpr double kSmoothing = 0.95;                          // of the gradient norm
constexpr i64 kLeastMeasured = 10, kMeasuredIfEndless = 50;  // steps
constexpr double kNear = 0.2;
}  // namespace

void ControlTally::count(double distance, double target) {
  const double ratio = distance / target;
  least = steps == 0 ? ratio : std::min(least, ratio);
  most = steps == 0 ? ratio : std::max(most, ratio);
  ++steps;
  near += std::abs(ratio - 1) <= kNear;
  ratio_sum += ratio;
}

ControlTally& ControlTally::operator+=(const ControlTally& other) {
  if (other.steps > 0) {
    least = steps == 0 ? other.least : std::min(least, other.least);
    most = steps == 0 ? other.most : std::max(most, other.most);
  }
  steps += other.steps, near += other.near, ratio_sum += other.ratio_sum;
  gossip += other.gossip, exact_averages += other.exact_averages,
      measurements += other.measurements;
  return *this;
}

// The smaller root of theta^2 p^2 - (theta^2 + before^2 - after^2) p + before^2 - target^2, in the
// form that also holds for theta = 0.
double part_of_round(double before, double after, double theta, double target) {
  const double a = theta * theta, fall = before * before - after * after,
               wanted = before * before - target * target;
  const double root = std::sqrt((a - fall) * (a - fall) + 4 * a * (fall - wanted));
  return std::clamp(2 * wanted / (a + fall + root), 0.0, 1.0);
}

ConsensusController::ConsensusController(const ConsensusControlOptions& options)
    : options_(options) {
  check_settings(options, "consensus control");
}

void ConsensusController::forget() {
  phase_ = -1;
  to_measure_ = 0;
  target_ = 0;
  exact_ = false;
  gradient_norm_ = -1;
}

void ConsensusController::control(ControlledWorkers& workers) {
  auto now = measure(workers);
  if (!now) return;
  follow(*now, workers.steps());
  for (int rounds = 0; exact_ || (target_ > 0 && now->distance > target_); ++rounds) {
    if (exact_ || rounds == options_.most) {
      if (!workers.average_exactly()) return;
      ++tally_.exact_averages;
      distance_ = 0;
      break;
    }
    const double before = now->distance;
    workers.gossip();
    if (!(now = measure(workers))) return;
    ++tally_.gossip;
    theta_ = now->theta;
    if (!(now->distance <= target_)) continue;
    workers.keep_part(part_of_round(before, now->distance, theta_, target_));
    distance_ = target_;
    break;
  }
  if (target_ > 0) tally_.count(distance_, target_);
}

std::optional<ControlledWorkers::Measured> ConsensusController::measure(
    ControlledWorkers& workers) {
  const auto now = workers.measure(online());
  ++tally_.measurements;
  if (now) distance_ = now->distance;
  return now;
}

void ConsensusController::follow(const ControlledWorkers::Measured& now, double steps) {
  if (online()) {
    gradient_norm_ = gradient_norm_ < 0
                         ? now.gradient_norm
                         : kSmoothing * gradient_norm_ + (1 - kSmoothing) * now.gradient_norm;
    target_ = options_.factor * now.learning_rate * gradient_norm_;
    return;
  }
  const auto phase = static_cast<int>(std::ranges::upper_bound(options_.phases, now.progress) -
                                      options_.phases.begin());
  if (phase != phase_) {
    phase_ = phase;
    uncontrolled_.clear();
    target_ = 0;
    const double wanted = options_.fractions[static_cast<std::size_t>(phase)];
    exact_ = wanted == 0;
    to_measure_ = exact_ || wanted >= 1 ? -1
                  : steps > 0
                      ? std::max<i64>(kLeastMeasured, std::llround(options_.measure * steps))
                      : kMeasuredIfEndless;
  }
  if (to_measure_ <= 0) return;
  // The distance grows with the learning rate, so what is seen in a warm-up is not its largest.
  const bool rises = now.learning_rate > (1 + 1e-9) * std::exchange(rate_, now.learning_rate);
  if (rises && !uncontrolled_.empty()) {
    to_measure_ += static_cast<i64>(uncontrolled_.size());
    uncontrolled_.clear();
  }
  uncontrolled_.push_back(now.distance);
  if (--to_measure_ == 0) end_measuring();
}

// Xi_max: the later half of what was seen, since the distance needs a while to grow.
void ConsensusController::end_measuring() {
  const auto half = uncontrolled_.begin() + static_cast<std::ptrdiff_t>(uncontrolled_.size() / 2);
  const double plateau = std::accumulate(half, uncontrolled_.end(), 0.0) /
                         static_cast<double>(uncontrolled_.end() - half);
  target_ = options_.fractions[static_cast<std::size_t>(phase_)] * plateau;
}

}  // namespace gossamer::dist
