// See gradient_step.h.
#include "gossamer/nn/train/gradient_step.h"

#include <memory>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"

namespace gossamer::nn {
namespace {

// Counters of host and device.
std::vector<Tensor> counters_of(const Module& net) {
  std::vector<Tensor> out;
  for (const NamedTensor& buffer : net.buffers())
    if (buffer.tensor.dtype() == DType::i64) out.push_back(buffer.tensor);
  return out;
}

std::vector<Tensor> memory_of(const Module& net, const FlatParams& params) {
  std::vector<Tensor> out{params.grads()};
  for (const NamedTensor& part : net.state()) out.push_back(part.tensor);
  return out;
}

// A step may have two graphs; why there are none is told once.
GraphOptions telling_once(GraphOptions graphs) {
  if (graphs.on_failure)
    graphs.on_failure = [tell = std::move(graphs.on_failure),
                         told = std::make_shared<bool>(false)](const std::string& why) {
      if (!std::exchange(*told, true)) tell(why);
    };
  return graphs;
}

CapturedStep::Options captured(GraphOptions graphs, const Module& net, FlatParams& params) {
  if (graphs.capture) graphs.capture = with_ready_gradients(params, std::move(graphs.capture));
  return {.graphs = std::move(graphs), .counters = net.counters(), .fixed = memory_of(net, params)};
}

}  // namespace

GradientStep::GradientStep(Parts parts, GraphOptions graphs, bool like_gpu)
    : parts_(std::move(parts)),
      inputs_(parts_.params.values().device(), like_gpu),
      losses_(parts_.params.values().device(), like_gpu),
      first_graph_(captured(graphs = telling_once(std::move(graphs)), parts_.net, parts_.params)),
      later_graph_(captured(std::move(graphs), parts_.net, parts_.params)),
      buffers_(counters_of(parts_.net)) {
  buffers_.push_back(parts_.params.buffers());
  set_batches(parts_.batches);
}

void GradientStep::set_batches(int batches) {
  check<Error>(!begun() && batches >= 1 && (parts_.divisor == 0 || batches <= parts_.divisor),
               "a gradient of ", batches, " batches, divided by ", parts_.divisor);
  parts_.batches = batches;
  const auto of = static_cast<float>(parts_.divisor > 0 ? parts_.divisor : batches);
  if (std::exchange(share_, 1 / of) != share_) {
    first_graph_.forget();
    later_graph_.forget();
  }
  losses_.set_unit(of / static_cast<float>(batches));
}

void GradientStep::drop() {
  inputs_.take();
  inputs_.step_ends();
}

void GradientStep::bring(const DrawnBatch& drawn) { inputs_.bring(drawn.batch, drawn.numbers); }

bool GradientStep::compute() {
  const StepInputs::Views in = inputs_.take();
  const bool first = done_ == 0, last = done_ + 1 == parts_.batches;
  if (first && !last) keep_buffers();
  if (last && parts_.before_backward) parts_.before_backward();
  CapturedStep& graph = first ? first_graph_ : later_graph_;
  try {
    std::vector<Tensor> tensors = in.batch.tensors;
    tensors.push_back(in.numbers);
    graph.run({in.batch.shape, std::move(tensors)}, [this, in, first, share = share_] {
      Tensor loss;
      {
        const trace::Scope forward("forward");
        loss = parts_.loss_of(in.batch, in.numbers);
      }
      const trace::Scope backward("backward");
      if (first) parts_.params.zero_grad();
      parts_.params.backward(loss, share);
      losses_.add(loss, share);
    });
  } catch (...) {
    done_ = 0;
    inputs_.step_ends();
    throw;
  }
  done_ = last ? 0 : done_ + 1;
  return last;
}

void GradientStep::keep_buffers() {
  if (kept_.empty())
    for (const Tensor& b : buffers_) kept_.push_back(b.clone());
  for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i].copy_from(buffers_[i]);
}

void GradientStep::abandon() {
  if (!begun()) return;
  for (std::size_t i = 0; i < kept_.size(); ++i) buffers_[i].copy_from(kept_[i]);
  done_ = 0;
}

}  // namespace gossamer::nn
