// See method_context.h.
#include "gossamer/dist/method_context.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::dist {

void take_start_state(const std::vector<NamedTensor>* saved, std::vector<NamedTensor> state) {
  if (!saved) return;
  for (NamedTensor& own : state) {
    const auto given = std::ranges::find(*saved, own.name, &NamedTensor::name);
    if (given == saved->end() && own.name == kPayloadError) continue;
    check<ConfigError>(given != saved->end() && given->tensor.shape() == own.tensor.shape(),
                       "the state to go on from has no \"", own.name, "\" of ", own.tensor.shape(),
                       "; was it saved by another method, or with other settings?");
    own.tensor.copy_from(given->tensor);
  }
}

}  // namespace gossamer::dist
