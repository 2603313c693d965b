// Methods in which every worker trains at its own pace and averages with one neighbour at a time:
// A2CiD2, whose page is gossip/a2cid2.h, and what it is compared with.
#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/equal_weight.h"
#include "gossamer/dist/gossip/replay.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

MethodRow gossip_row(const std::string& name, GossipFormula formula) {
  MethodRow row = row_with<EqualWeightOptions>(
      {.name = name, .synchronous = false, .records = true, .restarts = true, .joins = true});
  row.simulated_settings = row.settings;
  row.gossip = formula;
  row.make = [traits = row.traits, formula](const MethodContext& with) {
    const auto own = with.options.settings.as<EqualWeightOptions>(traits.name);
    return make_gossip(
        traits, {.accelerated = formula.accelerated, .equal_weight = own.equal_weight}, with);
  };
  return row;
}

}  // namespace

MethodRow a2cid2_row() { return gossip_row("a2cid2", {}); }
MethodRow adpsgd_row() { return gossip_row("adpsgd", {.accelerated = false}); }

// Its steps weigh alike at any speed, so it has no equal_weight.
MethodRow async_tracking_row() {
  MethodRow row = row_with<NoSettings>({.name = "async-tracking",
                                        .synchronous = false,
                                        .records = true,
                                        .restarts = true,
                                        .joins = true});
  row.gossip = {.accelerated = false, .tracks = true};
  row.make = [traits = row.traits](const MethodContext& with) {
    check<ConfigError>(with.params.values().device().is_cpu(), "method ", traits.name,
                       " trains on CPUs only; train there, or take adpsgd with equal_weight");
    return make_gossip(traits, {.accelerated = false, .tracks = true}, with);
  };
  return row;
}

MethodRow published_row() {
  MethodRow row = row_with<NoSettings>(
      {.name = "published", .synchronous = false, .simulated_only = true, .variant_of = "a2cid2"});
  row.gossip = {.published_order = true};
  return row;
}

}  // namespace gossamer::dist
