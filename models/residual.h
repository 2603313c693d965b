// The residual stream of a transformer. It travels as a pair, x and what will be added to it, so
// that each addition is part of the norm that follows.
#pragma once

#include "gossamer/nn/attention.h"

namespace gossamer::models {

// x + add; add may be undefined.
struct Stream {
  Tensor x, add;
};

// The sum, and its norm.
template <class Norm>
NormedSum join(Norm& norm, const Stream& s) {
  return s.add.defined() ? norm.of_sum(s.x, s.add) : NormedSum{norm(s.x), s.x};
}
// The same; what is added is dropped with the probability of `drop`.
inline NormedSum join(nn::LayerNorm& norm, nn::Dropout& drop, const Stream& s) {
  if (!s.add.defined() || drop.probability() == 0 || !drop.training()) return join(norm, s);
  const Tensor sum = drop.add_to(s.x, s.add);
  return {norm(sum), sum};
}

// A branch f with its layer norm. norm_first: x + f(norm(x)) (GPT-2); else norm(x + f(x)) (Vaswani
// et al. 2017).
template <class F>
Stream branch(nn::LayerNorm& norm, nn::Dropout& drop, bool norm_first, const Stream& s, F&& f) {
  if (!norm_first) return {join(norm, drop, {s.x, f(s.x)}).y, {}};
  const NormedSum in = join(norm, drop, s);
  return {in.sum, f(in.y)};
}

}  // namespace gossamer::models
