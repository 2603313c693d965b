// Own steps, and now and then an outer one.
#include "gossamer/dist/methods/diloco.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "gossamer/core/blocks.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {
namespace {

using With = Diloco::With;

std::vector<FlatRange> fragments_of(const FlatParams& params, i64 count) {
  std::vector<FlatRange> out;
  const i64 n = params.size();
  for (i64 f = 0; f < count; ++f) out.push_back({n * f / count, n * (f + 1) / count});
  return out;
}

double factor_of(const DilocoOptions&) { return 1; }
double factor_of(const NolocoOptions& o) { return o.consensus_factor; }

template <class Options>
MethodRow row_with_outer_steps(With with, const MethodTraits& traits) {
  MethodRow row = row_with<Options>(traits);
  row.simulated_settings = settings_with<OuterStepOptions>;
  row.formula = [with, name = traits.name](const Settings& s) {
    const auto own = s.as<Options>(name);
    return std::make_unique<Diloco>(with, own, factor_of(own));
  };
  row.make = [with, traits](const MethodContext& context) {
    const auto own = context.options.settings.as<Options>(traits.name);
    auto made =
        std::make_unique<DilocoMethod>(traits, context, Diloco(with, own, factor_of(own)), own);
    if (context.options.rejoin) made->join();
    return made;
  };
  return row;
}

}  // namespace

MethodRow diloco_row() {
  return row_with_outer_steps<DilocoOptions>(With::all,
                                             {.name = "diloco", .graph = false, .joins = true});
}
MethodRow noloco_row() {
  return row_with_outer_steps<NolocoOptions>(With::neighbours, {.name = "noloco", .joins = true});
}

Diloco::Diloco(With all_or_neighbours, const DilocoOptions& o, double consensus_factor)
    : with(all_or_neighbours),
      period(o.period),
      outer(with == With::all
                ? OuterStep::nesterov(o.outer_rate, o.outer_momentum.value_or(0.9))
                : OuterStep::heavy_ball(o.outer_rate, o.outer_momentum.value_or(0.5))),
      factor(consensus_factor),
      alone_too(o.outer_alone) {}

DilocoMethod::DilocoMethod(const MethodTraits& traits, const MethodContext& context,
                           const Diloco& formula, const DilocoOptions& own)
    : SynchronousMethod(traits, context, std::make_unique<Diloco>(formula),
                        {.pieces = fragments_of(context.params, own.fragments),
                         .keeps_bf16_error = formula.with == With::all}),
      formula_(formula),
      own_(own),
      since_(steps_before() % own.period),
      uneven_(Tensor::zeros({1, slots()})) {
  if (!outer_.defined()) return;
  if (own.outer_delay > 0) {
    sent_ = params_.values().clone();
    if (formula.with == With::all && coding_of(options_.payload) != Coding::f32)
      ways_ = sent_.clone();
    resumed_ = steps_before() == 0;
  }
  // Rounds count outer steps.
  i64 before = steps_before() / own.period * slots();
  for (int slot = 0; slot < slots(); ++slot) before += due(slot) <= since_ ? 1 : 0;
  set_next_round(before);
}

std::vector<NamedTensor> DilocoMethod::state() {
  std::vector<NamedTensor> all = SynchronousMethod::state();
  if (outer_.defined()) all.push_back({"outer.uneven", uneven_});
  if (sent_.defined()) all.push_back({"outer.sent", sent_});
  return all;
}

// All drop what is on its way. Some may have used it already, so fragments count as uneven.
void DilocoMethod::begin_anew() {
  const auto ignore = [](const RoundExchange::Part&) {};
  for (int slot = 0; slot < slots(); ++slot)
    if (pending(slot)) arrivals(slot, ignore, ignore);
  if (sent_.defined()) sent_.copy_from(params_.values());  // a resumed run may send it again
  since_ = 0;
  Tensor(uneven_).fill(1);
}

void DilocoMethod::local_step() {
  resume();
  update();
  const i64 step = ++since_;
  if (since_ == own_.period) since_ = 0;
  if (idle()) return;
  bool changed = false;
  for (int slot = 0; slot < slots(); ++slot) {
    if (!pending(slot) || !lands(slot, step)) continue;
    land(slot);
    changed = true;
  }
  for (int slot = 0; slot < slots(); ++slot) {
    if (step != due(slot)) continue;
    if (sent_.defined() && uneven(slot) <= 0) {
      send(slot);
      continue;
    }
    if (!mix_fragment(slot)) break;  // a death: the rounds have begun anew
    outer_step_of(slot, values_of(slot));
    values_of(slot).copy_from(outer_.model(piece(slot)));
    changed = true;
  }
  if (changed) params_.refresh();
}

// --- with a delay

