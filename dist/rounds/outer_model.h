// The outer model and velocity of one worker in memory: the numbers of step.h applied to tensors.
#pragma once

#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/dist/rounds/step.h"

namespace gossamer::dist {

class OuterModel {
 public:
  // o starts as x. None of it is kept if there is nobody to exchange with: defined() is then false.
  OuterModel(const Tensor& x, bool wanted);
  bool defined() const { return model_.defined(); }
  // mean: of the models, of this range
  void step(FlatRange, const Tensor& mean, const OuterStep&);
  // o and v of this range
  Tensor model(FlatRange) const;
  Tensor velocity(FlatRange) const;
  // for checkpoints: outer.model f32 [n], outer.velocity f32 [1, n], for it is no copy of the model
  std::vector<NamedTensor> state() const;

 private:
  Tensor model_, velocity_;
};

}  // namespace gossamer::dist
