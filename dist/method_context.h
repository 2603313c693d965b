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
  const MethodOptions& options;  // without start_state, of which no copy is to be kept
  const std::vector<NamedTensor>* start_state = nullptr;  // null: it is no resumed run
};

// Copies what was saved, if it is not null, into the tensors of a method's state(). ConfigError: it
// lacks one.
void take_start_state(const std::vector<NamedTensor>* saved, std::vector<NamedTensor> state);

}  // namespace gossamer::dist
