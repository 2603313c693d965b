// The transformer's weights by the names of torch.nn.Transformer, as Decent-DP's model has them.
#pragma once

#include "gossamer/models/transformer.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// The weights of a file as our modules have them: torch keeps q, k and v of an attention in one
// matrix; our cross-attention has q apart from k and v, because they come from different sides. A
// prefix "_" of "_transformer" and "_token_embedding" is dropped.
nn::Weights transformer_weights(nn::Weights file);

}  // namespace gossamer::models
