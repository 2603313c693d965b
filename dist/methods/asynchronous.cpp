// The rows of gossip.
#include "gossamer/dist/methods/asynchronous.h"

#include "gossamer/dist/gossip/replay.h"

namespace gossamer::dist {
namespace {

MethodRow gossip_row(const std::string& name, GossipFormula formula) {
  MethodRow row =
      row_with<NoSettings>({.name = name, .synchronous = false, .records = true, .restarts = true});
  row.gossip = formula;
  row.make = [traits = row.traits, formula](const MethodContext& with) {
    return make_gossip(traits, formula.accelerated, with);
  };
  return row;
}

}  // namespace

MethodRow a2cid2_row() { return gossip_row("a2cid2", {}); }
MethodRow adpsgd_row() { return gossip_row("adpsgd", {.accelerated = false}); }

MethodRow published_row() {
  MethodRow row = row_with<NoSettings>(
      {.name = "published", .synchronous = false, .simulated_only = true, .variant_of = "a2cid2"});
  row.gossip = {.published_order = true};
  return row;
}

}  // namespace gossamer::dist
