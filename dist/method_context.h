// What a method is made of: one worker's parameters and optimizer, its group, and what was asked.
#pragma once

#include <functional>
#include <vector>

#include "gossamer/dist/method.h"

namespace gossamer::dist {

// References: all live longer than the call they are for; the first three, than the method.
struct MethodContext {
  FlatParams& params;
  Optimizer& optimizer;
  Group& group;
  const Graph& graph;
  // without restore(), of which no copy is to be kept: it may hold all that was saved
  const MethodOptions& options;
  const std::function<void(const std::vector<NamedTensor>&)>* restore = nullptr;  // null: none
};

}  // namespace gossamer::dist
