// Whether a worker that comes to a run belongs to it: a number that is the same on workers whose
// states fit each other.
#pragma once

#include <cstdint>
#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/method.h"

namespace gossamer::dist {

// Two numbers that are equal on workers that could exchange states. A double holds both exactly.
struct RunDigest {
  double whole;  // of model, method, optimizer, graph and budget
  double parts;  // a short one of each, which tells what differs
};
RunDigest run_digest(const std::string& method, const FlatParams&, Optimizer&, const Graph&,
                     const MethodOptions&);

// What differs, of the short digests of two runs: "another model (…) and another graph".
std::string difference(double ours, double theirs);

// `epoch` of the message no_state: why a worker does not give its state.
enum class Refusal : std::uint32_t { busy, ending, another_run };

}  // namespace gossamer::dist
