// What a controller sees of real workers: sums over all of them.
#include "gossamer/dist/rounds/consensus_control.h"

#include <cmath>

#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/rounds/consensus_sketch.h"

namespace gossamer::dist {

ConsensusControl::ConsensusControl(std::unique_ptr<SynchronousMethod> method,
                                   const ConsensusControlOptions& options)
    : method_(std::move(method)), controller_(options) {
  const auto after_update = [this](double learning_rate) {
    if (method_->alive() < 2) return;
    const trace::Scope scope("consensus control");
    learning_rate_ = learning_rate;
    moved_ = 0;
    controller_.control(*this);
  };
  // some workers may be a step further than others: nothing measured is common to all
  const auto restarted = [this] {
    sketches_ = 0;
    controller_.forget();
  };
  method_->after_update(after_update, restarted);
}

std::optional<ControlledWorkers::Measured> ConsensusControl::measure(bool gradients) {
  std::vector<double> numbers =
      sketch(method_->params().values(), method_->options().seed + ++sketches_);
  const double gradient = gradients ? squared_gradient(method_->params()) : 0;
  for (const double own : {moved_, gradient, method_->samples_seen(), learning_rate_})
    numbers.push_back(own);
  const auto sum = method_->sum_over_workers(std::move(numbers));
  if (!sum) return std::nullopt;
  const int n = method_->alive();
  const double* rest = sum->data() + kSketchSize + 1;
  const double total = method_->options().total_samples;
  return Measured{.distance = distance_from_sketches(*sum, n),
                  .theta = std::sqrt(rest[0] / n),
                  .gradient_norm = std::sqrt(rest[1] / n),
                  .progress = total > 0 ? rest[2] / n / total : 0,
                  .learning_rate = rest[3] / n};
}

double ConsensusControl::steps() const {
  const MethodOptions& run = method_->options();
  return run.total_samples / (static_cast<double>(run.batch) * method_->alive());
}

void ConsensusControl::finish() {
  method_->finish();
  finished_ = true;
}

MethodStats ConsensusControl::stats() const {
  MethodStats out = method_->stats();
  if (!finished_ && controller_.distance() >= 0) out.consensus_distance = controller_.distance();
  out.control = controller_.tally();
  out.theta = controller_.theta();
  out.target = controller_.target();
  return out;
}

}  // namespace gossamer::dist
