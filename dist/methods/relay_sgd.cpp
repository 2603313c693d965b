// RelaySGD on tensors.
#include "gossamer/dist/methods/relay_sgd.h"

#include <cmath>
#include <cstring>

namespace gossamer::dist {
namespace {

RoundTraffic traffic_of(const MethodContext& with, const RelayOptions& o) {
  const i64 n = with.params.size();
  if (!o.two_trees || with.group.size() < 2 || n < 2) return {{{0, n}}};
  return {{{0, n / 2}, {n / 2, n}}};
}

}  // namespace

MethodRow relay_sgd_row() {
  const MethodTraits traits{.name = "relay-sgd", .coded = false};
  MethodRow row = row_with<RelayOptions>(traits);
  row.simulated_settings = row.settings;
  row.check_rounds = [name = traits.name](const Rounds& rounds) { check_tree(name, rounds); };
  row.formula = [name = traits.name](const Settings& s) {
    return std::make_unique<RelaySgd>(s.as<RelayOptions>(name));
  };
  row.make = [traits](const MethodContext& with) {
    return std::make_unique<RelayMethod>(traits, with,
                                         with.options.settings.as<RelayOptions>(traits.name));
  };
  return row;
}

RelayMethod::RelayMethod(const MethodTraits& traits, const MethodContext& with,
                         const RelayOptions& o)
    : SynchronousMethod(traits, with, std::make_unique<RelaySgd>(o), traffic_of(with, o)) {
  make_places();
}

void RelayMethod::make_places() {
  workers_ = alive();
  trees_.clear();
  if (alone()) return;
  for (int slot = 0; slot < slots(); ++slot) {
    const Round round = round_at(0, slot > 0);
    const i64 n = piece(slot).end - piece(slot).begin, links = std::ssize(round.in);
    const auto zeros = [&](i64 count) {
      return Tensor::zeros({1, count}, DType::f32, params_.values().device());
    };
    Tree& tree = trees_.emplace_back(
        Tree{.sums = zeros(links * n), .counts = Tensor::zeros({1, links}), .messages = {}});
    std::vector<RelayPlace<Tensor>::Link> all;
    for (const Neighbour& each : round.in) {
      const i64 begin = std::ssize(all) * n;
      all.push_back({each.worker, tree.sums.reshape({-1}).slice(begin, begin + n)});
      tree.messages.push_back(Tensor::empty({n}, DType::f32, params_.values().device()));
    }
    tree.place = RelayPlace<Tensor>(std::move(all));
  }
}

// Where a worker is gone, its part is in sums everywhere.
void RelayMethod::begin_anew() {
  SynchronousMethod::begin_anew();
  if (workers_ != alive()) make_places();
}

std::vector<NamedTensor> RelayMethod::state() {
  std::vector<NamedTensor> all = SynchronousMethod::state();
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const std::string of = "relay." + std::to_string(i);
    all.push_back({of + ".sums", trees_[i].sums});
    all.push_back({of + ".counts", trees_[i].counts});
  }
  return all;
}

// |mean of those in the sum - h|^2. What went to this worker has been sent by now: its place holds
// the mean.
double RelayMethod::squared_distance_of(int slot, const RoundExchange::Part& p) const {
  const Tree& tree = trees_[static_cast<std::size_t>(slot)];
  Tensor mean = tree.messages[tree.place.link_of(p.peer)];
  mean.copy_from(p.received);
  scale(mean, static_cast<float>(1 / count_in(p)));
  return squared_distance(mean, values_of(slot));
}

double RelayMethod::count_in(const RoundExchange::Part& p) const {
  double count = 0;
  check<DistError>(p.note.size() == sizeof count, name(), ": worker ", p.peer, " sent a note of ",
                   p.note.size(), " bytes; wanted how many workers are in its sum");
  std::memcpy(&count, p.note.data(), sizeof count);
  check<DistError>(count >= 1 && count < alive() && count == std::floor(count), name(), ": worker ",
                   p.peer, " sent the sum of ", count, " workers; there are ", alive());
  return count;
}

void RelayMethod::relay() {
  if (alone()) return;
  (void)next_round();
  for (int slot = 0; slot < slots(); ++slot) {
    Tree& tree = trees_[static_cast<std::size_t>(slot)];
    auto& links = tree.place.links();
    for (std::size_t i = 0; i < links.size(); ++i)
      links[i].count = static_cast<double>(tree.counts.as<float>()[i]);
    const Tensor h = values_of(slot);
    launch(slot, round_at(0, slot > 0), h, {}, [&](int peer) {
      Tensor& sum = tree.messages[tree.place.link_of(peer)];
      const double count = tree.place.message(peer, h, sum);
      std::vector<char> note(sizeof count);
      std::memcpy(note.data(), &count, sizeof count);
      return RoundExchange::Outgoing{sum, std::move(note)};
    });
  }
  for (int slot = 0; slot < slots(); ++slot) {
    Tree& tree = trees_[static_cast<std::size_t>(slot)];
    arrivals(
        slot,
        [&](const RoundExchange::Part& p) { tree.place.arrived(p.peer, p.received, count_in(p)); },
        [](const RoundExchange::Part&) {});
    const auto& links = tree.place.links();
    for (std::size_t i = 0; i < links.size(); ++i)
      tree.counts.as<float>()[i] = static_cast<float>(links[i].count);
    Tensor h = values_of(slot);
    tree.place.average(h, alive());
  }
  params_.refresh();
}

}  // namespace gossamer::dist