bool DilocoMethod::lands(int slot, i64 step) const {
  return (due(slot) + own_.outer_delay - 1) % own_.period + 1 == step;
}

void DilocoMethod::send(int slot) {
  of_fragment(sent_, slot).copy_from(values_of(slot));
  launch_sent(slot);
}

void DilocoMethod::launch_sent(int slot) {
  Round round = next_round();
  Tensor piece = of_fragment(sent_, slot);
  if (formula_.with == With::all) {
    round = {};
    for (const int m : membership_.members())
      if (m != group_.rank()) round.in.push_back({.worker = m, .weight = 1.0 / alive()});
    round.out = round.in;
    round.own = 1.0 / alive();
    if (ways_.defined()) {
      Tensor way = of_fragment(ways_, slot);
      way.copy_from(piece);
      axpy(way, -1, outer_.model(this->piece(slot)));
      piece = way;
    }
  }
  launch(slot, round, piece);
}

void DilocoMethod::land(int slot) {
  Tensor x = values_of(slot), mean = of_fragment(sent_, slot);
  axpy(x, -1, mean);
  if (formula_.with == With::all)
    mean_of_all(slot, mean);
  else
    mix(slot, mean);
  outer_step_of(slot, mean);
  axpy(x, 1, outer_.model(piece(slot)));
}

// mean <- the mean of the fragment over all workers. The sum goes by rank, so that all get the same
// bits. A missing value is replaced by our own; then the rounds begin anew.
void DilocoMethod::mean_of_all(int slot, Tensor mean) {
  std::map<int, Tensor> all;
  int missing = 0;
  arrivals(
      slot, [&](const RoundExchange::Part& p) { all[p.peer] = p.received; },
      [&](const RoundExchange::Part&) { ++missing; });
  const RoundExchange::Flight& f = flight(slot);
  const Tensor own = f.sent.defined() ? f.sent : f.piece.clone();
  all[group_.rank()] = own;
  const float share = 1 / static_cast<float>(static_cast<int>(all.size()) + missing);
  if (ways_.defined())
    mean.copy_from(outer_.model(piece(slot)));
  else
    mean.zero();
  for (const auto& [rank, values] : all) axpy(mean, share, values);
  if (missing > 0) axpy(mean, share * static_cast<float>(missing), own);
}

// A resumed run sends again what was on its way when its state was saved, in the same rounds.
void DilocoMethod::resume() {
  if (std::exchange(resumed_, true) || idle()) return;
  std::vector<std::pair<i64, int>> under_way;  // since how many steps, and which
  for (int slot = 0; slot < slots(); ++slot) {
    const i64 period = own_.period, age = (since_ - due(slot) + period) % period;
    const bool was_sent = steps_before() >= due(slot);
    if (was_sent && age < own_.outer_delay) under_way.emplace_back(age, slot);
  }
  std::ranges::sort(under_way, std::greater());
  const i64 next = rounds_begun();
  set_next_round(next - static_cast<i64>(under_way.size()));
  for (const auto& [age, slot] : under_way) launch_sent(slot);
}

void DilocoMethod::mix_pending() {
  bool changed = false;
  for (int slot = 0; slot < slots(); ++slot)
    if (pending(slot)) land(slot), changed = true;
  if (changed) params_.refresh();
}

// --- without a delay

// values() of the fragment become the mean. False: a death came in between, and nothing happened.
bool DilocoMethod::mix_fragment(int slot) {
  if (alone()) return true;
  if (formula_.with == With::neighbours) {
    launch(slot, next_round(), values_of(slot));
    mix(slot);
    return true;
  }
  std::vector<Tensor> parts{values_of(slot)};
  if (uneven(slot) > 0) {
    parts.push_back(outer_.model(piece(slot)));
    parts.push_back(outer_.velocity(piece(slot)));
  }
  Coded* const coded = parts.size() == 1 ? codes(slot) : nullptr;
  // The tag keeps workers apart that would average different things.
  const int tag = 2 * slot + (parts.size() > 1 ? 1 : 0);
  if (coded) {
    Tensor x = parts[0], way = x.clone();
    const Tensor o = outer_.model(piece(slot));
    axpy(way, -1, o);
    coded->encode(way);
    if (!average_coded(*coded, way, tag)) return false;
    x.copy_from(o);
    axpy(x, 1, way);
  } else if (!average_parts(parts, tag)) {
    return false;
  }
  uneven(slot) = 0;
  return true;
}

Tensor DilocoMethod::of_fragment(const Tensor& t, int slot) const {
  const FlatRange r = piece(slot);
  return t.reshape({-1}).slice(r.begin, r.end);
}

void DilocoMethod::outer_step_of(int slot, const Tensor& mean) {
  outer_.step(piece(slot), mean, formula_.outer);
}

}  // namespace gossamer::dist
