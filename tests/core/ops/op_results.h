// What a row of the list of ops gives: its result, and the gradients of all inputs.
#pragma once

#include <vector>

#include "core/ops/op_case.h"
#include "gossamer/core/backend.h"

namespace gossamer::testing {

// On that device, with the backend in use there. The result and the gradients of a weighted sum of
// it, on the CPU as f32.
inline std::vector<Tensor> results_of(const OpCase& c, const std::vector<Tensor>& inputs,
                                      Device device = {}) {
  std::vector<Tensor> leaves, all;
  for (const Tensor& x : inputs) leaves.push_back(x.clone().to(device).requires_grad(c.gradient));
  const Tensor y = c.run(leaves);
  all.push_back(y.to(Device::cpu()).to(DType::f32));
  if (!c.gradient) return all;
  Tensor weights = Tensor::empty(y.shape());
  Rng rng(77);
  for (float& v : weights.span<float>()) v = rng.normal();
  sum(mul(cast(y, DType::f32), weights.to(device))).backward();
  for (const Tensor& x : leaves)
    all.push_back(x.grad().defined() ? x.grad().to(Device::cpu()).to(DType::f32)
                                     : Tensor::zeros(x.shape()));
  return all;
}

// The inputs of a row in this type, but for those that stay f32.
inline std::vector<Tensor> inputs_in(DType type, const OpCase& c, std::uint64_t seed = 41) {
  std::vector<Tensor> inputs = draw_inputs(c, seed);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (k >= c.keep_f32.size() || !c.keep_f32[k]) inputs[k] = inputs[k].to(type);
  return inputs;
}

}  // namespace gossamer::testing
