// Texts that name groups of parameters.
#pragma once

#include <vector>

#include "gossamer/nn/optim.h"

namespace gossamer::capi {

// "fc=10; layer3, layer4=2"; NULL: none. ConfigError.
std::vector<nn::RateFactor> read_rates(const char* text);
std::vector<nn::OwnDecay> read_decays(const char* text);

}  // namespace gossamer::capi
