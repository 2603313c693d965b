// See gradient_step.h.
#include "gossamer/apps/train/gradient_step.h"

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {
namespace {

// What launching a recording would leave out. Empty: nothing.
std::string left_out(nn::Module& net) {
  for (nn::Module* module : net.modules())
    if (dynamic_cast<nn::Dropout*>(module))
      return "Dropout draws from a counter on the host, so a recording would repeat one mask";
  return "";
}

// A launch makes all gradients of the recorded pass ready.
class ReadyRecording final : public Recording {
 public:
  ReadyRecording(FlatParams& params, const Recorder& record, const Work& work)
      : params_(params), order_(params.record_ready([&] { inner_ = record(work); })) {}
  void launch() override {
    inner_->launch();
    params_.replay_ready(order_);
  }

 private:
  FlatParams& params_;
  std::unique_ptr<Recording> inner_;
  const std::vector<std::size_t> order_;  // of the buckets
};

StepGraph::Options completed(StepGraph::Options options, nn::Module& net, FlatParams& params) {
  for (const NamedTensor& buffer : net.buffers())
    if (buffer.tensor.dtype() == DType::i64) options.counters.push_back(buffer.tensor);
  options.record = [&params, record = std::move(options.record)](
                       const Work& work) -> std::unique_ptr<Recording> {
    return std::make_unique<ReadyRecording>(params, record, work);
  };
  return options;
}

}  // namespace

GradientStep::GradientStep(Parts parts, StepGraph::Options graph, bool fixed)
    : parts_(std::move(parts)),
      inputs_(parts_.params.values().device(), fixed),
      losses_(parts_.params.values().device(), fixed),
      graph_(completed(std::move(graph), parts_.net, parts_.params)) {
  if (const std::string why = left_out(parts_.net); !why.empty()) graph_.refuse(why);
}

void GradientStep::bring(const data::Batch& batch, const Position& at) {
  const int side = static_cast<int>(batch.side());
  inputs_.bring(batch, parts_.loss_of.draw(side, side, at));
}

void GradientStep::compute() {
  const StepInputs::Views in = inputs_.take();
  if (parts_.before_backward) parts_.before_backward();
  const Tensor& pixels = in.batch.images.defined() ? in.batch.images : in.batch.bytes;
  graph_.run({{in.batch.count(), in.batch.side()}, pixels.data()}, [this, in] {
    Tensor loss;
    {
      const trace::Scope forward("forward");
      loss = parts_.loss_of(parts_.net, parts_.prepare(in.batch), in.batch.labels, in.numbers);
    }
    const trace::Scope backward("backward");
    parts_.params.zero_grad();
    parts_.params.backward(loss);
    losses_.add(loss);
  });
}

}  // namespace gossamer::apps
