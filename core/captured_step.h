// Work that is the same in every training step, captured as a graph and launched from then on. The
// first steps with inputs of one shape run eagerly: kernels are measured and memory is allocated
// then. The most frequent shapes have a graph each.
//
//   CapturedStep step({.graphs = {cuda_graph_capture(device)}, .counters = net.counters()});
//   for (…) step.run({batch.shape(), {batch}}, [&] { /* forward, backward */ });
//   for (…) y = step.run(x, [&](const Tensor& in) { return net(in); });
//
// A launch repeats the device's work only, on the same addresses: whatever changes from step to
// step must be written to memory that stays where it is, and host code in the work does not run.
// Threads: one at a time for a CapturedStep.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
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
// Told why work cannot be captured. It may throw; if it returns, all steps run eagerly.
using GraphFailure = std::function<void(const std::string& why)>;

struct GraphOptions {
  GraphCapture capture{};     // empty: everything runs eagerly
  GraphFailure on_failure{};  // empty: a failure is a DeviceError
};

// CUDA graphs, launched on the stream that is current at the launch. All graphs of one GraphCapture
// and its copies share their memory: launch them one after another on one stream.
GraphCapture cuda_graph_capture(Device);
// For work with a backward pass of `params`, which must outlive the graph: each launch then also
// reports the gradients as ready, in the order of the captured pass (FlatParams::on_ready).
GraphCapture with_ready_gradients(FlatParams& params, GraphCapture);

class CapturedStep {
 public:
  struct Options {
    GraphOptions graphs{};
    // i64 on the host, advanced by host code in the work: each launch advances them as one run does
    std::vector<Tensor> counters{};
    // What all steps read or write beside their input, such as parameters: a graph fits as long as
    // none of them is bound to other memory.
    std::vector<Tensor> fixed{};
  };
  explicit CapturedStep(Options options) : options_(std::move(options)) {}

  // A graph fits work of this shape that reads these tensors: all that are not `fixed`.
  struct Input {
    Shape shape;
    std::vector<Tensor> tensors;
  };
  // Runs the work, or launches its graph.
  void run(const Input&, const StepWork&);
  // f(x). The graph of a shape reads memory of its own, to which x is copied; the result of a
  // launch lies in the graph's, until the next launch.
  Tensor run(const Tensor& x, const std::function<Tensor(const Tensor&)>& f);
  std::size_t graphs() const;
  // The work does something else from now on: its graphs go. If it could not be captured, it stays
  // eager.
  void forget();

  static constexpr int kEagerSteps = 3;  // with one shape, before its graph is captured
  static constexpr std::size_t kMostGraphs = 8;

 private:
  struct Place {
    const void* data;
    DType type;
    bool operator==(const Place&) const = default;
  };
  struct Graph {
    std::unique_ptr<CapturedGraph> graph;
    std::vector<Tensor> inputs{};      // so that their memory is not given to others
    std::shared_ptr<Tensor> result{};  // of run(x, f): in the memory of the graph
    std::vector<i64> increments{};     // of the counters, per launch
  };
  struct Known {  // a shape
    Shape shape;
    std::vector<Place> places;  // of the tensors in the last step, then of the fixed ones
    int uses = 0;               // recent ones, at these places
    std::optional<Graph> graph;
  };
  Known& use(const Shape&, std::vector<Place>);
  void forget_old_uses();
  bool deserves_graph(const Known&);
  void capture(Known&, std::vector<Tensor> inputs, const StepWork&);
  void launch(const Graph&);

  Options options_;
  std::list<Known> known_;
  int runs_ = 0;
};

}  // namespace gossamer
