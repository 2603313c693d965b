// What a decentralized method needs of an optimizer. The optimizers themselves are in nn; this face
// is in core because dist may not see nn.
#pragma once

#include <vector>

#include "gossamer/core/flat.h"

namespace gossamer {

// A second copy of the parameters that takes every update too (A2CiD2's x~), mixed with the first
// in the same pass:
//   (x, twin) <- (c x + s twin, s x + c twin), then both take the optimizer's update, computed at
//   the mixed x.
struct Twin {
  Tensor values;  // f32, same layout as FlatParams::values()
  // mixing coefficients, algorithms: c = (1 + e)/2, s = (1 - e)/2, e = exp(-2 eta dt)
  float c = 1, s = 0;
};

// A difference that came while the gradient was computed, taken along by the same pass. After the
// update, and before the compute copy:
//   (x, twin) -= (x, twin) (own - received)
struct Difference {
  Tensor own, received;  // the two snapshots of an exchange: f32 or f16, same layout
  float x = 0, twin = 0;
};

// What gradients are multiplied by: factor (averaging), and by less where their norm would still
// exceed `clip` then (0: no limit).
struct GradientScale {
  double factor = 1, clip = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One update of FlatParams::values() with its gradients, in one pass that also writes the compute
  // copy.
  void step(float learning_rate, const Twin* twin = nullptr, const GradientScale& scale = {},
            const Difference* late = nullptr) {
    begin_step(scale);
    update({}, learning_rate, twin, late);
  }
  // The same in pieces: one begin_step(), then update() for ranges that together are the block,
  // each once, in any order. When it begins all gradients must be in, if there is a norm to clip,
  // or an overflow() of the parameters to look for.
  virtual void begin_step(const GradientScale& = {}) = 0;
  virtual void update(FlatRange, float learning_rate, const Twin* twin = nullptr,
                      const Difference* late = nullptr) = 0;
  // For checkpoints: flat blocks of the parameters' layout, e.g. {"momentum", …}, and counters (i64
  // of one element).
  virtual std::vector<NamedTensor> state() = 0;
  virtual const char* name() const = 0;
};

}  // namespace gossamer
