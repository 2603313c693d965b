// SGP, stochastic gradient push (Assran et al. 2019): each worker sends to any others and waits
// only for what is sent to it, so rounds may be directed. Then W need not keep the mean of the
// values, but push-sum does: with u = w z, both u and w are mixed, and z = u / w is the model.
//
// values() holds z. The gradient step u -= lr d is z -= (lr / w) d. (z, w) travel together, and any
// rounds whose columns sum to 1 are right, also after a loss: what is not taken is kept. (On
// regular graphs w stays 1.) overlap: what was sent after a step is added after the next backward;
// otherwise each step waits for its own round.
#pragma once

#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

class SgpMethod final : public SynchronousMethod {
 public:
  SgpMethod(FlatParams&, Optimizer&, Group&, const Graph&, const MethodOptions&);
  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> all = SynchronousMethod::state();
    all.insert(all.begin(), {"push_sum.weight", weight_});
    return all;
  }

 private:
  void update(double learning_rate) override;
  void launch_ahead() override;
  bool may_refuse() const override { return false; }
  void mix_round() override;
  double part_of_values(double part) override;
  void mix_pending() override {
    if (pending(0)) receive();
  }
  std::optional<double> weight_in_mean() const override {
    return static_cast<double>(weight_.item());
  }
  void send();
  void receive();

  Tensor weight_;             // f32 [1], on the CPU; it travels as the note of the values
  double weight_before_ = 1;  // the last receive()
  bool resumed_ = false;
};

}  // namespace gossamer::dist
