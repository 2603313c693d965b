// See freezing.h.
#include "gossamer/nn/train/freezing.h"

#include "gossamer/core/error.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/selection.h"

namespace gossamer::nn {

void freeze(Module& net, const std::string& patterns) {
  const Selection frozen(patterns);
  frozen.check_used(names_of(net.parameters()));
  net.freeze(frozen);
  check<ConfigError>(!net.parts().parameters.empty(), "\"", patterns,
                     "\" leaves no parameter to train");
}

}  // namespace gossamer::nn
