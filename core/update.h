// One-pass updates over flat spans: optimizer steps, A2CiD2 mixing, gossip jumps, clipping. Outside the tape.
// The element formulas are templates, so tests and the simulator run the same maths in f64.
#pragma once

#include <cmath>

#include "gossamer/core/optimizer.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

class FlatParams;

// --- formulas -----------------------------------------------------------------------------------------------------------
// (x, y) <- (c x + s y, s x + c y): the flow of dx = eta (y - x) dt, dy = eta (x - y) dt (A2CiD2, NeurIPS 2023).
template <class T> struct MixCoefficients {
  T c = 1, s = 0;
  static MixCoefficients over(T eta, T elapsed) {          // elapsed >= 0, in mean gradient durations
    const T e = std::exp(T(-2) * eta * elapsed);
    return {(T(1) + e) / T(2), (T(1) - e) / T(2)};
  }
};
template <class T> GOSSAMER_HD inline void mix_element(T c, T s, T& x, T& y) {
  const T mixed = c * x + s * y;
  y = s * x + c * y;
  x = mixed;
}
// A communication event whose difference d = own snapshot - received snapshot arrives when (c, s) has elapsed since the snapshot:
// x -= (c a + s b) d, y -= (s a + c b) d with a = alpha, b = alpha~. c = 1, s = 0: applied at once.
template <class T> GOSSAMER_HD inline void jump_element(T jx, T jy, T d, T& x, T& y) {
  x -= jx * d;
  y -= jy * d;
}
// SGD as torch.optim.SGD with dampening 0: g += wd x; m <- mu m + g; returns the direction u (nesterov: g + mu m), x -= lr u.
template <class T> GOSSAMER_HD inline T sgd_direction(T mu, T wd, bool nesterov, T x, T g, T& m) {
  g += wd * x;
  m = mu * m + g;
  return nesterov ? g + mu * m : m;
}

// --- passes over FlatParams (op_update.cpp) ---------------------------------------------------------------------------------
struct SgdStep { float learning_rate = 0, momentum = 0, weight_decay = 0; bool nesterov = false; float grad_scale = 1; };
// Mix with the twin (if any), SGD on values (weight decay on [0, decayed) only), the same update on the twin, compute copy.
void sgd_update(FlatParams&, Tensor& momentum, const SgdStep&, const Twin* twin = nullptr);

// --- passes over equal f32 spans -----------------------------------------------------------------------------------------------
void mix(Tensor& x, Tensor& y, float c, float s);
void jump(Tensor& x, Tensor& y, float jx, float jy, const Tensor& own, const Tensor& received);   // d = own - received; y may be undefined
void mix_and_snapshot(Tensor& x, Tensor* y, float c, float s, Tensor& snapshot);                   // mix (y may be null), then snapshot <- x
double squared_norm(const Tensor& x);
double squared_distance(const Tensor& a, const Tensor& b);
bool all_finite(const Tensor& x);
void scale(Tensor& x, float factor);
void axpy(Tensor& y, float a, const Tensor& x);                                                     // y += a x
void accumulate(Tensor& y, const Tensor& x);                                                        // y += x; y, x each f32 or bf16

}  // namespace gossamer
