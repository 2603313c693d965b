// CHOCO-SGD on tensors.
#include "gossamer/dist/methods/choco.h"

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"

namespace gossamer::dist {

MethodRow choco_row() {
  const MethodTraits traits{.name = "choco", .coded = false};
  MethodRow row = row_with<ChocoOptions>(traits);
  row.simulated_settings = row.settings;
  row.check_rounds = [name = traits.name](const Rounds& rounds) {
    check_same_rounds(name, rounds, "it knows replicas of the same neighbours only");
  };
  row.formula = [name = traits.name](const Settings& s) {
    return std::make_unique<Choco>(s.as<ChocoOptions>(name));
  };
  row.make = [traits](const MethodContext& with) {
    check_compresses(traits.name, with.params, "dpsgd");
    return std::make_unique<ChocoMethod>(traits, with,
                                         with.options.settings.as<ChocoOptions>(traits.name));
  };
  return row;
}

ChocoMethod::ChocoMethod(const MethodTraits& traits, const MethodContext& with,
                         const ChocoOptions& o)
    : SynchronousMethod(traits, with, std::make_unique<Choco>(o)),
      compressed_(*Choco(o).compressor(), with.params),
      messages_(Tensor::zeros({1, 1}, DType::i64)) {
  if (with.group.size() < 2) return;
  own_ = Tensor::zeros({1, params_.size()});
  difference_ = Tensor::zeros({params_.size()});
  code_ = compressed_.empty_code();
  make_replicas();
}

void ChocoMethod::make_replicas() {
  neighbours_ = round_at(0).in;
  others_ = Tensor::zeros({1, std::ssize(neighbours_) * params_.size()});
  messages_.zero();
}

void ChocoMethod::begin_anew() {
  SynchronousMethod::begin_anew();
  if (pending(0))  // of before: it says nothing of the neighbours that there are now
    arrivals(
        0, [](const auto&) {}, [](const auto&) {});
  make_replicas();
}

std::vector<NamedTensor> ChocoMethod::state() {
  std::vector<NamedTensor> all = SynchronousMethod::state();
  if (!own_.defined()) return all;
  all.push_back({"choco.own", own_});
  all.push_back({"choco.replicas", others_});
  all.push_back({"choco.messages", messages_});
  return all;
}

Tensor ChocoMethod::replica(int peer) const {
  const auto place = std::ranges::find(neighbours_, peer, &Neighbour::worker) - neighbours_.begin();
  return others_.reshape({-1}).slice(place * params_.size(), (place + 1) * params_.size());
}

double ChocoMethod::squared_distance_of(int, const RoundExchange::Part& p) const {
  return squared_distance(own_.reshape({-1}), replica(p.peer));
}

// Whoever is not heard counts as this worker itself until all send their models again.
void ChocoMethod::begin_replicas() {
  if (alone() || messages_.as<i64>()[0] > 0) return;
  own_.reshape({-1}).copy_from(params_.values());
  launch(0, next_round(), params_.values());
  arrivals(
      0, [&](const RoundExchange::Part& p) { replica(p.peer).copy_from(p.received); },
      [&](const RoundExchange::Part& p) { replica(p.peer).copy_from(params_.values()); });
  messages_.as<i64>()[0] = 1;
}

// What is not finite goes nowhere.
void ChocoMethod::launch_all(const Round& round) {
  if (alone()) return;
  difference_.copy_from(params_.values());
  axpy(difference_, -1, own_.reshape({-1}));
  if (!all_finite(difference_)) difference_.zero();
  compressed_.encode(difference_, static_cast<std::uint64_t>(messages_.as<i64>()[0]), code_);
  launch(0, round, code_);
}

void ChocoMethod::decode(const Tensor& code) {
  compressed_.decode(code, static_cast<std::uint64_t>(messages_.as<i64>()[0]), difference_);
}

void ChocoMethod::mix_pending() {
  if (!pending(0)) return;
  const bool now = of_now(flight(0)) && messages_.as<i64>()[0] > 0;
  const auto move = [&](Tensor known, const Tensor& code) {
    decode(code);
    axpy(known, 1, difference_);
  };
  arrivals(
      0,
      [&](const RoundExchange::Part& p) {
        if (now) move(replica(p.peer), p.received);
      },
      [](const RoundExchange::Part&) {});
  if (!now) return;
  move(own_.reshape({-1}), code_);
  ++messages_.as<i64>()[0];
}

void ChocoMethod::receive_replicas() {
  if (alone()) return;
  resume_ahead();
  mix_pending();
}

void ChocoMethod::exchange_replicas() {
  if (alone()) return;
  launch_all(next_round());
  mix_pending();
}

void ChocoMethod::mix_replicas(double kappa) {
  if (alone()) return;
  Tensor values = params_.values();
  for (const Neighbour& each : neighbours_) {
    difference_.copy_from(replica(each.worker));
    axpy(difference_, -1, own_.reshape({-1}));
    axpy(values, static_cast<float>(kappa * each.weight), difference_);
  }
  params_.refresh();
}

}  // namespace gossamer::dist
