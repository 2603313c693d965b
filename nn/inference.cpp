// See inference.h.
#include "gossamer/nn/inference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossamer/core/autograd.h"

namespace gossamer::nn {
namespace {

bool is_finite(const NamedTensor& t) {
  if (!is_floating(t.tensor.dtype())) return true;
  return std::ranges::all_of(t.tensor.to(DType::f32).span<float>(),
                             [](float v) { return std::isfinite(v); });
}

}  // namespace

FoldedSteps::Value FoldedSteps::conv(Value x, const Conv2d& conv, const BatchNorm& norm, bool relu,
                                     Value add) {
  const InferenceConv folded = conv.folded(norm);
  steps_.push_back(
      {[folded, relu](const Tensor& in, Tensor sum) { return folded(in, relu, std::move(sum)); }, x,
       add});
  return static_cast<Value>(steps_.size());
}

FoldedSteps::Value FoldedSteps::apply(Value x, std::function<Tensor(const Tensor&)> function) {
  steps_.push_back(
      {[f = std::move(function)](const Tensor& in, const Tensor&) { return f(in); }, x, kNothing});
  return static_cast<Value>(steps_.size());
}

Tensor FoldedSteps::run(const Tensor& input) const {
  std::vector<std::size_t> last_reader(steps_.size() + 1, steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i)
    for (const Value v : {steps_[i].x, steps_[i].add})
      if (v != kNothing) last_reader[static_cast<std::size_t>(v)] = i;
  std::vector<Tensor> values(steps_.size() + 1);
  values[0] = input;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto& [compute, from, added] = steps_[i];
    const auto take = [&](Value v) {
      const auto at = static_cast<std::size_t>(v);
      return last_reader[at] == i ? std::exchange(values[at], {}) : values[at];
    };
    // A sum takes the memory of what is added, so nobody else may need that.
    Tensor sum = added == kNothing ? Tensor() : take(added);
    if (sum.defined() && !sum.sole()) sum = sum.clone();
    const Tensor x = take(from);
    values[i + 1] = compute(x, std::move(sum));
  }
  return values.back();
}

Inference::Inference(Module& net) {
  for (const Module* module : net.modules())
    check<ConfigError>(!module->training(),
                       "inference: a layer is in training mode; call eval() on the network first");
  const std::vector<NamedTensor> state = net.state();
  const bool on_cpu = state.empty() || state.front().tensor.device().is_cpu();
  // oneDNN's ReLU makes 0 of a NaN, and a model that has diverged must show it.
  if (on_cpu && std::ranges::all_of(state, is_finite))
    net.fold(steps_, FoldedSteps::kInput);
  else
    net.Module::fold(steps_, FoldedSteps::kInput);
}

Tensor Inference::operator()(const Tensor& x) const {
  const NoGrad no_grad;
  return steps_.run(x);
}

}  // namespace gossamer::nn
