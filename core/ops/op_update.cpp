// The pass of update.h: one optimizer step over FlatParams with all that belongs to it.
//
// A thread of a GPU takes eight neighbouring parameters, with vector loads. On a CPU a loop over
// single parameters does the same, because the compiler vectorises it (eight at a time take 2 to 8
// times as long there, measured). The formulas stand once, and no product is fused with a sum
// (-ffp-contract=off), so both give the same bits.
#include <algorithm>
#include <array>
#include <cstring>

#include "gossamer/core/blocks.h"
#include "gossamer/core/muon_update.h"
#include "gossamer/core/ops/block_terms.h"
#include "gossamer/core/ops/lanes.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

// --- what an update subtracts from x, given x and its gradient. s0, s1, s2: the optimizer's state
struct SgdUpdate {
  static constexpr int blocks = 1;  // of state
  float weight_decay, mu;
  bool nesterov;
  GOSSAMER_HD float operator()(const StepNumbers& n, float wd, float x, float g, float& s0, float&,
                               float&) const {
    return n.learning_rate * sgd_direction(mu, wd, nesterov, x, g, s0);
  }
};
template <bool accumulates>
struct AdamUpdate {
  static constexpr int blocks = accumulates ? 3 : 2;
  float weight_decay;
  bool decoupled;
  GOSSAMER_HD float operator()(const StepNumbers& n, float wd, float x, float g, float& s0,
                               float& s1, float& s2) const {
    const float coupled = decoupled ? 0 : wd, straight = decoupled ? n.learning_rate * wd : 0;
    return adam_direction<accumulates>(n.adam, g + coupled * x, s0, s1, s2) + straight * x;
  }
};
struct MuonUpdate {  // s0: the direction, which is zero between two steps
  static constexpr int blocks = 1;
  float weight_decay;
  GOSSAMER_HD float operator()(const StepNumbers& n, float wd, float x, float, float& s0, float&,
                               float&) const {
    const float direction = s0;
    s0 = 0;
    return n.learning_rate * (direction + wd * x);
  }
};
struct NoUpdate {  // the step is skipped
  static constexpr int blocks = 0;
  float weight_decay = 0;
};

// The blocks of a pass, from the first element of its range on.
struct Blocks {
  float *x, *twin;  // twin may be null
  const float* g;
  float* state[3];
  Blocks from(i64 at) const {
    Blocks b{x + at, twin ? twin + at : nullptr, g + at, {}};
    for (int k = 0; k < 3; ++k) b.state[k] = state[k] ? state[k] + at : nullptr;
    return b;
  }
};

// One parameter, on a CPU and without a difference. All else is known before the loop over a range.
template <class Update, bool has_twin, class Copy>
struct UpdateOne {
  Update update;
  Blocks b;
  StepNumbers n;
  Copy* copy;  // what layers read; void: nothing
  float wd, grad_scale;
  void operator()(i64 i) const {
    float x = b.x[i], twin = 0;
    if constexpr (has_twin) {
      twin = b.twin[i];
      mix_element(n.mix_c, n.mix_s, x, twin);
    }
    if constexpr (Update::blocks > 0) {
      float s0 = b.state[0][i], s1 = 0, s2 = 0;
      if constexpr (Update::blocks > 1) s1 = b.state[1][i];
      if constexpr (Update::blocks > 2) s2 = b.state[2][i];
      const float step = update(n, wd, x, grad_scale * b.g[i], s0, s1, s2);
      b.state[0][i] = s0;
      if constexpr (Update::blocks > 1) b.state[1][i] = s1;
      if constexpr (Update::blocks > 2) b.state[2][i] = s2;
      x -= step;
      twin -= step;
    }
    b.x[i] = x;
    if constexpr (has_twin) b.twin[i] = twin;
    if constexpr (!std::is_void_v<Copy>) store(copy, i, x);
  }
};

