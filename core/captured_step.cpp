// See captured_step.h.
#include "gossamer/core/captured_step.h"

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"

namespace gossamer {
namespace {

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(Device device, const StepWork& work) : device_(device) {
    // The graph has its own memory, so what the eager steps used is given back first.
    release_cached(device);
    graph_ = cuda::Graph::capture(device, work);
  }
  void launch() override { graph_.launch(cuda::current_stream(device_)); }

 private:
  Device device_;
  cuda::Graph graph_;
};

class ReadyGraph final : public CapturedGraph {
 public:
  ReadyGraph(FlatParams& params, const GraphCapture& capture, const StepWork& work)
      : params_(params), order_(params.record_ready([&] { graph_ = capture(work); })) {}
  void launch() override {
    graph_->launch();
    params_.replay_ready(order_);
  }

 private:
  FlatParams& params_;
  std::unique_ptr<CapturedGraph> graph_;
  const std::vector<std::size_t> order_;  // of the gradients' ranges
};

}  // namespace

GraphCapture cuda_graph_capture(Device device) {
  return [device](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
    return std::make_unique<CudaGraph>(device, work);
  };
}

GraphCapture with_ready_gradients(FlatParams& params, GraphCapture capture) {
  return [&params,
          capture = std::move(capture)](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
    return std::make_unique<ReadyGraph>(params, capture, work);
  };
}

void CapturedStep::run(const Input& input, const StepWork& work) {
  if (!options_.enabled) return work();
  if (graph_ && input == captured_) {
    last_ = input;  // so the short last batches of several epochs do not count as repeats
    return launch();
  }
  if (last_ != input) last_ = input, repeats_ = 0;
  if (++repeats_ > kEagerSteps) capture(input, work);
  if (graph_ && input == captured_)
    launch();
  else
    work();
}

void CapturedStep::capture(const Input& input, const StepWork& work) {
  graph_.reset();  // frees its memory before the next graph allocates
  std::vector<i64> before;
  for (const Tensor& c : options_.counters) before.push_back(*c.as<i64>());
  std::string why;
  try {
    graph_ = options_.capture(work);
  } catch (const DeviceError& e) {
    why = e.what();
  }
  // Capturing computed nothing, so the counters go back; the difference is what a launch adds.
  increments_.clear();
  for (std::size_t i = 0; i < before.size(); ++i) {
    i64& now = *options_.counters[i].as<i64>();
    increments_.push_back(now - before[i]);
    now = before[i];
  }
  captured_ = input;
  if (!graph_) disable(why);
}

void CapturedStep::launch() {
  for (std::size_t i = 0; i < increments_.size(); ++i)
    *options_.counters[i].as<i64>() += increments_[i];
  graph_->launch();
}

void CapturedStep::disable(const std::string& why) {
  if (!options_.enabled) return;
  options_.enabled = false;
  graph_.reset();
  if (options_.on_failure) options_.on_failure(why);
}

}  // namespace gossamer
