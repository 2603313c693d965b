// Work that is the same in every training step, captured once as a graph and launched from then on.
// The first steps run eagerly: kernels are measured and memory is allocated then. Batches of
// another shape run eagerly; if the shape persists, the graph is recorded again.
//
//   CapturedStep step({.capture = cuda_graph_capture(device), .counters = counters_of(net)});
//   for (…) step.run({batch.shape(), batch.data()}, [&] { /* forward, backward */ });
//
// A launch repeats the device's work only, on the same addresses: whatever changes from step to
// step must be written to memory that stays where it is, and host code in the work does not run.
// Threads: one at a time for a CapturedStep.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  virtual void launch() = 0;
};
using StepWork = std::function<void()>;
// Runs the work once in a mode in which nothing is computed, and returns its graph. DeviceError
// says why the work cannot be captured.
using GraphCapture = std::function<std::unique_ptr<CapturedGraph>(const StepWork&)>;

// A CUDA graph, launched on the stream that is current at the launch.
GraphCapture cuda_graph_capture(Device);
// For work with a backward pass of `params`, which must outlive the graph: each launch then also
// reports the gradients as ready, in the order of the captured pass (FlatParams::on_ready).
GraphCapture with_ready_gradients(FlatParams& params, GraphCapture);

class CapturedStep {
 public:
  struct Options {
    bool enabled = true;  // false: every step runs eagerly
    GraphCapture capture;
    // i64 on the host, advanced by host code in the work: each launch advances them as one run does
    std::vector<Tensor> counters;
    // Told why the work cannot be captured. It may throw; if it returns, all steps run eagerly.
    std::function<void(const std::string& why)> on_failure;
  };
  explicit CapturedStep(Options options) : options_(std::move(options)) {}

  // A graph fits work that reads this shape at this address.
  struct Input {
    Shape shape;
    const void* data = nullptr;
    bool operator==(const Input&) const = default;
  };
  // Runs the work, or launches its graph.
  void run(const Input&, const StepWork&);
  // For work that is known not to be capturable: calls on_failure, unless it is disabled already.
  void disable(const std::string& why);
  bool captured() const { return graph_ != nullptr; }

  static constexpr int kEagerSteps = 3;  // with one input, before its graph is captured

 private:
  void capture(const Input&, const StepWork&);
  void launch();

  Options options_;
  Input last_, captured_;
  int repeats_ = 0;  // consecutive steps with last_
  std::unique_ptr<CapturedGraph> graph_;
  std::vector<i64> increments_;  // of the counters, per launch
};

}  // namespace gossamer
