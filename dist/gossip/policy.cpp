// The table of pairing modes.
#include "gossamer/dist/gossip/policy.h"

#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/appointments.h"
#include "gossamer/dist/gossip/handshake.h"
#include "gossamer/dist/method.h"

namespace gossamer::dist {

std::unique_ptr<PartnerPolicy> make_partner_policy(const MethodOptions& options, const Graph& graph,
                                                   int self) {
  if (options.pairing == "handshake")
    return std::make_unique<HandshakePolicy>(self, graph.n, options.rate, options.quota,
                                             options.seed);
  if (options.pairing == "schedule")
    return std::make_unique<AppointmentPolicy>(
        self, graph.n, make_seeded_agenda(self, options.rate, options.seed));
  if (options.pairing == "rounds")
    return std::make_unique<AppointmentPolicy>(self, graph.n,
                                               make_rounds_agenda(self, options.rate, graph));
  check_settings(static_cast<const GossipOptions&>(options), "gossip");  // it names the known ones
  fail<ConfigError>("pairing \"", options.pairing, "\" has no policy");
}

}  // namespace gossamer::dist
