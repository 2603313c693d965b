// See inference.h.
#include "gossamer/nn/inference.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numeric>
#include <utility>

#include "gossamer/core/autograd.h"
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
  if (!is_floating(t.tensor.dtype())) return true;
  return std::ranges::all_of(t.tensor.to(Device::cpu()).to(DType::f32).span<float>(),
                             [](float v) { return std::isfinite(v); });
}

}  // namespace

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

// The launches of some hundred kernels take longer than a few pictures need. A graph reads and
// writes memory that stays where it is.
class Inference::Graphs {
 public:
  explicit Graphs(GraphCapture capture) : capture_(std::move(capture)) {}
  Tensor run(const FoldedSteps& steps, const Tensor& x) {
    const std::scoped_lock lock(mutex_);
    OfShape& at = of(x);
    at.in.copy_from(x);
    at.step.run({x.shape(), {at.in}}, [&] { at.out = steps.run(at.in); });
    return at.out.clone();
  }

 private:
  struct OfShape {
    Tensor in;
    CapturedStep step;
    Tensor out;  // lies in the memory of the graph, which lives longer
  };
  // The newest stands in front.
  OfShape& of(const Tensor& x) {
    const auto known = std::ranges::find_if(all_, [&](const OfShape& each) {
      return each.in.shape() == x.shape() && each.in.dtype() == x.dtype();
    });
    if (known != all_.end()) {
      all_.splice(all_.begin(), all_, known);
    } else {
      if (all_.size() == kMostGraphs) all_.pop_back();
      CapturedStep::Options options;
      options.capture = capture_;
      all_.push_front({Tensor::empty(x.shape(), x.dtype(), x.device()),
                       CapturedStep(std::move(options)), Tensor()});
    }
    return all_.front();
  }
  GraphCapture capture_;
  std::mutex mutex_;
  std::list<OfShape> all_;
};

Inference::Inference(Module& net, GraphCapture capture) { fold(net, std::move(capture)); }

Inference::Inference(std::unique_ptr<Module> net, GraphCapture capture) : own_(std::move(net)) {
  const std::vector<NamedTensor> state = own_->state();
  const Device device = state.empty() ? Device::cpu() : state.front().tensor.device();
  fold(*own_, std::move(capture));
  steps_.free_weights();
  release_cached(device);
}

Inference::~Inference() = default;
Inference::Inference(Inference&&) noexcept = default;
Inference& Inference::operator=(Inference&&) noexcept = default;

void Inference::fold(Module& net, GraphCapture capture) {
  for (const Module* module : net.modules())
    check<ConfigError>(!module->training(),
                       "inference: a layer is in training mode; call eval() on the network first");
  const std::vector<NamedTensor> state = net.state();
  const Device device = state.empty() ? Device::cpu() : state.front().tensor.device();
  if (!capture && !device.is_cpu()) capture = cuda_graph_capture(device);
  if (capture) graphs_ = std::make_unique<Graphs>(std::move(capture));
  // oneDNN's ReLU makes 0 of a NaN, and a model that has diverged must show it.
  if (std::ranges::all_of(state, is_finite))
    net.fold(steps_, FoldedSteps::kInput);
  else
    net.Module::fold(steps_, FoldedSteps::kInput);
}

Tensor Inference::operator()(const Tensor& x) const {
  const NoGrad no_grad;
  if (graphs_) return graphs_->run(steps_, x);
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

std::vector<i64> largest(std::span<const float> numbers, i64 k) {
  std::vector<i64> order(numbers.size());
  std::iota(order.begin(), order.end(), i64{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](i64 i) { return numbers[static_cast<std::size_t>(i)]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  return order;
}

}  // namespace gossamer::nn
