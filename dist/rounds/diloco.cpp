// Own steps, and now and then an outer one.
#include "gossamer/dist/rounds/diloco.h"

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {
namespace {

const char* name_of(DilocoMethod::With with) {
  return with == DilocoMethod::With::all ? "diloco" : "noloco";
}

std::vector<FlatRange> fragments_of(const FlatParams& params, const MethodOptions& options,
                                    const char* name) {
  check<ConfigError>(options.period >= 1, name, ": period ", options.period,
                     "; it must be at least 1 step");
  check<ConfigError>(options.fragments >= 1 && options.fragments <= options.period, name, ": ",
                     options.fragments, " fragments in a period of ", options.period,
                     " steps; wanted 1 to as many as it has steps");
  std::vector<FlatRange> out;
  const i64 n = params.size(), count = options.fragments;
  for (i64 f = 0; f < count; ++f) out.push_back({n * f / count, n * (f + 1) / count});
  return out;
}

}  // namespace

DilocoMethod::DilocoMethod(With with, FlatParams& params, Optimizer& optimizer, Group& group,
                           const Graph& graph, const MethodOptions& options)
    : SynchronousMethod(name_of(with), params, optimizer, group, graph, options,
                        fragments_of(params, options, name_of(with)), false, with == With::all),
      with_(with),
      momentum_(options.outer_momentum.value_or(with == With::all ? 0.9 : 0.5)),
      since_(steps_before() % options.period),
      uneven_(static_cast<std::size_t>(slots()), false) {
  check<ConfigError>(options.outer_rate > 0 && momentum_ >= 0 && momentum_ < 1, name(),
                     ": outer_rate ", options.outer_rate, ", outer_momentum ", momentum_,
                     "; wanted above 0, and at least 0 and below 1");
  if (group.size() < 2) return;
  model_ = params.values().clone();
  velocity_ = Tensor::zeros({1, params.size()}, DType::f32, params.values().device());
  // Rounds count outer steps.
  i64 before = steps_before() / options.period * slots();
  for (int slot = 0; slot < slots(); ++slot) before += due(slot) <= since_ ? 1 : 0;
  set_next_round(before);
}

std::vector<NamedTensor> DilocoMethod::state() {
  std::vector<NamedTensor> all = SynchronousMethod::state();
  if (!model_.defined()) return all;
  all.insert(all.begin(), {{"outer.model", model_}, {"outer.velocity", velocity_}});
  return all;
}

void DilocoMethod::begin_anew() {
  since_ = 0;
  uneven_.assign(static_cast<std::size_t>(slots()), true);
}

void DilocoMethod::update(double learning_rate) {
  optimizer_.step(static_cast<float>(learning_rate), nullptr, {.clip = options_.clip_norm});
  const i64 step = ++since_;
  if (since_ == options_.period) since_ = 0;
  if (alone()) return;
  bool changed = false;
  for (int slot = 0; slot < slots(); ++slot) {
    if (step != due(slot)) continue;
    if (!mix_fragment(slot)) break;  // a death: the rounds have begun anew
    outer_step(slot);
    changed = true;
  }
  if (changed) params_.refresh();
}

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

void DilocoMethod::outer_step(int slot) {
  Tensor x = values_of(slot), o = of_fragment(model_, slot), v = of_fragment(velocity_, slot);
  const auto mu = static_cast<float>(momentum_), rate = static_cast<float>(options_.outer_rate);
  scale(v, mu);  // v <- mu v + (o - x)
  axpy(v, 1, o);
  axpy(v, -1, x);
  if (with_ == With::all) {  // o - r (d + mu v) = (1 - r) o + r x - r mu v
    weighted_sum(o, 1 - rate, rate, x);
    axpy(o, -rate * mu, v);
  } else {
    axpy(o, -rate, v);
  }
  x.copy_from(o);
}

}  // namespace gossamer::dist
