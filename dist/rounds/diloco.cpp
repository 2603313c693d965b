// Own steps, and now and then an outer one.
#include "gossamer/dist/rounds/diloco.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "gossamer/core/blocks.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {
namespace {

const char* name_of(DilocoMethod::With with) {
  return with == DilocoMethod::With::all ? "diloco" : "noloco";
}

std::vector<FlatRange> fragments_of(const FlatParams& params, const MethodOptions& options) {
  std::vector<FlatRange> out;
  const i64 n = params.size(), count = options.fragments;
  for (i64 f = 0; f < count; ++f) out.push_back({n * f / count, n * (f + 1) / count});
  return out;
}

}  // namespace

DilocoMethod::DilocoMethod(With with, FlatParams& params, Optimizer& optimizer, Group& group,
                           const Graph& graph, const MethodOptions& options)
    : SynchronousMethod(name_of(with), params, optimizer, group, graph, options,
                        fragments_of(params, options), false, with == With::all),
      with_(with),
      momentum_(options.outer_momentum.value_or(with == With::all ? 0.9 : 0.5)),
      since_(steps_before() % options.period),
      uneven_(static_cast<std::size_t>(slots()), false) {
  if (group.size() < 2) return;
  model_ = params.values().clone();
  velocity_ = Tensor::zeros({1, params.size()}, DType::f32, params.values().device());
  if (options.outer_delay > 0) {
    sent_ = params.values().clone();
    if (with == With::all && coding_of(options.payload) != Coding::f32) ways_ = sent_.clone();
    resumed_ = steps_before() == 0;
  }
  // Rounds count outer steps.
  i64 before = steps_before() / options.period * slots();
  for (int slot = 0; slot < slots(); ++slot) before += due(slot) <= since_ ? 1 : 0;
  set_next_round(before);
}

std::vector<NamedTensor> DilocoMethod::state() {
  std::vector<NamedTensor> all = SynchronousMethod::state();
  if (!model_.defined()) return all;
  all.insert(all.begin(), {{"outer.model", model_}, {"outer.velocity", velocity_}});
  if (sent_.defined()) all.push_back({"outer.sent", sent_});
  return all;
}

// What is on its way is dropped by all: who has used it already is uneven.
void DilocoMethod::begin_anew() {
  const auto ignore = [](const RoundExchange::Part&) {};
  for (int slot = 0; slot < slots(); ++slot)
    if (pending(slot)) arrivals(slot, ignore, ignore);
  if (sent_.defined()) sent_.copy_from(params_.values());  // a resumed run may send it again
  since_ = 0;
  uneven_.assign(static_cast<std::size_t>(slots()), true);
}

void DilocoMethod::update(double learning_rate) {
  resume();
  optimizer_.step(static_cast<float>(learning_rate), nullptr, {.clip = options_.clip_norm});
  const i64 step = ++since_;
  if (since_ == options_.period) since_ = 0;
  if (alone()) return;
  bool changed = false;
  for (int slot = 0; slot < slots(); ++slot) {
    if (!pending(slot) || !lands(slot, step)) continue;
    land(slot);
    changed = true;
  }
  for (int slot = 0; slot < slots(); ++slot) {
    if (step != due(slot)) continue;
    if (sent_.defined() && !uneven_[static_cast<std::size_t>(slot)]) {
      send(slot);
      continue;
    }
    if (!mix_fragment(slot)) break;  // a death: the rounds have begun anew
    outer_step(slot, values_of(slot));
    values_of(slot).copy_from(of_fragment(model_, slot));
    changed = true;
  }
  if (changed) params_.refresh();
}

// --- with a delay

bool DilocoMethod::lands(int slot, i64 step) const {
  return (due(slot) + options_.outer_delay - 1) % options_.period + 1 == step;
}

void DilocoMethod::send(int slot) {
  of_fragment(sent_, slot).copy_from(values_of(slot));
  launch_sent(slot);
}

