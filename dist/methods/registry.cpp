// The list of methods. A new one is a file and, here, its function and its row (README.md).
#include "gossamer/dist/methods/registry.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

// Each is in the file of its method. No header has them: a method need not have one.
MethodRow a2cid2_row();
MethodRow adpsgd_row();          // AD-PSGD (Lian et al. 2018): eta = 0, so there is no twin
MethodRow async_tracking_row();  // AD-PSGD with gradient tracking: methods/async_tracking.md
MethodRow published_row();       // for the simulator: A2CiD2 with the events of the published code
MethodRow allreduce_row();
MethodRow dpsgd_row();
MethodRow dpsgd_atc_row();  // for the simulator: without overlap
MethodRow sgp_row();
MethodRow qg_dsgdm_row();
MethodRow decentlam_row();
MethodRow gradient_tracking_row();
MethodRow relay_sgd_row();
MethodRow choco_row();
MethodRow clipped_gossip_row();
MethodRow d2_row();
MethodRow exact_diffusion_row();
MethodRow local_sgd_row();
MethodRow diloco_row();
MethodRow noloco_row();
MethodRow sparse_loco_row();
MethodRow consensus_control_row();
MethodRow dadam_row();       // with Adam (DAdam)
MethodRow accum_adam_row();  // with accumulated Adam (Decent-DP)

const std::vector<MethodRow>& method_rows() {
  static const auto& rows = *new std::vector<MethodRow>{
      a2cid2_row(),
      adpsgd_row(),
      async_tracking_row(),
      published_row(),
      allreduce_row(),
      dpsgd_row(),
      dpsgd_atc_row(),
      sgp_row(),
      qg_dsgdm_row(),
      decentlam_row(),
      gradient_tracking_row(),
      relay_sgd_row(),
      choco_row(),
      clipped_gossip_row(),
      d2_row(),
      exact_diffusion_row(),
      local_sgd_row(),
      diloco_row(),
      noloco_row(),
      sparse_loco_row(),
      consensus_control_row(),
      dadam_row(),
      accum_adam_row(),
  };
  return rows;
}

const MethodRow& method_row(const std::string& name) {
  for (const MethodRow& row : method_rows())
    if (row.traits.name == name) return row;
  fail<ConfigError>("method \"", name, "\" is unknown; known are: ", listed(method_names()));
}

void check_same_rounds(const std::string& method, const Rounds& rounds, const std::string& why) {
  check<ConfigError>(rounds.period() == 1 && !rounds.directed(), "method ", method, ": rounds \"",
                     rounds.name(), "\" change from one to the next, and ", why,
                     "; take a graph, such as ring or exponential, or the method qg-dsgdm");
}

std::unique_ptr<Method> make_of_formula(const MethodTraits& traits, const MethodContext& with,
                                        std::unique_ptr<RoundFormula> formula) {
  return std::make_unique<SynchronousMethod>(traits, with, std::move(formula));
}

}  // namespace gossamer::dist
