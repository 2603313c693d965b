// Optimizers over FlatParams: state in flat blocks, one pass a step.
#pragma once

#include "gossamer/core/flat.h"
#include "gossamer/core/optimizer.h"
#include "gossamer/core/update.h"

namespace gossamer::nn {

// As torch.optim.SGD with dampening 0. Weight decay spares 1-D tensors (biases, batch norm).
struct SgdOptions { float momentum = 0.9f, weight_decay = 0; bool nesterov = false; };
class Sgd : public Optimizer {
 public:
  explicit Sgd(FlatParams&, SgdOptions = {});
  void step(float learning_rate, const Twin* twin = nullptr, float grad_scale = 1) override;
  std::vector<NamedTensor> state() override;                  // {"momentum", f32 [size]}
  const char* name() const override { return "sgd"; }

 private:
  FlatParams& params_;
  SgdOptions options_;
  Tensor momentum_;
};

}  // namespace gossamer::nn
