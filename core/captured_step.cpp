// See captured_step.h.
#include "gossamer/core/captured_step.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"

namespace gossamer {
namespace {

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(Device device, const std::shared_ptr<cuda::GraphMemory>& memory, const StepWork& work)
      : device_(device) {
    // Graphs have their own memory, so what the eager steps used is given back first.
    release_cached(device);
    graph_ = cuda::Graph::capture(device, work, memory);
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
  // The graphs keep the memory, so that it goes with the last of them.
  struct Shared {
    std::weak_ptr<cuda::GraphMemory> memory;
  };
  return [device, shared = std::make_shared<Shared>()](
             const StepWork& work) -> std::unique_ptr<CapturedGraph> {
    std::shared_ptr<cuda::GraphMemory> memory = shared->memory.lock();
    if (!memory) shared->memory = memory = cuda::graph_memory(device);
    return std::make_unique<CudaGraph>(device, memory, work);
  };
}

GraphCapture with_ready_gradients(FlatParams& params, GraphCapture capture) {
  return [&params,
          capture = std::move(capture)](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
    return std::make_unique<ReadyGraph>(params, capture, work);
  };
}

void CapturedStep::run(const Input& input, const StepWork& work) {
  if (!options_.graphs.capture) return work();
  std::vector<Place> places;
  for (const Tensor& t : input.tensors) places.push_back({t.data(), t.dtype()});
  Known& k = use(input.shape, std::move(places));
  if (!k.graph && deserves_graph(k)) capture(k, input.tensors, work);
  if (k.graph)
    launch(*k.graph);
  else
    work();
}

Tensor CapturedStep::run(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  if (!options_.graphs.capture) return f(x);
  Known& k = use(x.shape(), {{nullptr, x.dtype()}});
  if (!k.graph && deserves_graph(k)) {
    const Tensor in = Tensor::empty(x.shape(), x.dtype(), x.device());
    const auto result = std::make_shared<Tensor>();
    capture(k, {in}, [in, result, f] { *result = f(in); });
    if (k.graph) k.graph->result = result;
  }
  if (!k.graph) return f(x);
  k.graph->inputs[0].copy_from(x);
  launch(*k.graph);
  return *k.graph->result;
}

std::size_t CapturedStep::graphs() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(known_, [](const Known& k) { return k.graph.has_value(); }));
}

void CapturedStep::forget() {
  known_.clear();
  runs_ = 0;
}

// Counts a use of the shape.
CapturedStep::Known& CapturedStep::use(const Shape& shape, std::vector<Place> places) {
  constexpr int kRecent = 256;
  if (++runs_ % kRecent == 0) forget_old_uses();
  for (const Tensor& t : options_.fixed) places.push_back({t.data(), t.dtype()});
  auto found = std::ranges::find(known_, shape, &Known::shape);
  // What has moved was measured and captured elsewhere.
  if (found != known_.end() && found->places != places) {
    known_.erase(found);
    found = known_.end();
  }
  if (found == known_.end()) {
    found = known_.emplace(found);
    found->shape = shape, found->places = std::move(places);
  }
  ++found->uses;
  return *found;
}

// Halves all counts, so that shapes of long ago do not hold graphs against those of now.
void CapturedStep::forget_old_uses() {
  for (Known& k : known_) k.uses /= 2;
  std::erase_if(known_, [](const Known& k) { return k.uses == 0; });
}

// Whether it has had its eager steps, and there is room for its graph. The least used graph leaves
// only for a shape that is used twice as often: capturing costs more than an eager step, and shapes
// that are used alike must not take turns.
bool CapturedStep::deserves_graph(const Known& k) {
  if (k.uses <= kEagerSteps) return false;
  if (graphs() < kMostGraphs) return true;
  Known* least = nullptr;
  for (Known& other : known_)
    if (other.graph && (!least || other.uses < least->uses)) least = &other;
  if (k.uses <= 2 * least->uses) return false;
  least->graph.reset();
  return true;
}

void CapturedStep::capture(Known& k, std::vector<Tensor> inputs, const StepWork& work) {
  std::vector<i64> before;
  for (const Tensor& c : options_.counters) before.push_back(*c.as<i64>());
  std::unique_ptr<CapturedGraph> graph;
  std::string why;
  try {
    graph = options_.graphs.capture(work);
  } catch (const DeviceError& e) {
    why = e.what();
  }
  // Capturing computed nothing, so the counters go back; the difference is what a launch adds.
  std::vector<i64> increments;
  for (std::size_t i = 0; i < before.size(); ++i) {
    i64& now = *options_.counters[i].as<i64>();
    increments.push_back(now - before[i]);
    now = before[i];
  }
  if (graph) {
    k.graph = {std::move(graph), std::move(inputs), nullptr, std::move(increments)};
    return;
  }
  options_.graphs.capture = nullptr;
  for (Known& other : known_) other.graph.reset();
  check<DeviceError>(options_.graphs.on_failure != nullptr,
                     "work cannot be captured as a graph: ", why);
  options_.graphs.on_failure(why);
}

void CapturedStep::launch(const Graph& g) {
  for (std::size_t i = 0; i < g.increments.size(); ++i)
    *options_.counters[i].as<i64>() += g.increments[i];
  g.graph->launch();
}

}  // namespace gossamer
