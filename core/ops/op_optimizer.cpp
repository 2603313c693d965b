// The passes of optimizers over FlatParams: SGD, Adam, Accumulated Adam, each with A2CiD2's twin
// and the compute copy.
#include <algorithm>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

// A rule is an optimizer's formula: what to subtract from x, given x and its gradient; it keeps its
// own state at i.
template <bool has_momentum>
struct SgdRule {
  float* m;
  float rate, mu, wd;
  bool nesterov;
  SgdRule at(i64 begin, bool decayed) const {
    return {has_momentum ? m + begin : nullptr, rate, mu, decayed ? wd : 0, nesterov};
  }
  GOSSAMER_HD float operator()(i64 i, float x, float g) const {
    float velocity = 0;
    if constexpr (has_momentum) velocity = m[i];
    const float step = rate * sgd_direction(mu, wd, nesterov, x, g, velocity);
    if constexpr (has_momentum) m[i] = velocity;
    return step;
  }
};

template <bool accumulates>
struct AdamRule {
  float *first, *second, *sum;
  AdamFactors<float> factors;
  float coupled, decoupled;  // weight decay: in the gradient, or straight on x
  AdamRule at(i64 begin, bool decayed) const {
    return {first + begin, second + begin,        accumulates ? sum + begin : nullptr,
            factors,       decayed ? coupled : 0, decayed ? decoupled : 0};
  }
  GOSSAMER_HD float operator()(i64 i, float x, float g) const {
    float m = first[i], v = second[i], a = 0;
    if constexpr (accumulates) a = sum[i];
    const float step = adam_direction<accumulates>(factors, g + coupled * x, m, v, a);
    first[i] = m;
    second[i] = v;
    if constexpr (accumulates) sum[i] = a;
    return step + decoupled * x;
  }
};

// A step that is left out: an update by nothing.
struct NoRule {
  NoRule at(i64, bool) const { return {}; }
  GOSSAMER_HD float operator()(i64, float, float) const { return 0; }
};

// Everything one step touches is read and written once: 5 to 11 streams instead of a pass for each
// formula.
template <class Rule, bool has_twin, class Copy>
struct UpdateElement {
  Rule rule;
  float *x, *twin;
  const float* g;
  Copy* copy;  // the compute copy, or null (as void: none)
  float grad_scale, c, s;
  const float* overflow;  // on a GPU: not 0, and the step is left out. May be null
  GOSSAMER_HD void operator()(i64 i) const {
    float value = x[i], other = 0;
    if constexpr (has_twin) {
      other = twin[i];
      mix_element(c, s, value, other);
    }
    float step = 0;
#ifdef __CUDA_ARCH__
    if (!overflow || *overflow == 0)
#endif
      step = rule(i, value, grad_scale * g[i]);
    value -= step;
    x[i] = value;
    if constexpr (has_twin) twin[i] = other - step;
    if constexpr (!std::is_void_v<Copy>) store(copy, i, value);
  }
};

