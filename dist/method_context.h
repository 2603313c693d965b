// What a method is made of: one worker's parameters and optimizer, its group, and what was asked.
#pragma once

#include <vector>

#include "gossamer/dist/method.h"

namespace gossamer::dist {

// References: all live longer than the call they are for; the first three, than the method.
struct MethodContext {
  FlatParams& params;
  Optimizer& optimizer;
  Group& group;
  const Graph& graph;
  const MethodOptions& options;
};

// A resumed method: copies options.start_state, if there is one, into the tensors of its state().
// ConfigError: it lacks one.
void take_start_state(std::vector<NamedTensor> state, const MethodOptions& options);

}  // namespace gossamer::dist
