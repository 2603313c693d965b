// Optimizers: the pass itself is in core/op_update.cpp.
#include "gossamer/nn/optim.h"

namespace gossamer::nn {

Sgd::Sgd(FlatParams& params, SgdOptions options) : params_(params), options_(options), momentum_(Tensor::zeros({params.size()})) {
  check<ConfigError>(options.momentum >= 0 && options.momentum < 1, "Sgd: momentum ", options.momentum, "; wanted 0 <= momentum < 1");
  check<ConfigError>(options.weight_decay >= 0, "Sgd: weight_decay ", options.weight_decay, "; wanted at least 0");
  check<ConfigError>(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0");
}

void Sgd::step(float learning_rate, const Twin* twin, float grad_scale) {
  params_.settle_grads();
  sgd_update(params_, momentum_,
             {.learning_rate = learning_rate,
              .momentum = options_.momentum,
              .weight_decay = options_.weight_decay,
              .nesterov = options_.nesterov,
              .grad_scale = grad_scale},
             twin);
}

std::vector<NamedTensor> Sgd::state() { return {{"momentum", momentum_}}; }

}  // namespace gossamer::nn