// Eight neighbouring parameters, on a GPU, or with a difference.
template <class Update, bool has_twin, class Wire>
struct UpdateEight {
  Update update;
  Blocks b;
  const StepNumbers* numbers;
  const Wire *own, *received;
  i64 begin, decayed;     // the range's first element; those below `decayed` have rank >= 2
  float unscale;          // 1/loss scale
  const float* overflow;  // not 0: the update is skipped; may be null
  void* half;             // what layers read of elements below `decayed`; may be null
  // false: bf16. A template's parameter would double the number of kernels.
  bool half_is_f16;
  float* full;  // of those that `half` does not hold; may be null
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = begin + 8 * i;
    const StepNumbers n = *numbers;
    const bool skip = overflow && *overflow > 0, matrix = at < decayed;
    const float grad_scale = n.grad_scale * unscale, wd = matrix ? update.weight_decay : 0;
    Eight x = load_eight<true>(b.x + at, 8), twin{}, mine{}, theirs{}, s[3]{};
    if constexpr (has_twin) twin = load_eight<true>(b.twin + at, 8);
    const Eight g = load_eight<true, Reuse::never>(b.g + at, 8);
    GOSSAMER_UNROLL
    for (int k = 0; k < Update::blocks; ++k) s[k] = load_eight<true>(b.state[k] + at, 8);
    if (n.jump) {
      mine = load_eight<true, Reuse::never>(own + at, 8);
      theirs = load_eight<true, Reuse::never>(received + at, 8);
    }
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      if constexpr (has_twin) mix_element(n.mix_c, n.mix_s, x.v[j], twin.v[j]);
      const float step =
          skip ? 0 : update(n, wd, x.v[j], grad_scale * g.v[j], s[0].v[j], s[1].v[j], s[2].v[j]);
      x.v[j] -= step;
      twin.v[j] -= step;
      if (n.jump) jump_element(n.jump_x, n.jump_twin, mine.v[j] - theirs.v[j], x.v[j], twin.v[j]);
    }
    store_eight<true>(b.x + at, 8, x);
    if constexpr (has_twin) store_eight<true>(b.twin + at, 8, twin);
    GOSSAMER_UNROLL
    for (int k = 0; k < Update::blocks; ++k) store_eight<true>(b.state[k] + at, 8, s[k]);
    if (half && matrix && half_is_f16)
      store_eight<true>(static_cast<f16*>(half) + at, 8, x);
    else if (half && matrix)
      store_eight<true>(static_cast<bf16*>(half) + at, 8, x);
    else if (full)
      store_eight<true>(full + at, 8, x);
  }
};

// What precedes MuonUpdate, for one parameter.
struct MuonDirection {
  float mu, gain;  // gain = 1 - mu
  const float* g;
  float *momentum, *direction;
  const StepNumbers* numbers;
  float unscale;          // 1/loss scale
  const float* overflow;  // not 0: the update is skipped; may be null
  GOSSAMER_HD void operator()(i64 i) const {
    if (overflow && *overflow > 0) return;
    const float taken = gain * (numbers->grad_scale * unscale * g[i]);
    momentum[i] = mu * momentum[i] + taken;
    direction[i] = mu * momentum[i] + taken;
  }
};

struct WriteNumbers {
  StepNumbers value;
  GradientScale scale;
  const i64* steps;  // of Adam; null: not Adam
  double beta1, beta2, epsilon;
  i64 period;
  StepNumbers* to;
  GOSSAMER_HD void operator()(i64) const {
    using std::sqrt;
    StepNumbers n = value;
    n.squared_norm = to->squared_norm;
    const double norm = scale.factor * sqrt(n.squared_norm);
    n.grad_scale = static_cast<float>(
        scale.clip > 0 && norm > scale.clip ? scale.factor * scale.clip / norm : scale.factor);
    // Before the first step that is taken, the factors are not used.
    if (steps)
      n.adam = AdamFactors<float>::at(*steps > 0 ? *steps : 1, period,
                                      static_cast<double>(n.learning_rate), beta1, beta2, epsilon);
    *to = n;
  }
};

struct CountOverflow {
  float* overflow;  // of this step; steps skipped
  GOSSAMER_HD void operator()(i64) const { overflow[1] += overflow[0] > 0 ? 1.0f : 0.0f; }
};
struct CountStep {
  const float* overflow;  // may be null
  i64* steps;
  GOSSAMER_HD void operator()(i64) const { *steps += overflow && *overflow > 0 ? 0 : 1; }
};

// for_each() of a CPU, which makes no kernel for GPUs.
template <class F>
void loop_on_cpu(i64 n, F f) {
  parallel_for(n, 1 << 15, [&](i64 begin, i64 end) {
    F local = f;  // a copy the optimiser can keep in registers
    GOSSAMER_IVDEP
    for (i64 i = begin; i < end; ++i) local(i);
  });
}

