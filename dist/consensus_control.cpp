// Consensus control: measure, gossip, measure again.
#include "gossamer/dist/consensus_control.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/consensus_sketch.h"

namespace gossamer::dist {
namespace {
constexpr double kSmoothing = 0.95;                // of the gradient norm
constexpr i64 kLeastMeasured = 10, kMeasuredIfEndless = 50;      // steps
}

ConsensusControl::ConsensusControl(std::unique_ptr<SynchronousMethod> method, const ConsensusControlOptions& options)
    : method_(std::move(method)), options_(options) {
  const bool plateau = options.target == "plateau";
  check<ConfigError>(plateau || options.target == "online", "consensus-control: target \"", options.target, "\" is unknown; known are: plateau, online");
  check<ConfigError>(std::ranges::is_sorted(options.phases) && std::ranges::all_of(options.phases, [](double p) { return p > 0 && p < 1; }),
                     "consensus-control: phases begin at ascending fractions of the run, above 0 and below 1");
  check<ConfigError>(!plateau || options.fractions.size() == options.phases.size() + 1, "consensus-control: ", options.fractions.size(), " fractions for ",
                     options.phases.size() + 1, " phases; each phase needs one");
  check<ConfigError>(std::ranges::all_of(options.fractions, [](double f) { return f >= 0; }), "consensus-control: a fraction is negative");
  check<ConfigError>(options.factor > 0, "consensus-control: factor ", options.factor, "; it must be above 0");
  check<ConfigError>(options.measure > 0 && options.measure < 1, "consensus-control: measure ", options.measure, "; it must be between 0 and 1");
  check<ConfigError>(options.most >= 0, "consensus-control: most ", options.most, "; it must be 0 or more");
  method_->after_update([this](double learning_rate) { control(learning_rate); }, [this] { forget(); });
}

void ConsensusControl::forget() {
  measurements_ = 0;
  phase_ = -1;
  to_measure_ = 0;
  target_ = 0;
  exact_ = false;
  gradient_norm_ = -1;
}

void ConsensusControl::control(double learning_rate) {
  if (method_->alive() < 2) return;
  const trace::Scope scope("consensus control");
  auto now = measure(learning_rate, 0);
  if (!now) return;
  follow(*now);
  int steps = 0;
  while (exact_ || (target_ > 0 && now->distance > target_)) {
    if (exact_ || steps == options_.most) {
      exact_averages_ += method_->average_exactly();
      distance_ = 0;
      return;
    }
    now = measure(learning_rate, method_->gossip());
    if (!now) return;
    ++steps;
    ++extra_;
    theta_ = now->theta;
  }
}

std::optional<ConsensusControl::Measured> ConsensusControl::measure(double learning_rate, double moved) {
  std::vector<double> numbers = sketch(method_->params().values().span<float>(), method_->options().seed + ++measurements_);
  const bool online = options_.target == "online";
  const std::vector<double> own = {moved, online ? squared_norm(method_->params().grads()) : 0, method_->samples_seen(), learning_rate};
  numbers.insert(numbers.end(), own.begin(), own.end());
  const auto sum = method_->sum_over_workers(std::move(numbers));
  if (!sum) return std::nullopt;
  const int n = method_->alive();
  const double* rest = sum->data() + kSketchSize + 1;
  const Measured m{distance_from_sketches(*sum, n), std::sqrt(rest[0] / n), std::sqrt(rest[1] / n), rest[2] / n, rest[3] / n};
  distance_ = m.distance;
  return m;
}

void ConsensusControl::follow(const Measured& now) {
  if (options_.target == "online") {
    gradient_norm_ = gradient_norm_ < 0 ? now.gradient_norm : kSmoothing * gradient_norm_ + (1 - kSmoothing) * now.gradient_norm;
    target_ = options_.factor * now.learning_rate * gradient_norm_;
    return;
  }
  const MethodOptions& run = method_->options();
  const double fraction = run.total_samples > 0 ? now.samples / run.total_samples : 0;
  const auto phase = static_cast<int>(std::ranges::upper_bound(options_.phases, fraction) - options_.phases.begin());
  if (phase != phase_) {
    phase_ = phase;
    uncontrolled_.clear();
    target_ = 0;
    const double wanted = options_.fractions[static_cast<std::size_t>(phase)];
    exact_ = wanted == 0;
    const double steps = run.total_samples / (static_cast<double>(run.batch) * method_->alive());
    to_measure_ = exact_ || wanted >= 1 ? -1 : run.total_samples > 0 ? std::max<i64>(kLeastMeasured, std::llround(options_.measure * steps)) : kMeasuredIfEndless;
  }
  if (to_measure_ <= 0) return;
  uncontrolled_.push_back(now.distance);
  if (--to_measure_ == 0) end_measuring();
}

// Xi_max: the later half of what was seen, since the distance needs a while to grow.
void ConsensusControl::end_measuring() {
  const auto half = uncontrolled_.begin() + static_cast<std::ptrdiff_t>(uncontrolled_.size() / 2);
  const double plateau = std::accumulate(half, uncontrolled_.end(), 0.0) / static_cast<double>(uncontrolled_.end() - half);
  target_ = options_.fractions[static_cast<std::size_t>(phase_)] * plateau;
}

void ConsensusControl::finish() {
  method_->finish();
  finished_ = true;
}

MethodStats ConsensusControl::stats() const {
  MethodStats out = method_->stats();
  if (!finished_ && distance_ >= 0) out.consensus_distance = distance_;
  out.extra_gossip = extra_;
  out.exact_averages = exact_averages_;
  out.theta = theta_;
  out.target = target_;
  return out;
}

}  // namespace gossamer::dist
