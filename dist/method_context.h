// What a method is made of: one worker's parameters and optimizer, its group, and what was asked.
#pragma once

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

}  // namespace gossamer::dist
