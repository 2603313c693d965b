// Tensors of files that Gossamer has no type for.
// Threads: any.
#pragma once

#include <string>

namespace gossamer {

// It was skipped. kind: its type as the format calls it ("BOOL", "I16", "torch.BoolStorage" …), and
// what else it is that Gossamer lacks.
struct UnreadTensor {
  std::string name, kind;
};

}  // namespace gossamer
