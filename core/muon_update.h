// Muon's two passes over matrices of FlatParams (Jordan et al. 2024,
// kellerjordan.github.io/posts/muon). Between them nn/muon.h makes the direction orthogonal. Ranges
// and errors: as those of update.h.
// Threads: as the passes of update.h.
#pragma once

#include "gossamer/core/update.h"

namespace gossamer {

struct MuonRule {
  Tensor momentum, direction;  // B, U: f32 [size]
  float mu = 0.95f, weight_decay = 0;
};
// B <- mu B + (1 - mu) g, U = mu B + (1 - mu) g (Nesterov), unless the update is skipped.
void muon_direction(FlatParams&, const MuonRule&, const Tensor& numbers, FlatRange = {});
// x -= lr (U + wd x), U = 0. Gradients are not read.
void muon_pass(FlatParams&, const MuonRule&, const Tensor& numbers, const UpdateBlocks& = {},
               FlatRange = {});

}  // namespace gossamer
