// See gradient_step.h.
#include "gossamer/apps/gradient_step.h"

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {
namespace {

// What launching a recording would leave out. Empty: nothing.
std::string left_out(nn::Module& net, const FlatParams& params) {
  for (nn::Module* module : net.modules())
    if (dynamic_cast<nn::Dropout*>(module)) return "Dropout draws from a counter on the host, so a recording would repeat one mask";
  if (params.watched()) return "the method takes gradients up while backward runs, on the host's word; with train.overlap=false it does not";
  return "";
}

StepGraph::Options with_counters(StepGraph::Options options, nn::Module& net) {
  for (const NamedTensor& buffer : net.buffers())
    if (buffer.tensor.dtype() == DType::i64) options.counters.push_back(buffer.tensor);
  return options;
}

}  // namespace

GradientStep::GradientStep(Parts parts, StepGraph::Options graph, bool fixed)
    : parts_(std::move(parts)), inputs_(parts_.params.values().device(), fixed), losses_(parts_.params.values().device(), fixed),
      graph_(with_counters(std::move(graph), parts_.net)) {
  if (const std::string why = left_out(parts_.net, parts_.params); !why.empty()) graph_.refuse(why);
}

void GradientStep::compute(const data::Batch& batch, const Position& at) {
  const auto mix = parts_.loss_of.draw(static_cast<int>(batch.images.shape(1)), static_cast<int>(batch.images.shape(2)), at);
  const StepInputs::Views in = inputs_.put(batch, mix);
  graph_.run({in.images.shape(), in.images.data()}, [this, in] {
    Tensor loss;
    {
      const trace::Scope forward("forward");
      loss = parts_.loss_of(parts_.net, parts_.prepare(in.images), in.labels, in.numbers);
    }
    const trace::Scope backward("backward");
    parts_.params.zero_grad();
    if (parts_.before_backward) parts_.before_backward();
    parts_.params.backward(loss);
    losses_.add(loss);
  });
}

}  // namespace gossamer::apps
