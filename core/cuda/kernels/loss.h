// Softmax cross-entropy for GPUs: a block a row, one reading for loss and normaliser, one more for
// the gradient.
#pragma once

#include <cmath>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda/kernels/launch.h"

namespace gossamer::kernels {

// Largest value seen and sum of exp(z - top), kept together while reading ("online"); an empty one
// is {-inf, 0}.
struct TopSum {
  float top, sum;
  GOSSAMER_HD static bool above(float v, float top) { return v > top || v != v; }  // a NaN stays
  // exp(v - top) with inf - inf = 0
  GOSSAMER_HD static float part(float v, float top) { return v == top ? 1 : expf(v - top); }
  GOSSAMER_HD void raise(float most) {
    if (!above(most, top)) return;
    sum *= expf(top - most);
    top = most;
  }
  GOSSAMER_HD void add(float z) {
    raise(z);
    sum += part(z, top);
  }
  GOSSAMER_HD void add(const Eight& z) {
    float most = z.v[0];
    GOSSAMER_UNROLL
    for (int j = 1; j < 8; ++j)
      if (above(z.v[j], most)) most = z.v[j];
    raise(most);
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) sum += part(z.v[j], top);
  }
  GOSSAMER_HD void join(const TopSum& o) {
    if (o.top == top)
      sum += o.sum;
    else if (o.top < top)
      sum += o.sum * expf(o.top - top);
    else {
      sum = sum * expf(top - o.top) + o.sum;
      top = o.top;
    }
  }
};

struct Normaliser {  // p = exp(z - top - log_sum)
  float top, log_sum;
};
// A row's p - q, of its logits.
struct Slope {
  Normaliser norm;
  float smoothing, spread;  // q = spread, and 1 - smoothing more at the label
  i64 label;
  bool counts;
  GOSSAMER_HD Slope(const Normaliser& norm_, const LossRows& how, i64 label_, i64 cols)
      : norm(norm_),
        smoothing(how.label_smoothing),
        spread(how.label_smoothing / static_cast<float>(cols)),
        label(label_),
        counts(!how.ignores || label_ != how.ignore) {}
  GOSSAMER_HD float operator()(float z, i64 c) const {
    const float q = spread + (c == label ? 1 - smoothing : 0.0f);
    return counts ? expf(z - norm.top - norm.log_sum) - q : 0.0f;
  }
};

template <class T, class G, bool whole>  // G: of the gradient
struct SoftmaxLoss {
  static constexpr int threads = 256, phases = 4, few = 16;
  struct Shared {
    TopSum part[threads], joined[few];
    Normaliser row;
    float all[threads], all_joined[few];  // sum of z, for label smoothing
  };
  using State = Nothing;
  const T* logits;
  const std::int32_t* labels;
  i64 cols;
  LossRows how;
  float* losses;
  G* dz;              // p - q; null: not wanted
  Normaliser* norms;  // null: not wanted
  template <int phase>
  GOSSAMER_HD void run(i64 row, int t, Shared& shared, State&) const {
    const T* z = logits + row * cols;
    const i64 label = labels[row];
    const bool valid = label >= 0 && label < cols;
    const float smoothing = how.label_smoothing;
    if constexpr (phase == 0) {
      TopSum part{-__builtin_huge_valf(), 0};
      float all = 0;
      if constexpr (whole)
        for (i64 c = 8 * t; c < cols; c += 8 * threads) {
          const Eight v = load_eight<true>(z + c, 8);
          part.add(v);
          GOSSAMER_UNROLL
          for (int j = 0; j < 8; ++j) all += v.v[j];
        }
      else
        for (i64 c = t; c < cols; c += threads) {
          const float v = load(z, c);
          part.add(v);
          all += v;
        }
      shared.part[t] = part;
      shared.all[t] = all;
    } else if constexpr (phase == 1) {
      if (t >= few) return;
      TopSum part = shared.part[t];
      float all = shared.all[t];
      for (int k = t + few; k < threads; k += few) {
        part.join(shared.part[k]);
        all += shared.all[k];
      }
      shared.joined[t] = part;
      shared.all_joined[t] = all;
    } else if constexpr (phase == 2) {
      if (t > 0) return;
      TopSum part = shared.joined[0];
      float all = shared.all_joined[0];
      for (int k = 1; k < few; ++k) {
        part.join(shared.joined[k]);
        all += shared.all_joined[k];
      }
      const float own = valid ? load(z, label) : __builtin_nanf(""), log_sum = logf(part.sum),
                  classes = static_cast<float>(cols);
      // log p = z - top - log_sum, subtracted one after the other: in one number a large top would
      // swallow the digits of log_sum.
      float loss = (1 - smoothing) * (log_sum - (own - part.top));
      if (smoothing > 0) loss += smoothing * (log_sum - (all / classes - part.top));
      losses[row] = !how.ignores || label != how.ignore ? loss : 0.0f;
      shared.row = {part.top, valid ? log_sum : __builtin_nanf("")};
      if (norms) norms[row] = shared.row;
    } else if (dz) {
      const Slope slope(shared.row, how, label, cols);
      if constexpr (whole)
        for (i64 c = 8 * t; c < cols; c += 8 * threads) {
          Eight v = load_eight<true, Reuse::never>(z + c, 8);
          GOSSAMER_UNROLL
          for (int j = 0; j < 8; ++j) v.v[j] = slope(v.v[j], c + j);
          store_eight<true>(dz + row * cols + c, 8, v);
        }
      else
        for (i64 c = t; c < cols; c += threads) store(dz + row * cols, c, slope(load(z, c), c));
    }
  }
};

// The gradient alone, in the logits' place. A block takes a row, as above.
template <class T, bool whole>
struct SoftmaxBack {
  static constexpr int threads = 256, phases = 1;
  using Shared = Nothing;
  using State = Nothing;
  T* logits;
  const std::int32_t* labels;
  i64 cols;
  LossRows how;
  const Normaliser* norms;
  const float *g, *share;
  template <int phase>
  GOSSAMER_HD void run(i64 row, int t, Shared&, State&) const {
    T* z = logits + row * cols;
    const Slope slope(norms[row], how, labels[row], cols);
    const float factor = *g * *share;
    if constexpr (whole)
      for (i64 c = 8 * t; c < cols; c += 8 * threads) {
        Eight v = load_eight<true, Reuse::never>(z + c, 8);
        GOSSAMER_UNROLL
        for (int j = 0; j < 8; ++j) v.v[j] = factor * slope(v.v[j], c + j);
        store_eight<true>(z + c, 8, v);
      }
    else
      for (i64 c = t; c < cols; c += threads) store(z, c, factor * slope(load(z, c), c));
  }
};

}  // namespace gossamer::kernels
