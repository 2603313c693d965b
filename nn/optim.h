// Optimizers over FlatParams: their state in flat blocks of the parameters' layout, one pass a step
// (core/update.h), for which the host never waits. Weight decay spares 1-D tensors (biases, batch
// norm).
// Threads: one at a time for an optimizer and its FlatParams.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/setting.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/selection.h"

namespace gossamer::nn {

// The learning rate of these parameters is multiplied by this; above 0 (to hold parameters fixed,
// freeze them: gossip moves them without a gradient too).
struct RateFactor {
  Selection which;
  double factor = 1;
};

// "PATTERN=FACTOR", as "fc=10". ConfigError.
RateFactor parse_rate_factor(const std::string& text);

// The weight decay of these parameters, 0 or more, in place of the optimizer's; 1-D ones have none.
struct OwnDecay {
  Selection which;
  double weight_decay = 0;
};
// "PATTERN=DECAY", as "wte=0". ConfigError.
OwnDecay parse_own_decay(const std::string& text);

class FlatOptimizer : public Optimizer {
 public:
  // Where several select a parameter, the last one counts. ConfigError if one selects none.
  void set_groups(const std::vector<RateFactor>&, const std::vector<OwnDecay>& = {});
  void begin_step(const GradientScale& = {}) override;
  void update(FlatRange, float learning_rate, const Twin* twin = nullptr,
              const Difference* late = nullptr) final;

 protected:
  FlatOptimizer(FlatParams&, double weight_decay);
  Tensor state_block() const;  // f32 [size], zero
  // What differs between optimizers: how steps are counted, and the pass, for which numbers_ holds
  // the numbers of the step.
  virtual AdamCount count() const { return {}; }
  // The factor of the learning rate of a parameter that no RateFactor selects.
  virtual float usual_factor(const FlatParams::Entry&) const { return 1; }
  virtual void pass(const UpdateBlocks&, FlatRange, float weight_decay) = 0;

  FlatParams& params_;
  Tensor numbers_;

 private:
  struct Piece {
    i64 begin, end;
    float factor, weight_decay;
  };
  void update_piece(FlatRange, const Piece&, float learning_rate, const Twin*, const Difference*);
  const float weight_decay_;
  std::vector<Piece> pieces_;  // of the block; empty: all are alike
  GradientScale scale_;
  bool begun_ = false;
};

inline Range weight_decays() {
  return Range::from_below(0, 1e30).said("0 or more, and below 1e30");
}
// Calls f(member, Setting) for those of these options that Self has.
template <class Self, class F>
void visit_optimizer(Self& self, F&& f) {
  if constexpr (requires { self.momentum; }) {
    f(self.momentum,
      Setting{.name = "momentum", .about = "SGD: momentum", .range = Range::from_below(0, 1)});
    f(self.nesterov,
      Setting{.name = "nesterov", .about = "SGD: Nesterov momentum; no effect if {momentum} is 0"});
  }
  f(self.weight_decay, Setting{.name = "weight_decay",
                               .about = "not applied to biases and batch norm; adamw, accum-adamw, "
                                        "muon*: decoupled from the gradient",
                               .range = weight_decays()});
  if constexpr (requires { self.beta1; }) {
    f(self.beta1, Setting{.name = "beta1",
                          .about = "Adam: decay of the first moment",
                          .range = Range::from_below(0, 1)});
    f(self.beta2, Setting{.name = "beta2",
                          .about = "Adam: decay of the second moment",
                          .range = Range::from_below(0, 1)});
    f(self.epsilon, Setting{.name = "epsilon",
                            .about = "Adam: added to the root of the second moment",
                            .range = Range::between(0, 1)});
  }
  if constexpr (requires { self.muon_momentum; }) {
    f(self.muon_momentum, Setting{.name = "muon_momentum",
                                  .about = "muon, muon-rms: Nesterov momentum of hidden matrices",
                                  .range = Range::from_below(0, 1)});
    f(self.adam_for, Setting{.name = "adam_for",
                             .about = "muon, muon-rms: matrices that are no hidden ones, by "
                                      "patterns; they take Adam, as all vectors do"});
    f(self.adam_factor, Setting{.name = "adam_factor",
                                .about = "muon: factor of the learning rate of what takes Adam; an "
                                         "own factor replaces it",
                                .range = Range::above_zero_to(1e6)});
  }
}
// Over how many steps accum-* may take the mean gradient.
inline Range accumulated_steps() { return Range::from_to(1, 1e6); }

// As torch.optim.SGD with dampening 0.
struct SgdOptions {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = false;

  static void visit(auto& self, auto&& f) { visit_optimizer(self, f); }
};
class Sgd : public FlatOptimizer {
 public:
  explicit Sgd(FlatParams&, SgdOptions = {});
  std::vector<NamedTensor> state() override;  // {"momentum", f32 [size]}
  const char* name() const override { return "sgd"; }

 private:
  void pass(const UpdateBlocks&, FlatRange, float weight_decay) override;

  SgdRule rule_;
};

// As torch.optim.Adam; decoupled: as torch.optim.AdamW. period s > 1: Accumulated Adam (Decent-DP,
// ICLR 2025, Alg. 4): the moments take up the mean gradient of s steps at once, while each step
// still moves by its own gradient too. So they remember longer, with less noise.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  i64 period = 1;

  static void visit(auto& self, auto&& f) { visit_optimizer(self, f); }
};
class Adam : public FlatOptimizer {
 public:
  explicit Adam(FlatParams&, AdamOptions = {});
  void begin_step(const GradientScale& = {}) override;
  // {"first_moment", "second_moment": f32 [size], already multiplied by beta}, "gradient_sum" with
  // a period, {"steps", i64 [1]}
  std::vector<NamedTensor> state() override;
  // adam, adamw, accum-adam, accum-adamw
  const char* name() const override;

 private:
  AdamCount count() const override { return count_; }
  void pass(const UpdateBlocks&, FlatRange, float weight_decay) override;

  AdamRule rule_;
  AdamCount count_;  // of the steps that were taken
};

// Of muon.h.
struct MuonOptions {
  bool match_rms = false;  // muon-rms
  double muon_momentum = 0.95;
  // Matrices that are no hidden ones: tables, heads and adapters of our models.
  std::string adam_for =
      "*embed_tokens, *embedding, *wte, *wpe, *lm_head, fc, linear, *lora_A, *lora_B";
  double adam_factor = 0.05;
  double beta1 = AdamOptions().beta1, beta2 = AdamOptions().beta2, epsilon = AdamOptions().epsilon;
  double weight_decay = 0;

  static void visit(auto& self, auto&& f) { visit_optimizer(self, f); }
};

struct OptimizerOptions {
  double momentum = SgdOptions().momentum, weight_decay = 0;
  bool nesterov = false;
  double beta1 = AdamOptions().beta1, beta2 = AdamOptions().beta2, epsilon = AdamOptions().epsilon;
  i64 period = 4;  // accum-*: s
  std::vector<RateFactor> factors{};
  std::vector<OwnDecay> decays{};
  double muon_momentum = MuonOptions().muon_momentum, adam_factor = MuonOptions().adam_factor;
  std::string adam_for = MuonOptions().adam_for;
};
// name: sgd | adam | adamw | accum-adam | accum-adamw | muon | muon-rms. ConfigError lists the
// known names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams&,
                                          const OptimizerOptions& = {});

}  // namespace gossamer::nn
