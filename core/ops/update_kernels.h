// The pass of fused_update.h for eight neighbouring parameters. Formulas: update.h.
#pragma once

#include "gossamer/core/fused_update.h"
#include "gossamer/core/ops/eight.h"

namespace gossamer::kernels {

// An optimizer's state is read, used eight times and written. step: what to subtract from x, given
// x and its gradient.
struct SgdEight {
  float* m;
  bool nesterov;
  struct State {
    Eight m;
  };
  GOSSAMER_HD State load(i64 at) const { return {load_eight<true>(m + at, 8)}; }
  GOSSAMER_HD void store(i64 at, const State& s) const { store_eight<true>(m + at, 8, s.m); }
  GOSSAMER_HD float step(const fused::StepNumbers& n, float decay, float rate, float x, float g,
                         State& s, int j) const {
    return n.learning_rate * rate * sgd_direction(n.momentum, decay, nesterov, x, g, s.m.v[j]);
  }
};
template <bool accumulates>
struct AdamEight {
  float *first, *second, *sum;
  bool decoupled;
  struct State {
    Eight first, second, sum;
  };
  GOSSAMER_HD State load(i64 at) const {
    return {load_eight<true>(first + at, 8), load_eight<true>(second + at, 8),
            accumulates ? load_eight<true>(sum + at, 8) : Eight{}};
  }
  GOSSAMER_HD void store(i64 at, const State& s) const {
    store_eight<true>(first + at, 8, s.first);
    store_eight<true>(second + at, 8, s.second);
    if constexpr (accumulates) store_eight<true>(sum + at, 8, s.sum);
  }
  GOSSAMER_HD float step(const fused::StepNumbers& n, float decay, float rate, float x, float g,
                         State& s, int j) const {
    const float coupled = decoupled ? 0 : decay,
                straight = decoupled ? n.learning_rate * rate * decay : 0;
    const float direction = adam_direction<accumulates>(n.adam, g + coupled * x, s.first.v[j],
                                                        s.second.v[j], s.sum.v[j]);
    return rate * direction + straight * x;
  }
};

template <class Rule, bool has_twin, class Grad, class Wire>
struct UpdateEight {
  Rule rule;
  const fused::StepNumbers* numbers;
  const float* settings;
  const std::uint8_t* group_of_line;
  float *x, *twin;
  const Grad* g;
  const Wire *own, *received;
  void* half;  // compute copy of elements below `halves`; may be null
  // else bf16. Not a parameter of the template: that would be all these kernels twice
  bool half_is_f16;
  float* full;  // of those from there on; may be null
  i64 halves;
  i64 begin;              // the range's first element
  const float* overflow;  // not 0: the step is left out; may be null
  float unscale;          // 1/loss scale

  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = begin + 8 * i;
    const fused::StepNumbers n = *numbers;
    const bool skip = overflow && *overflow > 0;
    const float grad_scale = n.grad_scale * unscale;
    const int group = group_of_line[at / 32];
    const float decay = settings[2 * group], rate = settings[2 * group + 1];
    Eight value = load_eight<true>(x + at, 8), other{}, mine{}, theirs{};
    if constexpr (has_twin) other = load_eight<true>(twin + at, 8);
    const Eight up = load_eight<true, Reuse::never>(g + at, 8);
    typename Rule::State state = rule.load(at);
    if (n.jump) {
      mine = load_eight<true, Reuse::never>(own + at, 8);
      theirs = load_eight<true, Reuse::never>(received + at, 8);
    }
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      float a = value.v[j], b = other.v[j];
      if constexpr (has_twin) mix_element(n.mix_c, n.mix_s, a, b);
      const float step = skip ? 0 : rule.step(n, decay, rate, a, grad_scale * up.v[j], state, j);
      a -= step;
      b -= step;
      if (n.jump) jump_element(n.jump_x, n.jump_twin, mine.v[j] - theirs.v[j], a, b);
      value.v[j] = a;
      other.v[j] = b;
    }
    store_eight<true>(x + at, 8, value);
    if constexpr (has_twin) store_eight<true>(twin + at, 8, other);
    rule.store(at, state);
    if (at < halves) {
      if (half && half_is_f16)
        store_eight<true>(static_cast<f16*>(half) + at, 8, value);
      else if (half)
        store_eight<true>(static_cast<bf16*>(half) + at, 8, value);
    } else if (full) {
      store_eight<true>(full + at, 8, value);
    }
  }
};

struct SquareAt {
  const float* x;
  GOSSAMER_HD double operator()(i64 i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
};

struct WriteNumbers {
  fused::StepNumbers value;
  GradientScale scale;
  const i64* steps;  // of Adam; null: not Adam
  double beta1, beta2, epsilon;
  i64 period;
  fused::StepNumbers* to;
  GOSSAMER_HD void operator()(i64) const {
    fused::StepNumbers n = value;
    n.squared_norm = to->squared_norm;
    n.grad_scale = clip_factor(scale, n.squared_norm);
    // No step at all: the first was left out, and its factors are not used.
    if (steps)
      n.adam = AdamFactors<float>::at(*steps > 0 ? *steps : 1, period,
                                      static_cast<double>(n.learning_rate), beta1, beta2, epsilon);
    *to = n;
  }
};

template <class Wire>
struct SnapshotEight {
  const float *x, *twin;  // twin may be null
  float c, s;
  Wire* out;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = 8 * i;
    Eight a = load_eight<true>(x + at, 8);
    if (twin) {
      Eight b = load_eight<true>(twin + at, 8);
      GOSSAMER_UNROLL
      for (int j = 0; j < 8; ++j) mix_element(c, s, a.v[j], b.v[j]);
    }
    store_eight<true>(out + at, 8, a);
  }
};

template <class Wire>
struct DifferenceEight {
  float *x, *twin;
  const Wire *own, *received;
  float jump_x, jump_twin;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = 8 * i;
    const Eight mine = load_eight<true, Reuse::never>(own + at, 8),
                theirs = load_eight<true, Reuse::never>(received + at, 8);
    Eight a = load_eight<true>(x + at, 8), b{};
    if (twin) b = load_eight<true>(twin + at, 8);
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j)
      jump_element(jump_x, jump_twin, mine.v[j] - theirs.v[j], a.v[j], b.v[j]);
    store_eight<true>(x + at, 8, a);
    if (twin) store_eight<true>(twin + at, 8, b);
  }
};

}  // namespace gossamer::kernels
