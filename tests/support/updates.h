// The pass of core/update.h called with the numbers of one step, and the plain passes it stands
// for: mix, update, difference and copy one after the other, each a loop over the block. Files that
// compare both are compiled without fused multiply-adds, as the pass is.
#pragma once

#include <cstring>

#include "gossamer/core/exchange.h"
#include "gossamer/core/update.h"

namespace gossamer::testing {

inline Tensor numbers_of(const StepNumbers& n) {
  Tensor t = step_numbers(Device::cpu());
  std::memcpy(t.data(), &n, sizeof n);
  return t;
}
inline StepNumbers numbers_with(const Twin* twin, StepNumbers n) {
  if (twin) n.mix_c = twin->c, n.mix_s = twin->s;
  return n;
}

struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  float grad_scale = 1;
};
inline void sgd_update(FlatParams& p, const Tensor& momentum, const SgdStep& o,
                       const Twin* twin = nullptr) {
  const StepNumbers n{.learning_rate = o.learning_rate, .grad_scale = o.grad_scale};
  sgd_pass(p, {momentum, o.momentum, o.weight_decay, o.nesterov}, numbers_of(numbers_with(twin, n)),
           {.twin = twin ? twin->values : Tensor(), .own = {}, .received = {}});
}

// direction(i, weight decay, x, g): what to subtract from x, of element i.
template <class Direction>
void plain_pass(FlatParams& p, const StepNumbers& n, const UpdateBlocks& b, float weight_decay,
                Direction direction) {
  Tensor values = p.values(), twin = b.twin;
  p.settle_grads();
  if (twin.defined()) mix(values, twin, n.mix_c, n.mix_s);
  float* x = values.as<float>();
  const float scale = n.grad_scale / p.loss_scale();
  if (!p.skips_step())
    for (i64 i = 0; i < p.size(); ++i) {
      const float step =
          direction(i, i < p.decayed() ? weight_decay : 0, x[i], scale * p.grads().as<float>()[i]);
      x[i] -= step;
      if (twin.defined()) twin.as<float>()[i] -= step;
    }
  if (n.jump) apply_difference(values, twin, n.jump_x, n.jump_twin, b.own, b.received);
  p.refresh();
}
inline void plain_sgd(FlatParams& p, const SgdRule& r, const StepNumbers& n,
                      const UpdateBlocks& b = {}) {
  plain_pass(p, n, b, r.weight_decay, [&](i64 i, float wd, float x, float g) {
    return n.learning_rate *
           sgd_direction(r.mu, wd, r.nesterov, x, g, Tensor(r.momentum).as<float>()[i]);
  });
}
inline void plain_adam(FlatParams& p, const AdamRule& r, const StepNumbers& n,
                       const UpdateBlocks& b = {}) {
  plain_pass(p, n, b, r.weight_decay, [&](i64 i, float wd, float x, float g) {
    float &first = Tensor(r.first).as<float>()[i], &second = Tensor(r.second).as<float>()[i],
          none = 0;
    const float coupled = r.decoupled ? 0 : wd, straight = r.decoupled ? n.learning_rate * wd : 0;
    const float u = r.sum.defined()
                        ? adam_direction<true>(n.adam, g + coupled * x, first, second,
                                               Tensor(r.sum).as<float>()[i])
                        : adam_direction<false>(n.adam, g + coupled * x, first, second, none);
    return u + straight * x;
  });
}

}  // namespace gossamer::testing
