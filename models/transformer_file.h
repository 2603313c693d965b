// The transformer's weights by the names of torch.nn.Transformer, as Decent-DP's model has them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "gossamer/models/transformer.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// The weights of a file as our modules have them: torch keeps q, k and v of an attention in one
// matrix; our cross-attention has q apart from k and v, because they come from different sides. A
// prefix "_" of "_transformer" and "_token_embedding" is dropped.
nn::Weights transformer_weights(nn::Weights file);

// What the header of a file of `gossamer train` says: all that it takes to make the model again.
// transformer_header_of: nullopt: of a file of others. IoError names the file and the key if it is
// damaged, or says something else than the tensors.
std::map<std::string, std::string> metadata_of(const TransformerOptions&);
std::optional<TransformerOptions> transformer_header_of(const nn::Weights&);

}  // namespace gossamer::models
