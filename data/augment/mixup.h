// Mixup and CutMix: how a batch is blended with itself. The plan is drawn here, on the CPU; core's
// mix_batch blends, on the device that trains.
#pragma once

#include <array>

#include "gossamer/core/random.h"

namespace gossamer::data {

// a, b > 0; from two gamma variables (Marsaglia and Tsang 2000), in logarithms
double draw_beta(Rng&, double a, double b);

// The two alphas of Beta(alpha, alpha); 0: off. With both on, each batch takes one of them with
// equal chances (torchvision's recipe).
struct MixOptions {
  double mixup = 0, cutmix = 0;
  bool on() const { return mixup > 0 || cutmix > 0; }
};

// Each image is blended with the one before it in the batch. `own` is the weight of its own label;
// the rest is its neighbour's.
struct MixPlan {
  double own = 1;
  std::array<float, 6> plan{1, 1, 0, 0, 0, 0};  // mix_batch's
};
// Mixup (Zhang et al. 2018): the same share of every pixel. CutMix (Yun et al. 2019): a rectangle
// around a random position, cut at the edges; `own` is the share of the picture that is left.
// ConfigError on a negative alpha.
MixPlan draw_mix(const MixOptions&, int height, int width, Rng&);

}  // namespace gossamer::data
