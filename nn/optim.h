// Optimizers over FlatParams: state in flat blocks, one pass a step. Weight decay spares 1-D
// tensors (biases, batch norm).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/core/fused_update.h"
#include "gossamer/core/optimizer.h"
#include "gossamer/core/update.h"

namespace gossamer::nn {

// A step in one of two forms, of the same bits. Where by_passes() (backend.cpp) when the optimizer
// is made: the pass of fused_update.h, for which the host never waits. Elsewhere the loops of
// update.h, which are quicker on a CPU.
class FlatOptimizer : public Optimizer {
 public:
  void begin_step(const GradientScale& = {}) override;
  void update(FlatRange, float learning_rate, const Twin* twin = nullptr,
              const Difference* late = nullptr) final;

 protected:
  FlatOptimizer(FlatParams&, float weight_decay);
  struct Pass {
    fused::ParameterGroups groups;
    Tensor numbers;
  };
  virtual void by_loops(FlatRange, float learning_rate, float grad_scale, const Twin*) = 0;
  // numbers: all that is the same for every optimizer is in them, and has to be written to the
  // pass's yet.
  virtual void by_pass(FlatRange, Pass&, const fused::UpdateBuffers&, fused::StepNumbers numbers,
                       const GradientScale&) = 0;

  FlatParams& params_;

 private:
  std::optional<Pass> pass_;
  GradientScale scale_;
  float grad_scale_ = 1;  // for loops: with the clipping
  bool begun_ = false;
};

// As torch.optim.SGD with dampening 0.
struct SgdOptions {
  float momentum = 0.9f, weight_decay = 0;
  bool nesterov = false;
};
class Sgd : public FlatOptimizer {
 public:
  explicit Sgd(FlatParams&, SgdOptions = {});
  std::vector<NamedTensor> state() override;  // {"momentum", f32 [size]}
  const char* name() const override { return "sgd"; }

 private:
  void by_loops(FlatRange, float learning_rate, float grad_scale, const Twin*) override;
  void by_pass(FlatRange, Pass&, const fused::UpdateBuffers&, fused::StepNumbers,
               const GradientScale&) override;

  SgdOptions options_;
  Tensor momentum_;
};

// As torch.optim.Adam; decoupled: as torch.optim.AdamW. period s > 1: Accumulated Adam (Decent-DP,
// ICLR 2025, Alg. 4): the moments take up the mean gradient of s steps at once, while each step
// still moves by its own gradient too. So they remember longer, with less noise.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  float weight_decay = 0;
  bool decoupled = false;
  i64 period = 1;
};
class Adam : public FlatOptimizer {
 public:
  explicit Adam(FlatParams&, AdamOptions = {});
  void begin_step(const GradientScale& = {}) override;
  // {"first_moment", "second_moment": f32 [size], times beta already}, "gradient_sum" with a
  // period, {"steps", i64 [1]}
  std::vector<NamedTensor> state() override;
  // adam, adamw, accum-adam, accum-adamw
  const char* name() const override;

 private:
  void by_loops(FlatRange, float learning_rate, float grad_scale, const Twin*) override;
  void by_pass(FlatRange, Pass&, const fused::UpdateBuffers&, fused::StepNumbers,
               const GradientScale&) override;

  AdamOptions options_;
  AdamState moments_;
  // that were taken; where the parameters are
  Tensor steps_;
};

struct OptimizerOptions {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  i64 period = 4;  // accum-*: s
};
// name: sgd | adam | adamw | accum-adam | accum-adamw. ConfigError lists the known names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams&,
                                          const OptimizerOptions& = {});

}  // namespace gossamer::nn
