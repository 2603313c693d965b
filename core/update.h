// What a training step does to the parameters, outside the tape: the formulas of the optimizers and
// of A2CiD2, and the one pass over FlatParams that applies them together. The formulas are
// templates, so tests and the simulator run the same maths in double. The host waits for a GPU only
// where it says so. The pass is in ops/op_update.cpp.
// Threads: one at a time for an Optimizer, its FlatParams and the blocks of a pass.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

// --- formulas, for one parameter

// The flow of dx = eta (y - x) dt, dy = eta (x - y) dt over `elapsed` (A2CiD2, NeurIPS 2023):
// (x, y) <- (c x + s y, s x + c y).
template <class T>
struct MixCoefficients {
  T c = 1, s = 0;
  // elapsed: in mean gradient durations; below 0 it runs backwards
  static MixCoefficients over(T eta, T elapsed) {
    const T e = std::exp(T(-2) * eta * elapsed);
    return {(T(1) + e) / T(2), (T(1) - e) / T(2)};
  }
};
template <class T>
GOSSAMER_HD inline void mix_element(T c, T s, T& x, T& y) {
  const T mixed = c * x + s * y;
  y = s * x + c * y;
  x = mixed;
}
// A difference d = own snapshot - received snapshot is applied.
template <class T>
GOSSAMER_HD inline void jump_element(T jump_x, T jump_y, T d, T& x, T& y) {
  x -= jump_x * d;
  y -= jump_y * d;
}
// SGD as torch.optim.SGD with dampening 0: g += wd x; m <- mu m + g; returns the direction m
// (nesterov: g + mu m), which times the learning rate is subtracted from x.
template <class T>
GOSSAMER_HD inline T sgd_direction(T mu, T wd, bool nesterov, T x, T g, T& m) {
  g += wd * x;
  m = mu * m + g;
  return nesterov ? g + mu * m : m;
}

// Adam (Kingma and Ba 2015) and Accumulated Adam of period s (Decent-DP, ICLR 2025, Alg. 4). In
// step t, with k = ceil(t/s):
//   A += g/s,  m = M + (1 - beta1) g,  v = V + (1 - beta2) g^2
//   x -= lr/(1 - beta1^k) m / (sqrt(v)/sqrt(1 - beta2^k) + epsilon)
// and every s steps:
//   M = beta1 (M + (1 - beta1) A),  V = beta2 (V + (1 - beta2) A^2),  A = 0
// M and V are stored with beta already on them; so s = 1 is Adam itself, bit for bit, and needs no
// A.
template <class T>
struct AdamFactors {
  T beta1, gain1, beta2, gain2;  // gain = 1 - beta, rounded once
  T rate, root, epsilon;         // lr/(1 - beta1^k), 1/sqrt(1 - beta2^k)
  T share;                       // 1/s
  bool commits;
  // step = 1, 2, …
  GOSSAMER_HD static AdamFactors at(i64 step, i64 period, double learning_rate, double beta1,
                                    double beta2, double epsilon) {
    using std::pow, std::sqrt;
    const auto k = static_cast<double>((step + period - 1) / period);
    return {T(beta1),
            T(1 - beta1),
            T(beta2),
            T(1 - beta2),
            T(learning_rate / (1 - pow(beta1, k))),
            T(1 / sqrt(1 - pow(beta2, k))),
            T(epsilon),
            T(1.0 / static_cast<double>(period)),
            step % period == 0};
  }
};
template <bool accumulates, class T>
GOSSAMER_HD inline T adam_direction(const AdamFactors<T>& f, T g, T& first, T& second, T& sum) {
  using std::sqrt;
  const T m = first + f.gain1 * g, v = second + f.gain2 * g * g;
  if constexpr (accumulates) {
    sum += f.share * g;
    if (f.commits) {
      first = f.beta1 * (first + f.gain1 * sum);
      second = f.beta2 * (second + f.gain2 * sum * sum);
      sum = 0;
    }
  } else {
    first = f.beta1 * m;
    second = f.beta2 * v;
  }
  return f.rate * m / (sqrt(v) * f.root + f.epsilon);
}

// --- optimizers. Their classes are in nn; dist, which may not see nn, knows this interface.

// A second copy of the parameters that takes every update too (A2CiD2's x~), mixed with the first
// in the same pass: (x, twin) <- (c x + s twin, s x + c twin), then both take the optimizer's
// update, computed at the mixed x.
struct Twin {
  Tensor values;  // f32, same layout as FlatParams::values()
  float c = 1, s = 0;
};

