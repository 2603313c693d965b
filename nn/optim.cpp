// Optimizers: what they keep and check. The passes themselves are in core/ops/op_optimizer.cpp and
// core/ops/op_fused_update.cpp.
#include "gossamer/nn/optim.h"

#include <algorithm>

#include "gossamer/core/backend.h"

namespace gossamer {
bool by_passes(Device);  // backend.cpp
}
namespace gossamer::nn {
namespace {

// After loops, what a pass does in one go.
void take_along(FlatParams& params, FlatRange range, const Twin* twin, const Difference* late) {
  if (!late) return;
  check<Error>(range.begin == 0 && (range.end < 0 || range.end == params.size()),
               "a difference goes with an update of the whole block");
  Tensor values = params.values(), other = twin ? twin->values : Tensor();
  fused::apply_difference(values, other, late->x, late->twin, late->own, late->received);
  params.refresh();
}

Tensor state_block(const FlatParams& params) {
  return Tensor::zeros({params.size()}, DType::f32, params.values().device());
}

}  // namespace

FlatOptimizer::FlatOptimizer(FlatParams& params, float weight_decay) : params_(params) {
  const Device device = params.values().device();
  if (by_passes(device))
    pass_ = Pass{fused::parameter_groups(params, weight_decay), fused::step_numbers(device)};
}

void FlatOptimizer::begin_step(const GradientScale& scale) {
  find_overflow(params_);
  scale_ = scale;
  begun_ = true;
  if (pass_ && scale.clip > 0) fused::measure_gradients(pass_->numbers, params_);
  if (!pass_) grad_scale_ = clip_factor(scale, scale.clip > 0 ? squared_gradient(params_) : 0);
}

void FlatOptimizer::update(FlatRange range, float learning_rate, const Twin* twin,
                           const Difference* late) {
  check<Error>(begun_, name(), ": update before begin_step");
  if (!pass_) {
    by_loops(range, learning_rate, grad_scale_, twin);
    return take_along(params_, range, twin, late);
  }
  params_.settle_grads(range);
  fused::UpdateBuffers buffers = fused::buffers_of(params_);
  fused::StepNumbers numbers{.learning_rate = learning_rate};
  if (twin) {
    buffers.twin = twin->values;
    numbers.mix_c = twin->c, numbers.mix_s = twin->s;
  }
  if (late) {
    buffers.own = late->own, buffers.received = late->received;
    numbers.jump_x = late->x, numbers.jump_twin = late->twin, numbers.jump = 1;
  }
  by_pass(range, *pass_, buffers, numbers, scale_);
}

Sgd::Sgd(FlatParams& params, SgdOptions options)
    : FlatOptimizer(params, options.weight_decay),
      options_(options),
      momentum_(state_block(params)) {
  check<ConfigError>(options.momentum >= 0 && options.momentum < 1, "Sgd: momentum ",
                     options.momentum, "; wanted 0 <= momentum < 1");
  check<ConfigError>(options.weight_decay >= 0, "Sgd: weight_decay ", options.weight_decay,
                     "; wanted at least 0");
  check<ConfigError>(!options.nesterov || options.momentum > 0,
                     "Sgd: nesterov needs a momentum above 0");
}

void Sgd::by_loops(FlatRange range, float learning_rate, float grad_scale, const Twin* twin) {
  sgd_update(params_, momentum_,
             {.learning_rate = learning_rate,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov,
              .grad_scale = grad_scale},
             twin, range);
}

void Sgd::by_pass(FlatRange range, Pass& pass, const fused::UpdateBuffers& buffers,
                  fused::StepNumbers numbers, const GradientScale& scale) {
  numbers.momentum = options_.momentum;
  fused::write_numbers(pass.numbers, numbers, scale);
  fused::sgd_pass(buffers, momentum_, pass.groups, options_.nesterov, pass.numbers, range);
}

std::vector<NamedTensor> Sgd::state() { return {{"momentum", momentum_}}; }

Adam::Adam(FlatParams& params, AdamOptions options)
    : FlatOptimizer(params, options.weight_decay),
      options_(options),
      moments_{state_block(params), state_block(params), {}},
      steps_(Tensor::zeros({1}, DType::i64, params.values().device())) {
  check<ConfigError>(options.beta1 >= 0 && options.beta1 < 1, "Adam: beta1 ", options.beta1,
                     "; wanted 0 <= beta1 < 1");
  check<ConfigError>(options.beta2 >= 0 && options.beta2 < 1, "Adam: beta2 ", options.beta2,
                     "; wanted 0 <= beta2 < 1");
  check<ConfigError>(options.epsilon > 0, "Adam: epsilon ", options.epsilon, "; wanted above 0");
  check<ConfigError>(options.weight_decay >= 0, "Adam: weight_decay ", options.weight_decay,
                     "; wanted at least 0");
  check<ConfigError>(options.period >= 1, "Adam: period ", options.period,
                     "; wanted at least 1 step");
  if (options.period > 1) moments_.sum = state_block(params);
}

void Adam::begin_step(const GradientScale& scale) {
  FlatOptimizer::begin_step(scale);
  count_step(params_, steps_);
}

void Adam::by_loops(FlatRange range, float learning_rate, float grad_scale, const Twin* twin) {
  adam_update(params_, moments_,
              {.learning_rate = learning_rate,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .epsilon = options_.epsilon,
               .weight_decay = options_.weight_decay,
               .decoupled = options_.decoupled,
               .step = std::max<i64>(1, *steps_.as<i64>()),
               .period = options_.period,
               .grad_scale = grad_scale},
              twin, range);
}

void Adam::by_pass(FlatRange range, Pass& pass, const fused::UpdateBuffers& buffers,
                   fused::StepNumbers numbers, const GradientScale& scale) {
  fused::write_numbers(pass.numbers, numbers, scale,
                       {steps_, options_.beta1, options_.beta2, options_.epsilon, options_.period});
  fused::adam_pass(buffers, moments_, pass.groups,
                   options_.decoupled ? fused::Decay::decoupled : fused::Decay::coupled,
                   pass.numbers, range);
}

std::vector<NamedTensor> Adam::state() {
  std::vector<NamedTensor> all = {
      {"first_moment", moments_.first}, {"second_moment", moments_.second}, {"steps", steps_}};
  if (moments_.sum.defined()) all.push_back({"gradient_sum", moments_.sum});
  return all;
}

const char* Adam::name() const {
  if (options_.period > 1) return options_.decoupled ? "accum-adamw" : "accum-adam";
  return options_.decoupled ? "adamw" : "adam";
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams& params,
                                          const OptimizerOptions& o) {
  const auto decay = static_cast<float>(o.weight_decay);
  const auto adam = [&](bool decoupled, i64 period) {
    return std::make_unique<Adam>(
        params, AdamOptions{o.beta1, o.beta2, o.epsilon, decay, decoupled, period});
  };
  if (name == "sgd")
    return std::make_unique<Sgd>(params,
                                 SgdOptions{static_cast<float>(o.momentum), decay, o.nesterov});
  if (name == "adam" || name == "adamw") return adam(name == "adamw", 1);
  if (name == "accum-adam" || name == "accum-adamw") return adam(name == "accum-adamw", o.period);
  fail<ConfigError>("optimizer \"", name,
                    "\" is unknown; known are: sgd, adam, adamw, accum-adam, accum-adamw");
}

}  // namespace gossamer::nn
