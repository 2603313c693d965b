// Tensors of files that Gossamer has no type for.
// Threads: any.
#pragma once

#include <string>

namespace gossamer {

// A tensor that was skipped. kind: its type as the format calls it ("BOOL", "I16",
// "torch.BoolStorage" …), or what else about it Gossamer lacks.
struct UnreadTensor {
  std::string name, kind;
};

}  // namespace gossamer
