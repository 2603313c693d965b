// One-pass updates over flat spans: optimizer steps, A2CiD2 mixing, gossip jumps, clipping. Outside
// the tape. The element formulas are templates, so tests and the simulator run the same maths in
// f64.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "gossamer/core/optimizer.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

// --- formulas
// -------------------------------------------------------------------------------------------------
// (x, y) <- (c x + s y, s x + c y): the flow of dx = eta (y - x) dt, dy = eta (x - y) dt (A2CiD2,
// NeurIPS 2023).
template <class T>
struct MixCoefficients {
  T c = 1, s = 0;
  // elapsed >= 0, in mean gradient durations
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
// A communication event whose difference d = own snapshot - received snapshot arrives when (c, s)
// has elapsed since the snapshot: x -= (c a + s b) d, y -= (s a + c b) d with a = alpha, b =
// alpha~. c = 1, s = 0: applied at once.
template <class T>
GOSSAMER_HD inline void jump_element(T jx, T jy, T d, T& x, T& y) {
  x -= jx * d;
  y -= jy * d;
}
// SGD as torch.optim.SGD with dampening 0: g += wd x; m <- mu m + g; returns the direction u
// (nesterov: g + mu m), x -= lr u.
template <class T>
GOSSAMER_HD inline T sgd_direction(T mu, T wd, bool nesterov, T x, T g, T& m) {
  g += wd * x;
  m = mu * m + g;
  return nesterov ? g + mu * m : m;
}

// Adam (Kingma and Ba 2015) and Accumulated Adam of period s (Decent-DP, ICLR 2025, Alg. 4). In
// step t, k = ceil(t/s):
//   A += g/s,  m = M + (1 - beta1) g,  v = V + (1 - beta2) g^2,  x -= lr/(1 - beta1^k) m /
//   (sqrt(v)/sqrt(1 - beta2^k) + epsilon) every s steps:  M = beta1 (M + (1 - beta1) A),  V = beta2
//   (V + (1 - beta2) A^2),  A = 0
// M and V are stored with beta already on them; then s = 1 is Adam itself, bit for bit, and needs
// no A.
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

// The factor on gradients whose squared norm this is.
GOSSAMER_HD inline float clip_factor(const GradientScale& scale, double squared_norm) {
  using std::sqrt;
  const double norm = scale.factor * sqrt(squared_norm);
  return static_cast<float>(scale.clip > 0 && norm > scale.clip ? scale.factor * scale.clip / norm
                                                                : scale.factor);
}

// --- passes over FlatParams (op_optimizer.cpp)
// ------------------------------------------------------------------------------ Each: mix with the
// twin (if any), update values (weight decay on [0, decayed) only), the same update on the twin,
// compute copy; all of it on `range` only. Gradients are multiplied by grad_scale and divided by
// the parameters' loss scale. If the last find_overflow() found some, only mixing and the compute
// copy are left of it.
struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  float grad_scale = 1;
};
void sgd_update(FlatParams&, Tensor& momentum, const SgdStep&, const Twin* twin = nullptr,
                FlatRange range = {});

struct AdamStep {
  float learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  float weight_decay = 0;
  bool decoupled = false;    // AdamW: x -= lr wd x, instead of g += wd x
  i64 step = 1, period = 1;  // t and s
  float grad_scale = 1;
};
struct AdamState {
  Tensor first, second, sum;
};  // M, V, A: f32 [size]; A only if period > 1
void adam_update(FlatParams&, AdamState&, const AdamStep&, const Twin* twin = nullptr,
                 FlatRange range = {});

// --- passes over equal f32 spans
// -----------------------------------------------------------------------------------------------
void mix(Tensor& x, Tensor& y, float c, float s);
// d = own - received; y may be undefined
void jump(Tensor& x, Tensor& y, float jx, float jy, const Tensor& own, const Tensor& received);
// x <- own x + share received
void weighted_sum(Tensor& x, float own, float share, const Tensor& received);
// mix (y may be null), then snapshot <- x
void mix_and_snapshot(Tensor& x, Tensor* y, float c, float s, Tensor& snapshot);
double squared_norm(const Tensor& x);
double squared_distance(const Tensor& a, const Tensor& b);
// the same, left on the device: f32 [1]. No wait
void squared_distance_to(const Tensor& a, const Tensor& b, const Tensor& out);
// sums[j] = sum of +-x[i] over i = j mod 1,024, signs drawn from `stream`; in double, the host
// waits for a GPU.
inline constexpr i64 kSketchWidth = 1024;
void count_sketch(const Tensor& x, std::uint64_t stream, std::span<double> sums);
bool all_finite(const Tensor& x);
// Once a step, when all gradients are in: fills FlatParams::overflow(), if there is one. No wait
void find_overflow(FlatParams&);
// steps (i64 [1], where the parameters are) += 1, unless the last find_overflow() found some. No
// wait.
void count_step(const FlatParams&, Tensor& steps);
// |g|^2 of grads(), without the loss scale; 0 if they overflowed, since the step is then left out.
// The host waits for a GPU.
double squared_gradient(FlatParams&);
void scale(Tensor& x, float factor);
// y += a x
void axpy(Tensor& y, float a, const Tensor& x);
// y += x; y, x of any floating type
void accumulate(Tensor& y, const Tensor& x);

}  // namespace gossamer
