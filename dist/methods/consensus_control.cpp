// What a controller sees of real workers: sums over all of them.
#include "gossamer/dist/methods/consensus_control.h"

#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/consensus_sketch.h"

namespace gossamer::dist {
namespace {

const char* const kName = "consensus-control";

std::vector<NamedSetting> control_settings(const Settings& given) {
  std::vector<NamedSetting> all = settings_with<ConsensusControlOptions>(given);
  for (const MethodRow& row : method_rows())
    if (row.traits.controllable && !row.traits.simulated_only)
      all.front().setting.choices.push_back(row.traits.name);
  return all;
}

ConsensusControlOptions own_options(const Settings& settings) {
  return settings.only(settings_of(ConsensusControlOptions{})).as<ConsensusControlOptions>(kName);
}

// The row of the method under control, and its part of the settings.
std::pair<const MethodRow*, Settings> controlled(const Settings& settings, bool simulated = false) {
  const std::string name = own_options(settings).method;
  for (const MethodRow& row : method_rows())
    if (row.traits.name == name && row.traits.controllable && (row.make || simulated))
      return {&row, settings.only(row.settings(settings))};
  fail<ConfigError>(kName, ": method \"", name, "\" is not one it can control; it can: ",
                    methods_that([](const MethodTraits& m) { return m.controllable; }, ","));
}

}  // namespace

MethodRow consensus_control_row() {
  MethodRow row;
  row.traits = {.name = kName, .controls = true};
  row.settings = control_settings;
  row.simulated_settings = control_settings;
  row.check = [](const Settings& settings) {
    const auto [inner, own] = controlled(settings);
    inner->check(own);
    ConsensusController{own_options(settings)};
  };
  row.make = [](const MethodContext& with) {
    const auto [inner, own] = controlled(with.options.settings);
    MethodOptions options = with.options;
    options.settings = own;
    return std::make_unique<ConsensusControl>(
        inner->make({with.params, with.optimizer, with.group, with.graph, options, with.restore}),
        with.options, own_options(with.options.settings));
  };
  row.formula = [](const Settings& settings) {
    const auto [inner, own] = controlled(settings, true);
    return inner->formula(own);
  };
  return row;
}

const char* ConsensusControl::name() const { return kName; }

ConsensusControl::ConsensusControl(std::unique_ptr<Method> method, const MethodOptions& run,
                                   const ConsensusControlOptions& options)
    : method_(std::move(method)),
      inner_(dynamic_cast<Controllable&>(*method_)),
      run_(run),
      controller_(options) {}

void ConsensusControl::step(double learning_rate) {
  inner_.begin_step(learning_rate);
  follow_restarts();
  if (inner_.alive() > 1) {
    const trace::Scope scope("consensus control");
    learning_rate_ = learning_rate;
    moved_ = 0;
    controller_.control(*this);
  }
  inner_.params().refresh();
  inner_.end_step();
  follow_restarts();
}

// Some workers may be a step further than others: nothing measured is common to all.
void ConsensusControl::follow_restarts() {
  if (std::exchange(restarts_, inner_.restarts()) == inner_.restarts()) return;
  sketches_ = 0;
  controller_.forget();
}

bool ConsensusControl::average_exactly() {
  const bool done = inner_.average_exactly();
  follow_restarts();
  return done;
}

std::optional<ControlledWorkers::Measured> ConsensusControl::measure(bool gradients) {
  std::vector<double> numbers = sketch(inner_.params().values(), run_.seed + ++sketches_);
  const double gradient = gradients ? squared_gradient(inner_.params()) : 0;
  for (const double own : {moved_, gradient, method_->samples_seen(), learning_rate_})
    numbers.push_back(own);
  const auto sum = inner_.sum_over_workers(std::move(numbers));
  follow_restarts();
  if (!sum) return std::nullopt;
  const int n = inner_.alive();
  const double* rest = sum->data() + kSketchSize + 1;
  const double total = run_.total_samples;
  return Measured{.distance = distance_from_sketches(*sum, n),
                  .theta = std::sqrt(rest[0] / n),
                  .gradient_norm = std::sqrt(rest[1] / n),
                  .progress = total > 0 ? rest[2] / n / total : 0,
                  .learning_rate = rest[3] / n};
}

double ConsensusControl::steps() const {
  const i64 of_step = run_.global_batch > 0 ? run_.global_batch : run_.batch * inner_.alive();
  return run_.total_samples / static_cast<double>(of_step);
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
