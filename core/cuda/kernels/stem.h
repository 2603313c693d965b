// Images and filters of the stem in pairs of pixels; see cuda/stem.h.
#pragma once

#include "gossamer/core/ops/eight.h"

namespace gossamer::kernels {

// Value (row h, column w, channel c) of an image is channel (2 (h%2) + w%2) 3 + c of pair (h/2,
// w/2). Thread: half the channels of a pair.
template <class T>
struct StemInput {
  const T* images;  // [n, 2 h, 2 w, 3]
  T* pairs;         // [n, h, w, 16]
  i64 w;
  GOSSAMER_HD void operator()(i64 i) const {
    // line: of pairs, over all images
    const i64 pair = i / 2, line = pair / w, v = pair - line * w;
    const int half = static_cast<int>(i % 2);
    Eight e{};
    for (int j = 0; j < 8; ++j) {
      const int channel = 8 * half + j, dy = channel / 6, dx = channel / 3 % 2, c = channel % 3;
      if (channel < 12)
        e.v[j] = static_cast<float>(images[((2 * line + dy) * 2 * w + 2 * v + dx) * 3 + c]);
    }
    store_eight<true>(pairs + 8 * i, 8, e);
  }
};

// Tap (r, s) of the 7 x 7 filter is (r + 1, s + 1) in 8 x 8 with an empty line before: pair ((r +
// 1)/2, (s + 1)/2).
template <class W, class T>
struct StemWeight {
  const W* w;  // [k, 7, 7, 3]
  T* pairs;    // [k, 4, 4, 16]
  GOSSAMER_HD void operator()(i64 i) const {
    const int channel = static_cast<int>(i % 16), across = static_cast<int>(i / 16 % 4),
              down = static_cast<int>(i / 64 % 4);
    const int r = 2 * down + channel / 6 - 1, s = 2 * across + channel / 3 % 2 - 1;
    const bool used = channel < 12 && r >= 0 && s >= 0;
    pairs[i] =
        T(used ? static_cast<float>(w[((i / 256 * 7 + r) * 7 + s) * 3 + channel % 3]) : 0.0f);
  }
};
template <class T>
struct StemWeightGrad {
  const T* d_pairs;
  float* dw;
  GOSSAMER_HD void operator()(i64 i) const {
    const int c = static_cast<int>(i % 3), s = static_cast<int>(i / 3 % 7) + 1,
              r = static_cast<int>(i / 21 % 7) + 1;
    const int channel = (2 * (r % 2) + s % 2) * 3 + c;
    dw[i] = static_cast<float>(d_pairs[((i / 147 * 4 + r / 2) * 4 + s / 2) * 16 + channel]);
  }
};

}  // namespace gossamer::kernels