void check_flat(const char* op, const char* what, const Tensor& t, i64 size) {
  check<ShapeError>(
      t.defined() && t.dtype() == DType::f32 && t.numel() == size, op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted f32 of ", size, " elements, the layout of the parameters");
}

template <class Rule, class Copy>
void run_span(FlatRange span, FlatParams& p, const Rule& rule, float grad_scale, const Twin* twin,
              Copy* copy) {
  const i64 at = span.begin, n = span.end - span.begin;
  const float* overflow = p.overflow().defined() ? p.overflow().as<float>() : nullptr;
  float* x = p.values().as<float>() + at;
  const float* g = p.grads().as<float>() + at;
  if (twin) {
    for_each(p.values().device(), n,
             UpdateElement<Rule, true, Copy>{rule, x, twin->values.as<float>() + at, g, copy,
                                             grad_scale, twin->c, twin->s, overflow});
  } else {
    for_each(
        p.values().device(), n,
        UpdateElement<Rule, false, Copy>{rule, x, nullptr, g, copy, grad_scale, 1, 0, overflow});
  }
}

template <class Rule>
void run(const char* op, FlatParams& params, const Rule& rule, float grad_scale, const Twin* twin,
         FlatRange range) {
  const i64 size = params.size(), decayed = params.decayed(), begin = range.begin,
            end = range.end < 0 ? size : range.end;
  check<ShapeError>(begin >= 0 && begin <= end && end <= size, op, ": range [", begin, ", ", end,
                    ") of a block of ", size);
  if (twin) check_flat(op, "twin", twin->values, size);
  params.settle_grads({begin, end});
  if constexpr (!std::is_same_v<Rule, NoRule>)
    if (params.skips_step()) return run(op, params, NoRule{}, 1, twin, range);
  grad_scale /= params.loss_scale();
  const Tensor& half = params.compute_half();
  float* copy = params.aliased() ? nullptr : params.compute_f32().as<float>();
  if (const FlatRange matrices{begin, std::min(end, decayed)}; matrices.begin < matrices.end) {
    const Rule part = rule.at(matrices.begin, true);
    if (half.defined() && half.dtype() == DType::f16)
      run_span(matrices, params, part, grad_scale, twin, half.as<f16>() + matrices.begin);
    else if (half.defined())
      run_span(matrices, params, part, grad_scale, twin, half.as<bf16>() + matrices.begin);
    else if (copy)
      run_span(matrices, params, part, grad_scale, twin, copy + matrices.begin);
    else
      run_span(matrices, params, part, grad_scale, twin, static_cast<void*>(nullptr));
  }
  if (const FlatRange vectors{std::max(begin, decayed), end}; vectors.begin < vectors.end) {
    const Rule part = rule.at(vectors.begin, false);
    if (copy)
      run_span(vectors, params, part, grad_scale, twin, copy + vectors.begin);
    else
      run_span(vectors, params, part, grad_scale, twin, static_cast<void*>(nullptr));
  }
}

}  // namespace

void sgd_update(FlatParams& params, Tensor& momentum, const SgdStep& o, const Twin* twin,
                FlatRange range) {
  if (momentum.defined() || o.momentum != 0)
    check_flat("sgd_update", "momentum", momentum, params.size());
  if (momentum.defined()) {
    run("sgd_update", params,
        SgdRule<true>{momentum.as<float>(), o.learning_rate, o.momentum, o.weight_decay,
                      o.nesterov},
        o.grad_scale, twin, range);
  } else {
    run("sgd_update", params,
        SgdRule<false>{nullptr, o.learning_rate, o.momentum, o.weight_decay, o.nesterov},
        o.grad_scale, twin, range);
  }
}

void adam_update(FlatParams& params, AdamState& state, const AdamStep& o, const Twin* twin,
                 FlatRange range) {
  check<ConfigError>(o.step >= 1 && o.period >= 1, "adam_update: step ", o.step, " with period ",
                     o.period, "; both count from 1");
  check_flat("adam_update", "first moment", state.first, params.size());
  check_flat("adam_update", "second moment", state.second, params.size());
  const auto factors = AdamFactors<float>::at(
      o.step, o.period, static_cast<double>(o.learning_rate), o.beta1, o.beta2, o.epsilon);
  const float coupled = o.decoupled ? 0 : o.weight_decay,
              decoupled = o.decoupled ? o.learning_rate * o.weight_decay : 0;
  float *first = state.first.as<float>(), *second = state.second.as<float>();
  if (state.sum.defined() || o.period > 1) {
    check_flat("adam_update", "sum of gradients", state.sum, params.size());
    run("adam_update", params,
        AdamRule<true>{first, second, state.sum.as<float>(), factors, coupled, decoupled},
        o.grad_scale, twin, range);
  } else {
    run("adam_update", params, AdamRule<false>{first, second, nullptr, factors, coupled, decoupled},
        o.grad_scale, twin, range);
  }
}

}  // namespace gossamer
