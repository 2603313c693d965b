// Stochastic gradient push.
#include "gossamer/dist/methods/sgp.h"

#include <cmath>
#include <cstring>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/mixing.h"

namespace gossamer::dist {

MethodRow sgp_row() {
  const MethodTraits traits{.name = "sgp", .directed = true, .controllable = true};
  MethodRow row = row_with<SgpOptions>(traits);
  row.make = [traits](const MethodContext& with) {
    return std::make_unique<SgpMethod>(traits, with,
                                       with.options.settings.as<SgpOptions>(traits.name));
  };
  row.formula = [](const Settings&) { return std::make_unique<Sgp>(false); };
  return row;
}

SgpMethod::SgpMethod(const MethodTraits& traits, const MethodContext& with, const SgpOptions& o)
    : SynchronousMethod(traits, with, std::make_unique<Sgp>(o.overlap, o.consensus_factor)),
      weight_(Tensor::full({1}, 1)) {}

void SgpMethod::update() {
  optimizer_.step(static_cast<float>(learning_rate() / static_cast<double>(weight_.item())),
                  nullptr, {.clip = options_.clip_norm});
}

// u and w go back alike, z = u / w by what is left of them: (1 - part) w z + part w' z' over (1 -
// part) w + part w'.
double SgpMethod::part_of_values(double part) {
  const double after = part * static_cast<double>(weight_.item()),
               weight = (1 - part) * weight_before_ + after;
  weight_.fill(static_cast<float>(weight));
  return after / weight;
}

void SgpMethod::launch_all(const Round& round) {
  launch(0, round, params_.values(), {static_cast<const char*>(weight_.data()), weight_.bytes()});
}

void SgpMethod::mix_pending() {
  if (!pending(0)) return;
  Tensor values = params_.values();
  std::vector<std::pair<double, Tensor>> others;  // W_ij w_j, z_j
  double incoming = 0, kept = 0, shared = 0;
  const auto use = [&](const RoundExchange::Part& p) {
    shared += p.share;
    if (!p.receives) return;
    float weight = 0;
    check<DistError>(p.note.size() == sizeof weight, "sgp: worker ", p.peer, " sent a note of ",
                     p.note.size(), " bytes; wanted its push-sum weight");
    std::memcpy(&weight, p.note.data(), sizeof weight);
    check<DistError>(weight > 0 && std::isfinite(weight), "sgp: worker ", p.peer,
                     " sent the push-sum weight ", weight, "; it must be above 0");
    const double mass = p.weight * static_cast<double>(weight);
    others.emplace_back(mass, p.received);
    incoming += mass;
  };
  // a share that the receiver did not take stays here
  const auto lost = [&](const RoundExchange::Part& p) { kept += p.share; };
  const double own = arrivals(0, use, lost);
  weight_before_ = static_cast<double>(weight_.item());
  const PushSum sum = push_sum((own + kept) * weight_before_, incoming);
  // What rounding took of the values that went stays here: shared w (z - sent).
  if (const Tensor& sent = flight(0).sent; sent.defined() && shared > 0 && own + kept > 0) {
    const double part = shared / (own + kept);
    weighted_sum(values, static_cast<float>(1 + part), static_cast<float>(-part), sent);
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto share = static_cast<float>(sum.share(others[i].first));
    if (i == 0)
      weighted_sum(values, static_cast<float>(sum.own), share, others[i].second);
    else
      axpy(values, share, others[i].second);
  }
  weight_.fill(static_cast<float>(sum.weight));
}

}  // namespace gossamer::dist
