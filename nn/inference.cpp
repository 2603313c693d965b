// See inference.h.
#include "gossamer/nn/inference.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"

namespace gossamer::nn {
namespace {

// Pictures at a time: fewer would read the weights too often, more would need more memory and no
// less time.
constexpr i64 kRows = 16;

Shape with_rows(const Shape& shape, i64 rows) {
  std::vector<i64> extents(shape.begin(), shape.end());
  extents.at(0) = rows;
  return Shape::of(extents.data(), shape.rank());
}

bool is_finite(const NamedTensor& t) {
  return !is_floating(t.tensor.dtype()) || t.tensor.numel() == 0 ||
         all_finite(t.tensor.detach().to(DType::f32));
}

Device device_of(const Module& net) {
  const std::vector<NamedTensor> state = net.state();
  return state.empty() ? Device::cpu() : state.front().tensor.device();
}

}  // namespace

std::unique_ptr<FlatParams> put_on(Module& net, Device device, DType type) {
  net.to(device);
  net.eval();
  if (type == DType::f32) return nullptr;
  return std::make_unique<FlatParams>(net.parameters(), net.buffers(),
                                      FlatOptions{.compute = type});
}

FoldedSteps::Value FoldedSteps::conv(Value x, Conv2d& conv, const BatchNorm& norm, bool relu,
                                     Value add) {
  const InferenceConv folded = conv.folded(norm);
  folded_.push_back(&conv);
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

void FoldedSteps::free_weights() {
  for (Conv2d* conv : folded_) conv->free_weight();
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

// The launches of some hundred kernels take longer than a few pictures need.
struct Inference::Graphs {
  explicit Graphs(GraphOptions graphs) : step({.graphs = std::move(graphs)}) {}
  std::mutex mutex;
  CapturedStep step;
};

Inference::Inference(Module& net) : Inference(net, GraphOptions()) {}
Inference::Inference(std::unique_ptr<Module> net) : Inference(std::move(net), GraphOptions()) {}

Inference::Inference(Module& net, const GraphOptions& graphs) { fold(net, graphs); }

Inference::Inference(std::unique_ptr<Module> net, const GraphOptions& graphs)
    : own_(std::move(net)) {
  const Device device = device_of(*own_);
  fold(*own_, graphs);
  steps_.free_weights();
  release_cached(device);
}

Inference::~Inference() = default;
Inference::Inference(Inference&&) noexcept = default;
Inference& Inference::operator=(Inference&&) noexcept = default;

void Inference::fold(Module& net, const GraphOptions& graphs) {
  for (const Module* module : net.modules())
    check<ConfigError>(!module->training(),
                       "inference: a layer is in training mode; call eval() on the network first");
  const std::vector<NamedTensor> state = net.state();
  const Device device = device_of(net);
  GraphOptions own = graphs;
  if (!own.capture && !device.is_cpu()) own.capture = cuda_graph_capture(device);
  if (own.capture) graphs_ = std::make_unique<Graphs>(std::move(own));
  // oneDNN's ReLU makes 0 of a NaN, and a model that has diverged must show it.
  if (std::ranges::all_of(state, is_finite))
    net.fold(steps_, FoldedSteps::kInput);
  else
    net.Module::fold(steps_, FoldedSteps::kInput);
}

Tensor Inference::operator()(const Tensor& x) const {
  const NoGrad no_grad;
  if (graphs_) {
    const std::scoped_lock lock(graphs_->mutex);
    const Tensor y = graphs_->step.run(x, [this](const Tensor& in) { return steps_.run(in); });
    return y.clone();  // the next launch writes there
  }
  const i64 rows = x.rank() > 0 ? x.shape(0) : 1,
            most = std::max(kRows, i64{4} * compute_threads()), parts = (rows + most - 1) / most;
  if (parts <= 1) return steps_.run(x);
  Tensor all;
  for (i64 i = 0; i < parts; ++i) {
    const i64 begin = rows * i / parts, end = rows * (i + 1) / parts;
    const Tensor y = steps_.run(x.slice(begin, end));
    if (i == 0) all = Tensor::empty(with_rows(y.shape(), rows), y.dtype());
    all.slice(begin, end).copy_from(y);
  }
  return all;
}

std::size_t Inference::graphs() const { return graphs_ ? graphs_->step.graphs() : 0; }

std::vector<i64> largest(std::span<const float> numbers, i64 k) {
  std::vector<i64> order(numbers.size());
  std::iota(order.begin(), order.end(), i64{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](i64 i) { return numbers[static_cast<std::size_t>(i)]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  return order;
}

}  // namespace gossamer::nn
