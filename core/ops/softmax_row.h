// The sum that softmax and the classification loss share.
#pragma once

#include <cmath>

#include "gossamer/core/ops/kernel.h"

namespace gossamer {

// Largest element and log sum exp(z - largest) of one row.
template <class T>
GOSSAMER_HD inline void row_statistics(const T* z, i64 cols, float& top, float& log_sum) {
  top = load(z, 0);
  for (i64 c = 1; c < cols; ++c) {
    const float v = load(z, c);
    if (v > top || v != v) top = v;  // a NaN stays and shows
  }
  float sum = 0;
  for (i64 c = 0; c < cols; ++c) sum += expf(load(z, c) - top);
  log_sum = logf(sum);
}

}  // namespace gossamer
