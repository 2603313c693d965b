// SGP, stochastic gradient push (Assran et al. 2019): each worker sends to any others and waits
// only for what is sent to it, so rounds may be directed. Then W need not keep the mean of the
// values, but push-sum does: with u = w z, both u and w are mixed, and z = u / w is the model.
//
// values() holds z. The gradient step u -= lr d is z -= (lr / w) d. (z, w) travel together, and any
// rounds whose columns sum to 1 are right, also after a loss: what is not taken is kept. (On
// regular graphs w stays 1.) overlap: what was sent after a step is added after the next backward;
// otherwise each step waits for its own round.
#pragma once

#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

struct SgpOptions : OverlapOptions, ConsensusFactor {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    OverlapOptions::visit(self, f);
    ConsensusFactor::visit(self, f);
  }
};

// The simulator's own steps wait for their round (mixing u and w).
class Sgp final : public MixingFormula {
 public:
  using MixingFormula::MixingFormula;
  bool is_push_sum() const override { return true; }
};

// (z, w) on tensors.
class SgpMethod final : public SynchronousMethod {
 public:
  SgpMethod(const MethodTraits&, const MethodContext&, const SgpOptions&);
  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> all = SynchronousMethod::state();
    all.insert(all.begin(), {"push_sum.weight", weight_});
    return all;
  }

 private:
  void update() override;
  void launch_all(const Round&) override;
  void mix_pending() override;
  bool may_refuse() const override { return false; }
  double part_of_values(double part) override;
  std::optional<double> weight_in_mean() const override {
    return static_cast<double>(weight_.item());
  }

  Tensor weight_;             // f32 [1], on the CPU; it travels as the note of the values
  double weight_before_ = 1;  // the last mix_pending()
};

}  // namespace gossamer::dist
