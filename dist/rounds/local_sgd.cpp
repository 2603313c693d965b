// Local SGD.
#include "gossamer/dist/rounds/local_sgd.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {

LocalSgdMethod::LocalSgdMethod(FlatParams& params, Optimizer& optimizer, Group& group,
                               const Graph& graph, const MethodOptions& options)
    : SynchronousMethod("local-sgd", params, optimizer, group, graph, options, {{0, params.size()}},
                        false),
      since_(0) {
  check<ConfigError>(options.period >= 1, "local-sgd: period ", options.period,
                     "; it must be at least 1 step");
  since_ = steps_before() % options.period;
}

void LocalSgdMethod::update(double learning_rate) {
  optimizer_.step(static_cast<float>(learning_rate), nullptr, {.clip = options_.clip_norm});
  if (++since_ < options_.period) return;
  since_ = 0;
  if (!alone() && average_exactly()) params_.refresh();
}

}  // namespace gossamer::dist
