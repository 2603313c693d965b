// Local SGD.
#include "gossamer/dist/rounds/local_sgd.h"

namespace gossamer::dist {

LocalSgdMethod::LocalSgdMethod(FlatParams& params, Optimizer& optimizer, Group& group,
                               const Graph& graph, const MethodOptions& options)
    : SynchronousMethod("local-sgd", params, optimizer, group, graph, options, {{0, params.size()}},
                        false),
      since_(0) {
  since_ = steps_before() % options.period;
}

void LocalSgdMethod::update(double learning_rate) {
  optimizer_.step(static_cast<float>(learning_rate), nullptr, {.clip = options_.clip_norm});
  if (++since_ < options_.period) return;
  since_ = 0;
  if (!alone() && average_exactly()) params_.refresh();
}

}  // namespace gossamer::dist