void DilocoMethod::launch_sent(int slot) {
  Round round = next_round();
  Tensor piece = of_fragment(sent_, slot);
  if (with_ == With::all) {
    round = {};
    for (const int m : membership_.members())
      if (m != group_.rank()) round.in.push_back({.worker = m, .weight = 1.0 / alive()});
    round.out = round.in;
    round.own = 1.0 / alive();
    if (ways_.defined()) {
      Tensor way = of_fragment(ways_, slot);
      way.copy_from(piece);
      axpy(way, -1, of_fragment(model_, slot));
      piece = way;
    }
  }
  launch(slot, round, piece);
}

void DilocoMethod::land(int slot) {
  Tensor x = values_of(slot), mean = of_fragment(sent_, slot);
  axpy(x, -1, mean);
  if (with_ == With::all)
    mean_of_all(slot, mean);
  else
    mix(slot, mean);
  outer_step(slot, mean);
  axpy(x, 1, of_fragment(model_, slot));
}

// By rank, so that all workers get the same bits. A missing value is replaced by one's own; then
// the rounds begin anew.
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
    mean.copy_from(of_fragment(model_, slot));
  else
    mean.zero();
  for (const auto& [rank, values] : all) axpy(mean, share, values);
  if (missing > 0) axpy(mean, share * static_cast<float>(missing), own);
}

// Sends again what was on its way when the state was saved, as then.
void DilocoMethod::resume() {
  if (std::exchange(resumed_, true) || alone()) return;
  std::vector<std::pair<i64, int>> under_way;  // since how many steps, and which
  for (int slot = 0; slot < slots(); ++slot) {
    const i64 period = options_.period, age = (since_ - due(slot) + period) % period;
    const bool was_sent = steps_before() >= due(slot);
    if (was_sent && age < options_.outer_delay) under_way.emplace_back(age, slot);
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

// --- without

// values() of the fragment become the mean. False: a death came in between, and nothing happened.
bool DilocoMethod::mix_fragment(int slot) {
  if (with_ == With::neighbours) {
    launch(slot, next_round(), values_of(slot));
    mix(slot);
    return true;
  }
  std::vector<Tensor> parts{values_of(slot)};
  if (uneven_[static_cast<std::size_t>(slot)]) {
    for (const Tensor& t : {model_, velocity_}) parts.push_back(of_fragment(t, slot));
  }
  Coded* const coded = parts.size() == 1 ? codes(slot) : nullptr;
  // Only workers that are equally far average equal things.
  const int tag = 2 * slot + (parts.size() > 1 ? 1 : 0);
  if (coded) {
    Tensor x = parts[0], way = x.clone();
    const Tensor o = of_fragment(model_, slot);
    axpy(way, -1, o);
    coded->encode(way);
    if (!average_coded(*coded, way, tag)) return false;
    x.copy_from(o);
    axpy(x, 1, way);
  } else if (!average_parts(parts, tag)) {
    return false;
  }
  uneven_[static_cast<std::size_t>(slot)] = false;
  return true;
}

Tensor DilocoMethod::of_fragment(const Tensor& t, int slot) const {
  const FlatRange r = piece(slot);
  return t.reshape({-1}).slice(r.begin, r.end);
}

void DilocoMethod::outer_step(int slot, const Tensor& mean) {
  Tensor o = of_fragment(model_, slot), v = of_fragment(velocity_, slot);
  const auto mu = static_cast<float>(momentum_), rate = static_cast<float>(options_.outer_rate);
  scale(v, mu);  // v <- mu v + (o - mean)
  axpy(v, 1, o);
  axpy(v, -1, mean);
  if (with_ == With::all) {  // o - r (d + mu v) = (1 - r) o + r mean - r mu v
    weighted_sum(o, 1 - rate, rate, mean);
    axpy(o, -rate * mu, v);
  } else {
    axpy(o, -rate, v);
  }
}

}  // namespace gossamer::dist
