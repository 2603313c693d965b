// Weights of synchronous mixing in a group of workers R (Decent-DP, ICLR 2025):
//     x <- (1 - phi) x + phi (w x_i + (1 - w)/(|R| - 1) sum_{j != i} x_j)
// computed as  own * x + phi * all_reduce_sum(share * x), so that one sum serves all members.
#pragma once

namespace gossamer::dist {

struct MixingWeights { double own = 0, share = 0; };

// size = |R| >= 2; self = w, the weight of the own value; phi: adaptive consensus factor, 1: full averaging, 0: none.
inline MixingWeights mixing_weights(int size, double self, double phi) {
  const double share = (1 - self) / (size - 1);
  return {(1 - phi) + phi * (self - share), share};
}

}  // namespace gossamer::dist