// A difference that has waited for this update (on a GPU; on a CPU it is applied when it arrives,
// see apply_difference). After the update, and before the compute copy:
// (x, twin) -= (x, twin) (own - received).
struct Difference {
  Tensor own, received;  // the two snapshots of an exchange: f32 or f16, same layout
  float x = 0, twin = 0;
};

// Gradients are multiplied by `factor` (averaging). If their norm would then exceed `clip`, they
// are multiplied by less, so that it is `clip` (0: no limit).
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
  // each once, in any order; they begin and end between parameters. begin_step() needs all
  // gradients if there is a norm to clip, or an overflow() of the parameters to look for.
  virtual void begin_step(const GradientScale& = {}) = 0;
  virtual void update(FlatRange, float learning_rate, const Twin* twin = nullptr,
                      const Difference* late = nullptr) = 0;
  // For checkpoints: flat blocks of the parameters' layout, e.g. {"momentum", …}, and counters (i64
  // of one element).
  virtual std::vector<NamedTensor> state() = 0;
  virtual const char* name() const = 0;
};

// --- the pass, in this order: mix x with the twin; update both (weight decay, momentum) at the
// mixed x; apply a difference; write the compute copy. Each number is read and written once,
// instead of once for each formula. Everything that changes from step to step lies where the
// parameters are, so the host never waits for a GPU, and a recorded graph of the pass stays valid.

// The numbers of one step.
struct StepNumbers {
  double squared_norm = 0;  // of the gradients, if it is measured
  float learning_rate = 0, grad_scale = 1;
  float mix_c = 1, mix_s = 0;  // before the update (x, twin) <- (c x + s twin, s x + c twin)
  // after it, if `jump`: (x, twin) -= (jump_x, jump_twin) (own - received)
  float jump_x = 0, jump_twin = 0;
  std::int32_t jump = 0;      // 0: own and received are not read
  AdamFactors<float> adam{};  // AdamFactors::at(step, …, learning rate, …)
};
static_assert(std::is_trivially_copyable_v<StepNumbers>);
Tensor step_numbers(Device);  // u8, holds StepNumbers{}
// squared_norm <- |g|^2 without the loss scale
void measure_gradients(Tensor& numbers, FlatParams&);
// Adam's steps are counted where the parameters are: only there it is known which were skipped.
struct AdamCount {
  Tensor steps;  // i64 [1]; undefined: not Adam
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  i64 period = 1;
};
// All numbers but squared_norm. They travel as arguments of a launch, so nothing on the host has to
// stay where it is; grad_scale (from the norm, if there is a limit) and Adam's factors are computed
// there.
void write_numbers(Tensor& numbers, const StepNumbers&, const GradientScale& = {},
                   const AdamCount& = {});

// What the pass works on beside FlatParams; undefined where not wanted.
struct UpdateBlocks {
  Tensor twin;           // f32 [size]
  Tensor own, received;  // f32 or f16 [size]: the two snapshots of an exchange
};
// Weight decay is for parameters of rank >= 2: biases and batch norm keep their size.
struct SgdRule {
  Tensor momentum;  // f32 [size]
  float mu = 0, weight_decay = 0;
  bool nesterov = false;
};
struct AdamRule {
  Tensor first, second, sum;  // M, V, A: f32 [size]; A only with a period
  float weight_decay = 0;
  bool decoupled = false;  // AdamW: x -= lr wd x, instead of g += wd x
};
// On a range of the block that begins and ends on 32 elements, as parameters do. Gradients are
// multiplied by grad_scale and divided by the parameters' loss scale. If the last find_overflow()
// found some, the update is skipped, but not mixing and the difference. ShapeError and DeviceError
// name the block that does not fit.
void sgd_pass(FlatParams&, const SgdRule&, const Tensor& numbers, const UpdateBlocks& = {},
              FlatRange = {});
void adam_pass(FlatParams&, const AdamRule&, const Tensor& numbers, const UpdateBlocks& = {},
               FlatRange = {});

// Once a step, when all gradients are in: fills FlatParams::overflow(), if there is one.
void find_overflow(FlatParams&);
// steps (i64 [1], where the parameters are) += 1, unless the last find_overflow() found some.
void count_step(const FlatParams&, Tensor& steps);
// |g|^2 of grads(), without the loss scale; 0 if they overflowed, since the step is then skipped.
// The host waits for a GPU.
double squared_gradient(FlatParams&);

}  // namespace gossamer
