// Optimizers: what they keep and check. The passes themselves are in core/ops/op_optimizer.cpp.
#include "gossamer/nn/optim.h"

namespace gossamer::nn {

Sgd::Sgd(FlatParams& params, SgdOptions options) : params_(params), options_(options), momentum_(Tensor::zeros({params.size()}, DType::f32, params.values().device())) {
  check<ConfigError>(options.momentum >= 0 && options.momentum < 1, "Sgd: momentum ", options.momentum, "; wanted 0 <= momentum < 1");
  check<ConfigError>(options.weight_decay >= 0, "Sgd: weight_decay ", options.weight_decay, "; wanted at least 0");
  check<ConfigError>(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0");
}

void Sgd::update(FlatRange range, float learning_rate, const Twin* twin, float grad_scale) {
  sgd_update(params_, momentum_,
             {.learning_rate = learning_rate,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov,
              .grad_scale = grad_scale},
             twin, range);
}

std::vector<NamedTensor> Sgd::state() { return {{"momentum", momentum_}}; }

Adam::Adam(FlatParams& params, AdamOptions options)
    : params_(params), options_(options), moments_{Tensor::zeros({params.size()}, DType::f32, params.values().device()), Tensor::zeros({params.size()}, DType::f32, params.values().device()), {}}, steps_(Tensor::zeros({1}, DType::i64)) {
  check<ConfigError>(options.beta1 >= 0 && options.beta1 < 1, "Adam: beta1 ", options.beta1, "; wanted 0 <= beta1 < 1");
  check<ConfigError>(options.beta2 >= 0 && options.beta2 < 1, "Adam: beta2 ", options.beta2, "; wanted 0 <= beta2 < 1");
  check<ConfigError>(options.epsilon > 0, "Adam: epsilon ", options.epsilon, "; wanted above 0");
  check<ConfigError>(options.weight_decay >= 0, "Adam: weight_decay ", options.weight_decay, "; wanted at least 0");
  check<ConfigError>(options.period >= 1, "Adam: period ", options.period, "; wanted at least 1 step");
  if (options.period > 1) moments_.sum = Tensor::zeros({params.size()}, DType::f32, params.values().device());
}

void Adam::begin_step() { ++*steps_.as<i64>(); }

void Adam::update(FlatRange range, float learning_rate, const Twin* twin, float grad_scale) {
  check<Error>(*steps_.as<i64>() > 0, "Adam: update before begin_step");
  adam_update(params_, moments_,
              {.learning_rate = learning_rate,
               .beta1 = options_.beta1,
               .beta2 = options_.beta2,
               .epsilon = options_.epsilon,
               .weight_decay = options_.weight_decay,
               .decoupled = options_.decoupled,
               .step = *steps_.as<i64>(),
               .period = options_.period,
               .grad_scale = grad_scale},
              twin, range);
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
    return std::make_unique<Adam>(params, AdamOptions{o.beta1, o.beta2, o.epsilon, decay, decoupled, period});
  };
  if (name == "sgd") return std::make_unique<Sgd>(params, SgdOptions{static_cast<float>(o.momentum), decay, o.nesterov});
  if (name == "adam" || name == "adamw") return adam(name == "adamw", 1);
  if (name == "accum-adam" || name == "accum-adamw") return adam(name == "accum-adamw", o.period);
  fail<ConfigError>("optimizer \"", name, "\" is unknown; known are: sgd, adam, adamw, accum-adam, accum-adamw");
}

}  // namespace gossamer::nn
