// Holds parameters fixed that are selected by their names.
// Threads: one at a time for a Module.
#pragma once

#include <string>

#include "gossamer/nn/module.h"

namespace gossamer::nn {

// Module::freeze() of those that nn/selection.h selects. ConfigError: a pattern selects none, or
// none is left to train.
void freeze(Module&, const std::string& patterns);

}  // namespace gossamer::nn
