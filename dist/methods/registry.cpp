// The list of methods. A new one is a row here and a file (README.md).
#include "gossamer/dist/methods/registry.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/dist/methods/allreduce.h"
#include "gossamer/dist/methods/asynchronous.h"
#include "gossamer/dist/methods/consensus_control.h"
#include "gossamer/dist/methods/diloco.h"
#include "gossamer/dist/methods/dpsgd.h"
#include "gossamer/dist/methods/local_sgd.h"
#include "gossamer/dist/methods/sgp.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

const std::vector<MethodRow>& method_rows() {
  static const auto& rows = *new std::vector<MethodRow>{
      a2cid2_row(),
      adpsgd_row(),
      published_row(),
      allreduce_row(),
      dpsgd_row(),
      dpsgd_atc_row(),
      sgp_row(),
      local_sgd_row(),
      diloco_row(),
      noloco_row(),
      consensus_control_row(),
      dadam_row(),
      accum_adam_row(),
  };
  return rows;
}

const MethodRow& method_row(const std::string& name) {
  for (const MethodRow& row : method_rows())
    if (row.traits.name == name) return row;
  std::string known;
  for (const std::string& each : method_names()) known += (known.empty() ? "" : ", ") + each;
  fail<ConfigError>("method \"", name, "\" is unknown; known are: ", known);
}

std::unique_ptr<Method> make_of_formula(const MethodTraits& traits, const MethodContext& with,
                                        std::unique_ptr<RoundFormula> formula) {
  return std::make_unique<SynchronousMethod>(traits, with, std::move(formula));
}

}  // namespace gossamer::dist
