// Work that is the same in every training step, captured as a graph and launched from then on. The
// first steps with inputs of one shape run eagerly: kernels are measured and memory is allocated
// then. The most frequent shapes have a graph each.
//
//   CapturedStep step({.capture = cuda_graph_capture(device), .counters = net.counters()});
//   for (…) step.run({batch.shape(), {batch}}, [&] { /* forward, backward */ });
//
// A launch repeats the device's work only, on the same addresses: whatever changes from step to
// step must be written to memory that stays where it is, and host code in the work does not run.
// Threads: one at a time for a CapturedStep.
#pragma once

#include <functional>
#include <list>
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

// CUDA graphs, launched on the stream that is current at the launch. All graphs of one GraphCapture
// and its copies share their memory: launch them one after another on one stream.
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
    // What all steps read or write beside their input, such as parameters: a graph fits as long as
    // none of them is bound to other memory.
    std::vector<Tensor> fixed;
    // Told why the work cannot be captured. It may throw; if it returns, all steps run eagerly.
    std::function<void(const std::string& why)> on_failure;
  };
  explicit CapturedStep(Options options) : options_(std::move(options)) {}

  // A graph fits work of this shape that reads these tensors: all that are not `fixed`.
  struct Input {
    Shape shape;
    std::vector<Tensor> tensors;
  };
  // Runs the work, or launches its graph.
  void run(const Input&, const StepWork&);
  std::size_t graphs() const;

  static constexpr int kEagerSteps = 3;  // with one shape, before its graph is captured
  static constexpr std::size_t kMostGraphs = 8;

 private:
  struct Known {  // a shape
    Shape shape;
    std::vector<const void*> places;  // of the tensors in the last step, then of the fixed ones
    int uses = 0;                     // recent ones, at these places
    std::unique_ptr<CapturedGraph> graph;
    std::vector<Tensor> inputs;   // of the graph, so that their memory is not given to others
    std::vector<i64> increments;  // of the counters, per launch
  };
  Known& known(const Input&);
  void forget_old_uses();
  bool deserves_graph(const Known&);
  void capture(Known&, const Input&, const StepWork&);
  void launch(Known&);

  Options options_;
  std::list<Known> known_;
  int runs_ = 0;
};

}  // namespace gossamer
