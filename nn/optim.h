// Optimizers over FlatParams: state in flat blocks, one pass a step. Weight decay spares 1-D tensors (biases, batch norm).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/core/fused_update.h"
#include "gossamer/core/optimizer.h"
#include "gossamer/core/update.h"

namespace gossamer::nn {

// What computes a step; the bits are the same. loops: update.h, quick on CPUs. pass: fused_update.h, for GPUs; on a CPU for tests.
enum class UpdateForm { by_device, loops, pass };

// What a pass needs beside an optimizer's own state.
struct UpdatePass {
  UpdatePass(const FlatParams&, float weight_decay);
  // Writes the numbers of a step, those of twin and difference with them, and says what the pass works on.
  fused::UpdateBuffers begin(FlatParams&, FlatRange, fused::StepNumbers, const Twin*, const Difference* late);
  fused::ParameterGroups groups;
  Tensor numbers;
};

// As torch.optim.SGD with dampening 0.
struct SgdOptions { float momentum = 0.9f, weight_decay = 0; bool nesterov = false; UpdateForm form = UpdateForm::by_device; };
class Sgd : public Optimizer {
 public:
  explicit Sgd(FlatParams&, SgdOptions = {});
  void begin_step() override;
  void update(FlatRange, float learning_rate, const Twin* twin = nullptr, float grad_scale = 1, const Difference* late = nullptr) override;
  std::vector<NamedTensor> state() override;                  // {"momentum", f32 [size]}
  const char* name() const override { return "sgd"; }

 private:
  FlatParams& params_;
  SgdOptions options_;
  Tensor momentum_;
  std::optional<UpdatePass> pass_;
};

// As torch.optim.Adam; decoupled: as torch.optim.AdamW. period s > 1: Accumulated Adam (Decent-DP, ICLR 2025, Alg. 4): the moments take up
// the mean gradient of s steps at once, while each step still moves by its own gradient too. So they remember longer, with less noise.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  float weight_decay = 0;
  bool decoupled = false;
  i64 period = 1;
  UpdateForm form = UpdateForm::by_device;
};
class Adam : public Optimizer {
 public:
  explicit Adam(FlatParams&, AdamOptions = {});
  void begin_step() override;
  void update(FlatRange, float learning_rate, const Twin* twin = nullptr, float grad_scale = 1, const Difference* late = nullptr) override;
  // {"first_moment", "second_moment": f32 [size], times beta already}, "gradient_sum" with a period, {"steps", i64 [1]}
  std::vector<NamedTensor> state() override;
  const char* name() const override;                          // adam, adamw, accum-adam, accum-adamw

 private:
  FlatParams& params_;
  AdamOptions options_;
  AdamState moments_;
  std::optional<UpdatePass> pass_;
  Tensor steps_;                                              // a tensor, so that a checkpoint restores it like the rest
};

struct OptimizerOptions {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  i64 period = 4;                                             // accum-*: s
  UpdateForm form = UpdateForm::by_device;
};
// name: sgd | adam | adamw | accum-adam | accum-adamw. ConfigError lists the known names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams&, const OptimizerOptions& = {});

}  // namespace gossamer::nn
