// A look at the tape: what has been recorded, and the memory that it keeps.
// Threads: that of the tape (autograd.h).
#pragma once

#include "gossamer/core/autograd.h"

namespace gossamer {

// The recorded nodes that lead to `root`, oldest first: those that backward() would visit. `root`
// must be on the tape.
std::vector<std::shared_ptr<Node>> tape(const Tensor& root);

// Bytes that these nodes keep for backward(): memory that several keep counts once, that of
// `others` (a model's parameters, which are there anyway) not at all.
std::size_t tape_bytes(const std::vector<std::shared_ptr<Node>>& nodes,
                       const std::vector<NamedTensor>& others = {});

}  // namespace gossamer