// The matrices of the range, then its vectors, each with the one type of their copy.
template <class Update>
void pass_on_cpu(const FlatParams& p, const Update& update, const Blocks& blocks,
                 const StepNumbers& n, FlatRange range) {
  const float grad_scale = n.grad_scale / p.loss_scale();
  const auto part = [&]<class Copy>(i64 from, i64 to, Copy* copy) {
    if (from >= to) return;
    if constexpr (!std::is_void_v<Copy>) copy += from;
    const Blocks b = blocks.from(from);
    const float wd = from < p.decayed() ? update.weight_decay : 0;
    if (b.twin)
      loop_on_cpu(to - from, UpdateOne<Update, true, Copy>{update, b, n, copy, wd, grad_scale});
    else
      loop_on_cpu(to - from, UpdateOne<Update, false, Copy>{update, b, n, copy, wd, grad_scale});
  };
  const auto f32_part = [&](i64 from, i64 to) {
    if (p.aliased())
      part(from, to, static_cast<void*>(nullptr));
    else
      part(from, to, p.compute_f32().as<float>());
  };
  const i64 border = std::clamp(p.decayed(), range.begin, range.end);
  const Tensor& half = p.compute_half();
  if (half.defined() && half.dtype() == DType::f16)
    part(range.begin, border, half.as<f16>());
  else if (half.defined())
    part(range.begin, border, half.as<bf16>());
  else
    f32_part(range.begin, border);
  f32_part(border, range.end);
}

FlatRange range_of(const char* op, const FlatParams& p, FlatRange range) {
  const i64 size = p.size();
  if (range.end < 0) range.end = size;
  check<ShapeError>(range.begin >= 0 && range.begin <= range.end && range.end <= size &&
                        range.begin % 32 == 0 && range.end % 32 == 0,
                    op, ": range [", range.begin, ", ", range.end, ") of a block of ", size,
                    "; wanted one that begins and ends on 32 elements");
  return range;
}

template <class Update>
void pass(const char* op, FlatParams& p, const Update& update, std::array<Tensor, 3> state,
          const Tensor& numbers, const UpdateBlocks& blocks, FlatRange range) {
  const i64 size = p.size();
  const Device device = p.values().device();
  range = range_of(op, p, range);
  if (blocks.twin.defined()) check_block(op, "twin", blocks.twin, size, DType::f32, device);
  const bool exchanged = blocks.own.defined() || blocks.received.defined();
  if (exchanged) check_exchange(op, blocks.own, blocks.received, size, device);
  check_block(op, "numbers", numbers, sizeof(StepNumbers), DType::u8, device);
  p.settle_grads(range);
  const Blocks b{p.values().as<float>(),
                 pointer(blocks.twin),
                 p.grads().as<float>(),
                 {pointer(state[0]), pointer(state[1]), pointer(state[2])}};
  const auto* now = static_cast<const StepNumbers*>(numbers.data());
  if (device.is_cpu() && !exchanged)
    return p.skips_step() ? pass_on_cpu(p, NoUpdate{}, b, *now, range)
                          : pass_on_cpu(p, update, b, *now, range);
  const Tensor& half = p.compute_half();
  with_wire(op, blocks.own, [&]<class Wire>() {
    const auto go = [&]<bool has_twin>() {
      for_each(
          device, (range.end - range.begin) / 8,
          UpdateEight<Update, has_twin, Wire>{
              update, b, now, exchanged ? blocks.own.as<Wire>() : nullptr,
              exchanged ? blocks.received.as<Wire>() : nullptr, range.begin, p.decayed(),
              1 / p.loss_scale(), pointer(p.overflow()), half.defined() ? half.data() : nullptr,
              half.defined() && half.dtype() == DType::f16,
              p.aliased() ? nullptr : p.compute_f32().as<float>()},
          1 << 12);
    };
    if (b.twin)
      go.template operator()<true>();
    else
      go.template operator()<false>();
  });
}

}  // namespace

Tensor step_numbers(Device device) {
  Tensor here = Tensor::empty({sizeof(StepNumbers)}, DType::u8);
  const StepNumbers start;
  std::memcpy(here.data(), &start, sizeof start);
  return device.is_cpu() ? here : here.to(device);
}

void measure_gradients(Tensor& numbers, FlatParams& params) {
  check_block("measure_gradients", "numbers", numbers, sizeof(StepNumbers), DType::u8,
              params.values().device());
  params.settle_grads();
  const double scale = static_cast<double>(params.loss_scale());
  double* const norm = &static_cast<StepNumbers*>(numbers.data())->squared_norm;
  sum_to(numbers.device(), params.size(), SquareAt{params.grads().as<float>()}, 1 / (scale * scale),
         norm);
}

