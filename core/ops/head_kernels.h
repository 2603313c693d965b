// Softmax cross-entropy for GPUs: a block a row, one reading for loss, rank and normaliser, one
// more for the gradient.
#pragma once

#include <cmath>

#include "gossamer/core/fused.h"
#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/grid.h"

namespace gossamer::kernels {

// Largest value seen and sum of exp(z - top), kept together while reading ("online"); an empty one
// is {-inf, 0}.
struct TopSum {
  float top, sum;
  GOSSAMER_HD void add(float z) {
    if (z == top)
      sum += 1;
    else if (z < top)
      sum += expf(z - top);
    else {  // larger, or a NaN, which stays and shows
      sum = sum * expf(top - z) + 1;
      top = z;
    }
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

template <class T, class D>
struct SoftmaxLoss {
  static constexpr int threads = 256, phases = 4, few = 16;
  struct Shared {
    TopSum part[threads], joined[few], row;
    float all[threads], all_joined[few];  // sum of z, for label smoothing
    int ahead[threads], ahead_joined[few];
  };
  using State = Nothing;
  const T* logits;
  const std::int32_t* labels;
  i64 cols;
  float smoothing, grad_scale;
  float* losses;
  int* ranks;  // how many logits are not smaller than the label's
  D* dz;       // null: not wanted

  template <int phase>
  GOSSAMER_HD void run(i64 row, int t, Shared& shared, State&) const {
    const T* z = logits + row * cols;
    const i64 label = labels[row];
    const bool valid = label >= 0 && label < cols;
    const float own = valid ? load(z, label) : __builtin_nanf("");
    if constexpr (phase == 0) {
      TopSum part{-__builtin_huge_valf(), 0};
      float all = 0;
      int ahead = 0;
      for (i64 c = t; c < cols; c += threads) {
        const float v = load(z, c);
        part.add(v);
        all += v;
        ahead += c != label && !(v < own) ? 1 : 0;
      }
      shared.part[t] = part;
      shared.all[t] = all;
      shared.ahead[t] = ahead;
    } else if constexpr (phase == 1) {
      if (t >= few) return;
      TopSum part = shared.part[t];
      float all = shared.all[t];
      int ahead = shared.ahead[t];
      for (int k = t + few; k < threads; k += few) {
        part.join(shared.part[k]);
        all += shared.all[k];
        ahead += shared.ahead[k];
      }
      shared.joined[t] = part;
      shared.all_joined[t] = all;
      shared.ahead_joined[t] = ahead;
    } else if constexpr (phase == 2) {
      if (t > 0) return;
      TopSum part = shared.joined[0];
      float all = shared.all_joined[0];
      int ahead = shared.ahead_joined[0];
      for (int k = 1; k < few; ++k) {
        part.join(shared.joined[k]);
        all += shared.all_joined[k];
        ahead += shared.ahead_joined[k];
      }
      const float log_sum = logf(part.sum), classes = static_cast<float>(cols);
      // log p = z - top - log_sum, subtracted one after the other: in one number a large top would
      // swallow the digits of log_sum.
      float loss = (1 - smoothing) * (log_sum - (own - part.top));
      if (smoothing > 0) loss += smoothing * (log_sum - (all / classes - part.top));
      losses[row] = loss;
      ranks[row] = own == own ? ahead : 0x7fffffff;
      shared.row = {part.top, valid ? log_sum : __builtin_nanf("")};
    } else if (dz) {
      const float top = shared.row.top, log_sum = shared.row.sum,
                  spread = smoothing / static_cast<float>(cols);
      for (i64 c = t; c < cols; c += threads) {
        const float p = expf(load(z, c) - top - log_sum),
                    q = spread + (c == label ? 1 - smoothing : 0.0f);
        store(dz + row * cols, c, grad_scale * (p - q));
      }
    }
  }
};

// One block; the order of its sums does not depend on the GPU.
struct CountRows {
  static constexpr int threads = 256, phases = 2, counts = 4;
  struct Shared {
    double of[counts][threads];
  };
  using State = Nothing;
  const float* losses;
  const int* ranks;
  i64 rows;
  fused::Counters* counters;

  template <int phase>
  GOSSAMER_HD void run(i64, int t, Shared& shared, State&) const {
    if constexpr (phase == 0) {
      double loss = 0, top1 = 0, top5 = 0, seen = 0;
      for (i64 r = t; r < rows; r += threads) {
        loss += static_cast<double>(losses[r]);
        top1 += ranks[r] < 1 ? 1 : 0;
        top5 += ranks[r] < 5 ? 1 : 0;
        seen += 1;
      }
      shared.of[0][t] = loss;
      shared.of[1][t] = top1;
      shared.of[2][t] = top5;
      shared.of[3][t] = seen;
    } else if (t < counts) {
      double sum = 0;
      for (int k = 0; k < threads; ++k) sum += shared.of[t][k];
      double& counter = t == 0   ? counters->loss
                        : t == 1 ? counters->top1
                        : t == 2 ? counters->top5
                                 : counters->rows;
      counter += sum;
    }
  }
};

}  // namespace gossamer::kernels
