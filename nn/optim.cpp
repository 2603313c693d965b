// Optimizers: what they keep and check. The passes themselves are in core/ops/op_optimizer.cpp and core/ops/op_fused_update.cpp.
#include "gossamer/nn/optim.h"

#include <algorithm>

namespace gossamer::nn {
namespace {

std::optional<UpdatePass> pass_for(UpdateForm form, const FlatParams& params, float weight_decay) {
  const bool wanted = form == UpdateForm::pass || (form == UpdateForm::by_device && !params.values().device().is_cpu());
  return wanted ? std::optional<UpdatePass>(std::in_place, params, weight_decay) : std::nullopt;
}

// After loops, what a pass does in one go.
void take_along(FlatParams& params, FlatRange range, const Twin* twin, const Difference* late) {
  if (!late) return;
  check<Error>(range.begin == 0 && (range.end < 0 || range.end == params.size()), "a difference goes with an update of the whole block");
  Tensor values = params.values(), other = twin ? twin->values : Tensor();
  fused::apply_difference(values, other, late->x, late->twin, late->own, late->received);
  params.refresh();
}

}  // namespace

UpdatePass::UpdatePass(const FlatParams& params, float weight_decay)
    : groups(fused::parameter_groups(params, weight_decay)), numbers(fused::step_numbers(params.values().device())) {}

fused::UpdateBuffers UpdatePass::begin(FlatParams& params, FlatRange range, fused::StepNumbers step, const Twin* twin, const Difference* late) {
  params.settle_grads(range);
  fused::UpdateBuffers buffers = fused::buffers_of(params);
  if (twin) {
    buffers.twin = twin->values;
    step.mix_c = twin->c, step.mix_s = twin->s;
  }
  if (late) {
    buffers.own = late->own, buffers.received = late->received;
    step.jump_x = late->x, step.jump_twin = late->twin, step.jump = 1;
  }
  fused::write_numbers(numbers, step);
  return buffers;
}

Sgd::Sgd(FlatParams& params, SgdOptions options) : params_(params), options_(options), momentum_(Tensor::zeros({params.size()}, DType::f32, params.values().device())) {
  check<ConfigError>(options.momentum >= 0 && options.momentum < 1, "Sgd: momentum ", options.momentum, "; wanted 0 <= momentum < 1");
  check<ConfigError>(options.weight_decay >= 0, "Sgd: weight_decay ", options.weight_decay, "; wanted at least 0");
  check<ConfigError>(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0");
  pass_ = pass_for(options.form, params, options.weight_decay);
}

void Sgd::update(FlatRange range, float learning_rate, const Twin* twin, float grad_scale, const Difference* late) {
  if (pass_) {
    const fused::StepNumbers numbers{.learning_rate = learning_rate, .momentum = options_.momentum, .grad_scale = grad_scale};
    const auto buffers = pass_->begin(params_, range, numbers, twin, late);
    return fused::sgd_pass(buffers, momentum_, pass_->groups, options_.nesterov, pass_->numbers, range);
  }
  sgd_update(params_, momentum_,
             {.learning_rate = learning_rate,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov,
              .grad_scale = grad_scale},
             twin, range);
  take_along(params_, range, twin, late);
}

void Sgd::begin_step() { find_overflow(params_); }

std::vector<NamedTensor> Sgd::state() { return {{"momentum", momentum_}}; }

Adam::Adam(FlatParams& params, AdamOptions options)
    : params_(params), options_(options), moments_{Tensor::zeros({params.size()}, DType::f32, params.values().device()), Tensor::zeros({params.size()}, DType::f32, params.values().device()), {}}, steps_(Tensor::zeros({1}, DType::i64)) {
  check<ConfigError>(options.beta1 >= 0 && options.beta1 < 1, "Adam: beta1 ", options.beta1, "; wanted 0 <= beta1 < 1");
  check<ConfigError>(options.beta2 >= 0 && options.beta2 < 1, "Adam: beta2 ", options.beta2, "; wanted 0 <= beta2 < 1");
  check<ConfigError>(options.epsilon > 0, "Adam: epsilon ", options.epsilon, "; wanted above 0");
  check<ConfigError>(options.weight_decay >= 0, "Adam: weight_decay ", options.weight_decay, "; wanted at least 0");
  check<ConfigError>(options.period >= 1, "Adam: period ", options.period, "; wanted at least 1 step");
  if (options.period > 1) moments_.sum = Tensor::zeros({params.size()}, DType::f32, params.values().device());
  pass_ = pass_for(options.form, params, options.weight_decay);
}

void Adam::begin_step() {
  find_overflow(params_);
  if (!params_.skips_step()) ++*steps_.as<i64>();
}

void Adam::update(FlatRange range, float learning_rate, const Twin* twin, float grad_scale, const Difference* late) {
  check<Error>(*steps_.as<i64>() > 0 || params_.skips_step(), "Adam: update before begin_step");
  const i64 count = std::max<i64>(1, *steps_.as<i64>());
  if (pass_) {
    const auto factors = AdamFactors<float>::at(count, options_.period, static_cast<double>(learning_rate), options_.beta1, options_.beta2, options_.epsilon);
    const auto buffers = pass_->begin(params_, range, {.learning_rate = learning_rate, .grad_scale = grad_scale, .adam = factors}, twin, late);
    const auto decay = options_.decoupled ? fused::Decay::decoupled : fused::Decay::coupled;
    return fused::adam_pass(buffers, moments_, pass_->groups, decay, pass_->numbers, range);
  }
  adam_update(params_, moments_,
              {.learning_rate = learning_rate,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .epsilon = options_.epsilon,
               .weight_decay = options_.weight_decay,
               .decoupled = options_.decoupled,
               .step = count,
               .period = options_.period,
               .grad_scale = grad_scale},
              twin, range);
  take_along(params_, range, twin, late);
}

std::vector<NamedTensor> Adam::state() {
  std::vector<NamedTensor> all = {{"first_moment", moments_.first}, {"second_moment", moments_.second}, {"steps", steps_}};
  if (moments_.sum.defined()) all.push_back({"gradient_sum", moments_.sum});
  return all;
}

const char* Adam::name() const {
  if (options_.period > 1) return options_.decoupled ? "accum-adamw" : "accum-adam";
  return options_.decoupled ? "adamw" : "adam";
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams& params, const OptimizerOptions& o) {
  const auto decay = static_cast<float>(o.weight_decay);
  const auto adam = [&](bool decoupled, i64 period) {
    return std::make_unique<Adam>(params, AdamOptions{o.beta1, o.beta2, o.epsilon, decay, decoupled, period, o.form});
  };
  if (name == "sgd") return std::make_unique<Sgd>(params, SgdOptions{static_cast<float>(o.momentum), decay, o.nesterov, o.form});
  if (name == "adam" || name == "adamw") return adam(name == "adamw", 1);
  if (name == "accum-adam" || name == "accum-adamw") return adam(name == "accum-adamw", o.period);
  fail<ConfigError>("optimizer \"", name, "\" is unknown; known are: sgd, adam, adamw, accum-adam, accum-adamw");
}

}  // namespace gossamer::nn
