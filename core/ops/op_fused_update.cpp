// The passes of fused_update.h: checks and launches of update_kernels.h.
#include <cmath>
#include <cstring>

#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/update_kernels.h"

namespace gossamer::fused {
namespace {

using namespace kernels;

// f.template operator()<Wire>() for the type of a snapshot.
template <class F>
void with_wire(const char* op, const Tensor& t, F&& f) {
  if (!t.defined() || t.dtype() == DType::f32) return f.template operator()<float>();
  check<ShapeError>(t.dtype() == DType::f16, op, ": a snapshot is ", t.dtype(),
                    "; wanted f32 or f16");
  f.template operator()<f16>();
}

void check_flat(const char* op, const char* what, const Tensor& t, i64 size, DType type,
                const Tensor& like) {
  check<ShapeError>(
      t.defined() && t.dtype() == type && t.numel() == size, op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted ", type, " of ", size, " elements, the layout of the parameters");
  check<DeviceError>(t.device() == like.device(), op, ": ", what, " is on ", t.device(),
                     ", the parameters on ", like.device());
  check<ShapeError>(aligned16(t.data()), op, ": ", what, " must start on 16 bytes");
}

i64 check_block(const char* op, const Tensor& x) {
  check<ShapeError>(x.defined(), op, ": there are no parameters");
  check<ShapeError>(x.numel() % 8 == 0, op, ": a block of ", x.numel(),
                    " elements; FlatParams makes multiples of 32");
  check_flat(op, "the block", x, x.numel(), DType::f32, x);
  return x.numel();
}

void check_exchange(const char* op, const Tensor& own, const Tensor& received, i64 size,
                    const Tensor& like) {
  check_flat(op, "own", own, size, own.defined() ? own.dtype() : DType::f32, like);
  check_flat(op, "received", received, size, own.dtype(), like);
}

template <class Rule>
void pass(const char* op, const UpdateBuffers& b, const Rule& rule, const ParameterGroups& groups,
          const Tensor& numbers, FlatRange range) {
  const i64 size = check_block(op, b.values);
  check<ShapeError>(size % 32 == 0, op, ": a block of ", size,
                    " elements; FlatParams makes multiples of 32");
  if (range.end < 0) range.end = size;
  check<ShapeError>(range.begin >= 0 && range.begin <= range.end && range.end <= size &&
                        range.begin % 32 == 0 && range.end % 32 == 0,
                    op, ": range [", range.begin, ", ", range.end, ") of a block of ", size,
                    "; wanted one that begins and ends on 32 elements");
  const Device device = b.values.device();
  check_flat(op, "gradients", b.grads, size, b.grads.defined() ? b.grads.dtype() : DType::f32,
             b.values);
  if (b.twin.defined()) check_flat(op, "twin", b.twin, size, DType::f32, b.values);
  const i64 halves = b.compute_half.defined() ? b.compute_half.numel() : 0;
  const DType half = halves > 0 ? b.compute_half.dtype() : DType::bf16;
  check<ShapeError>(halves <= size && halves % 8 == 0, op, ": a compute copy of ", halves, " for ",
                    size, " parameters; wanted at most those, in eights");
  if (halves > 0)
    check_flat(op, "compute copy", b.compute_half, halves,
               half == DType::f16 ? DType::f16 : DType::bf16, b.values);
  if (b.compute_f32.defined())
    check_flat(op, "compute copy", b.compute_f32, size, DType::f32, b.values);
  if (b.overflow.defined()) check_type(op, "overflow", b.overflow, {2}, DType::f32, device);
  if (b.own.defined() || b.received.defined())
    check_exchange(op, b.own, b.received, size, b.values);
  check_flat(op, "groups", groups.group_of_line, size / 32, DType::u8, b.values);
  check_flat(op, "settings of groups", groups.settings, groups.settings.numel(), DType::f32,
             b.values);
  check_flat(op, "numbers", numbers, sizeof(StepNumbers), DType::u8, b.values);
  with_floating(b.grads.dtype(), op, [&]<class Grad>() {
    with_wire(op, b.own, [&]<class Wire>() {
      const auto go = [&]<bool has_twin>() {
        for_each(
            device, (range.end - range.begin) / 8,
            UpdateEight<Rule, has_twin, Grad, Wire>{
                rule, static_cast<const StepNumbers*>(numbers.data()),
                groups.settings.template as<float>(),
                groups.group_of_line.template as<std::uint8_t>(), b.values.template as<float>(),
                has_twin ? b.twin.template as<float>() : nullptr, b.grads.template as<Grad>(),
                b.own.defined() ? b.own.template as<Wire>() : nullptr,
                b.received.defined() ? b.received.template as<Wire>() : nullptr,
                halves > 0 ? b.compute_half.data() : nullptr, half == DType::f16,
                b.compute_f32.defined() ? b.compute_f32.template as<float>() : nullptr, halves,
                range.begin, b.overflow.defined() ? b.overflow.template as<float>() : nullptr,
                1 / b.loss_scale},
            1 << 12);
      };
      if (b.twin.defined())
        go.template operator()<true>();
      else
        go.template operator()<false>();
    });
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
  check_flat("measure_gradients", "numbers", numbers, sizeof(StepNumbers), DType::u8,
             params.values());
  params.settle_grads();
  const double scale = static_cast<double>(params.loss_scale());
  double* const norm = &static_cast<StepNumbers*>(numbers.data())->squared_norm;
  sum_to(numbers.device(), params.size(), SquareAt{params.grads().as<float>()}, 1 / (scale * scale),
         norm);
}

void write_numbers(Tensor& numbers, const StepNumbers& value, const GradientScale& scale,
                   const AdamCount& adam) {
  const char* op = "write_numbers";
  check<ShapeError>(
      numbers.defined() && numbers.dtype() == DType::u8 && numbers.numel() == sizeof value, op,
      ": wanted a tensor of step_numbers()");
  if (adam.steps.defined()) check_type(op, "steps", adam.steps, {1}, DType::i64, numbers.device());
  const i64* steps = adam.steps.defined() ? adam.steps.as<i64>() : nullptr;
  for_each(numbers.device(), 1,
           WriteNumbers{value, scale, steps, adam.beta1, adam.beta2, adam.epsilon, adam.period,
                        static_cast<StepNumbers*>(numbers.data())});
}

ParameterGroups parameter_groups(const FlatParams& params,
                                 const std::vector<ParameterGroup>& groups,
                                 const std::function<int(std::size_t)>& group_of) {
  check<ConfigError>(!groups.empty() && groups.size() <= 256, "parameter_groups: ", groups.size(),
                     " groups; wanted 1 to 256");
  const Device device = params.values().device();
  Tensor settings = Tensor::empty({static_cast<i64>(groups.size()), 2}),
         lines = Tensor::zeros({params.size() / 32}, DType::u8);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    settings.as<float>()[2 * k] = groups[k].weight_decay;
    settings.as<float>()[2 * k + 1] = groups[k].rate;
  }
  for (std::size_t k = 0; k < params.entries().size(); ++k) {
    const auto& entry = params.entries()[k];
    const int group = group_of(k);
    check<ConfigError>(group >= 0 && group < static_cast<int>(groups.size()),
                       "parameter_groups: ", entry.name, " is in group ", group, " of ",
                       groups.size());
    for (i64 line = entry.offset / 32; line * 32 < entry.offset + entry.shape.numel(); ++line)
      lines.as<std::uint8_t>()[line] = static_cast<std::uint8_t>(group);
  }
  return device.is_cpu() ? ParameterGroups{settings, lines}
                         : ParameterGroups{settings.to(device), lines.to(device)};
}

ParameterGroups parameter_groups(const FlatParams& params, float weight_decay) {
  return parameter_groups(params, {{.weight_decay = weight_decay}, {}}, [&](std::size_t k) {
    return params.entries()[k].shape.rank() >= 2 ? 0 : 1;
  });
}

UpdateBuffers buffers_of(const FlatParams& p) {
  UpdateBuffers b;
  b.values = p.values();
  b.grads = p.grads();
  b.compute_half = p.compute_half();
  if (!p.aliased()) b.compute_f32 = p.compute_f32();
  b.loss_scale = p.loss_scale();
  b.overflow = p.overflow();
  return b;
}

void sgd_pass(const UpdateBuffers& b, const Tensor& momentum, const ParameterGroups& groups,
              bool nesterov, const Tensor& numbers, FlatRange range) {
  check_flat("sgd_pass", "momentum", momentum, check_block("sgd_pass", b.values), DType::f32,
             b.values);
  pass("sgd_pass", b, SgdEight{momentum.as<float>(), nesterov}, groups, numbers, range);
}

void adam_pass(const UpdateBuffers& b, const AdamState& state, const ParameterGroups& groups,
               Decay decay, const Tensor& numbers, FlatRange range) {
  const char* op = "adam_pass";
  const i64 size = check_block(op, b.values);
  check_flat(op, "first moment", state.first, size, DType::f32, b.values);
  check_flat(op, "second moment", state.second, size, DType::f32, b.values);
  float *first = state.first.as<float>(), *second = state.second.as<float>();
  const bool decoupled = decay == Decay::decoupled;
  if (state.sum.defined()) {
    check_flat(op, "sum of gradients", state.sum, size, DType::f32, b.values);
    pass(op, b, AdamEight<true>{first, second, state.sum.as<float>(), decoupled}, groups, numbers,
         range);
  } else {
    pass(op, b, AdamEight<false>{first, second, nullptr, decoupled}, groups, numbers, range);
  }
}

void snapshot(const Tensor& x, const Tensor& twin, float c, float s, Tensor& out) {
  const i64 size = check_block("snapshot", x);
  if (twin.defined()) check_flat("snapshot", "twin", twin, size, DType::f32, x);
  check_flat("snapshot", "the copy", out, size, out.defined() ? out.dtype() : DType::f32, x);
  with_wire("snapshot", out, [&]<class Wire>() {
    for_each(x.device(), size / 8,
             SnapshotEight<Wire>{x.as<float>(), twin.defined() ? twin.as<float>() : nullptr, c, s,
                                 out.as<Wire>()},
             1 << 12);
  });
}

void apply_difference(Tensor& x, Tensor& twin, float jump_x, float jump_twin, const Tensor& own,
                      const Tensor& received) {
  const i64 size = check_block("apply_difference", x);
  if (twin.defined()) check_flat("apply_difference", "twin", twin, size, DType::f32, x);
  check_exchange("apply_difference", own, received, size, x);
  with_wire("apply_difference", own, [&]<class Wire>() {
    for_each(x.device(), size / 8,
             DifferenceEight<Wire>{x.as<float>(), twin.defined() ? twin.as<float>() : nullptr,
                                   own.as<Wire>(), received.as<Wire>(), jump_x, jump_twin},
             1 << 12);
  });
}

}  // namespace gossamer::fused