void write_numbers(Tensor& numbers, const StepNumbers& value, const GradientScale& scale,
                   const AdamCount& adam) {
  const Device device = numbers.defined() ? numbers.device() : Device::cpu();
  check_block("write_numbers", "numbers", numbers, sizeof value, DType::u8, device);
  const i64* steps = nullptr;
  if (adam.steps.defined()) {
    check_block("write_numbers", "steps", adam.steps, 1, DType::i64, device);
    steps = adam.steps.as<i64>();
  }
  for_each(device, 1,
           WriteNumbers{value, scale, steps, adam.beta1, adam.beta2, adam.epsilon, adam.period,
                        static_cast<StepNumbers*>(numbers.data())});
}

void sgd_pass(FlatParams& params, const SgdRule& rule, const Tensor& numbers,
              const UpdateBlocks& blocks, FlatRange range) {
  check_block("sgd_pass", "momentum", rule.momentum, params.size(), DType::f32,
              params.values().device());
  pass("sgd_pass", params, SgdUpdate{rule.weight_decay, rule.mu, rule.nesterov}, {rule.momentum},
       numbers, blocks, range);
}

void adam_pass(FlatParams& params, const AdamRule& rule, const Tensor& numbers,
               const UpdateBlocks& blocks, FlatRange range) {
  const char* op = "adam_pass";
  const auto fits = [&](const char* what, const Tensor& t) {
    check_block(op, what, t, params.size(), DType::f32, params.values().device());
  };
  fits("first moment", rule.first);
  fits("second moment", rule.second);
  if (rule.sum.defined()) {
    fits("sum of gradients", rule.sum);
    pass(op, params, AdamUpdate<true>{rule.weight_decay, rule.decoupled},
         {rule.first, rule.second, rule.sum}, numbers, blocks, range);
  } else {
    pass(op, params, AdamUpdate<false>{rule.weight_decay, rule.decoupled},
         {rule.first, rule.second}, numbers, blocks, range);
  }
}

namespace {

void check_muon(const char* op, const FlatParams& params, const MuonRule& rule) {
  const Device device = params.values().device();
  check_block(op, "momentum", rule.momentum, params.size(), DType::f32, device);
  check_block(op, "direction", rule.direction, params.size(), DType::f32, device);
}

}  // namespace

void muon_direction(FlatParams& params, const MuonRule& rule, const Tensor& numbers,
                    FlatRange range) {
  const char* op = "muon_direction";
  check_muon(op, params, rule);
  const Device device = params.values().device();
  check_block(op, "numbers", numbers, sizeof(StepNumbers), DType::u8, device);
  range = range_of(op, params, range);
  params.settle_grads(range);
  for_each(device, range.end - range.begin,
           MuonDirection{rule.mu, 1 - rule.mu, params.grads().as<float>() + range.begin,
                         rule.momentum.as<float>() + range.begin,
                         rule.direction.as<float>() + range.begin,
                         static_cast<const StepNumbers*>(numbers.data()), 1 / params.loss_scale(),
                         pointer(params.overflow())});
}

void muon_pass(FlatParams& params, const MuonRule& rule, const Tensor& numbers,
               const UpdateBlocks& blocks, FlatRange range) {
  check_muon("muon_pass", params, rule);
  pass("muon_pass", params, MuonUpdate{rule.weight_decay}, {rule.direction}, numbers, blocks,
       range);
}

void find_overflow(FlatParams& params) {
  if (!params.overflow().defined()) return;
  params.settle_grads();
  const Tensor& grads = params.grads();
  sum_to(grads.device(), grads.numel(), NotFinite{grads.as<float>()}, 1,
         params.overflow().as<float>());
  for_each(grads.device(), 1, CountOverflow{params.overflow().as<float>()});
}

void count_step(const FlatParams& params, Tensor& steps) {
  const Device device = params.values().device();
  check<ShapeError>(steps.defined() && steps.dtype() == DType::i64 && steps.numel() == 1,
                    "count_step: wanted i64 of one element");
  check<DeviceError>(steps.device() == device, "count_step: the counter is on ", steps.device(),
                     ", the parameters on ", device);
  for_each(device, 1, CountStep{pointer(params.overflow()), steps.as<i64>()});
}

double squared_gradient(FlatParams& params) {
  params.settle_grads();
  const double scale = static_cast<double>(params.loss_scale()),
               norm = squared_norm(params.grads()) / (scale * scale);
  return params.overflow().defined() && !std::isfinite(norm) ? 0 : norm;
}

}  // namespace gossamer
