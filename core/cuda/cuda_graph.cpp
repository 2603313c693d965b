// CUDA graphs: capture on a stream of their own, with memory that eager work does not use.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/cuda/cuda_memory.h"
#include "gossamer/core/error.h"

namespace gossamer::cuda {

// The pool hands memory out by stream, so graphs that share it are captured on one.
struct GraphMemory {
  Stream stream;
  std::shared_ptr<CachingPool> pool;
};
std::shared_ptr<GraphMemory> graph_memory(Device device) {
  return std::make_shared<GraphMemory>(GraphMemory{Stream(device), make_pool(device)});
}

struct Graph::Impl {
  Device device;
  std::shared_ptr<GraphMemory> memory;
  std::size_t nodes = 0;
  cudaGraphExec_t executable = nullptr;
  ~Impl() {
    if (executable) cudaGraphExecDestroy(executable);  // running launches keep what they need
  }
};

Graph Graph::capture(Device device, FunctionRef<void()> work, std::shared_ptr<GraphMemory> memory) {
  const UseDevice use(device);
  if (!memory) memory = graph_memory(device);
  const Stream& stream = memory->stream;
  const auto raw = static_cast<cudaStream_t>(stream.handle());
  Graph graph;
  graph.impl_ = std::make_shared<Impl>();
  graph.impl_->device = device;
  graph.impl_->memory = memory;
  cudaGraph_t captured = nullptr;
  {
    const UseStream on(stream);
    const UsePool from(memory->pool);
    // Relaxed: the pool may ask the driver for memory, and other threads go on with what they do.
    check_call(cudaStreamBeginCapture(raw, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture",
               device);
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(raw, &captured);
      if (captured) cudaGraphDestroy(captured);
      cudaGetLastError();
      throw;
    }
    check_call(cudaStreamEndCapture(raw, &captured), "cudaStreamEndCapture", device);
  }
  const cudaError_t counted = cudaGraphGetNodes(captured, nullptr, &graph.impl_->nodes);
  const cudaError_t made = cudaGraphInstantiate(&graph.impl_->executable, captured, 0);
  cudaGraphDestroy(captured);
  check_call(counted, "cudaGraphGetNodes", device);
  check_call(made, "cudaGraphInstantiate", device);
  return graph;
}

void Graph::launch(const Stream& stream) const {
  check<DeviceError>(defined(), "graph: launched before it was captured");
  const UseDevice use(impl_->device);
  check_call(cudaGraphLaunch(impl_->executable, static_cast<cudaStream_t>(stream.handle())),
             "cudaGraphLaunch", impl_->device);
}

std::size_t Graph::nodes() const { return impl_ ? impl_->nodes : 0; }

}  // namespace gossamer::cuda
#endif
