// A cuDNN operation graph as it grows: tensors, and operations between them that cuDNN may run as
// one kernel. Internal to core/cuda/cudnn_*.cpp.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/cuda/cudnn_graph.h"

namespace gossamer::cudnn {

// Four dimensions with any strides.
struct Extent {
  std::int64_t sizes[4], strides[4];
};

class GraphBuilder {
 public:
  using Place = std::size_t;  // of a tensor among the descriptors
  static constexpr Place none = static_cast<Place>(-1);

  Place in_memory(std::int64_t id, cudnnDataType_t type, const Extent& e) {
    return tensor(id, type, e, false, false);
  }
  // sums in memory, f32, in an order of elements of cuDNN's own
  Place sums(std::int64_t id, const Extent& e) {
    return tensor(id, CUDNN_DATA_FLOAT, e, false, false, CUDNN_TENSOR_REORDERING_F16x16);
  }
  // one number, given by the host with each run
  Place number(std::int64_t id);
  Place between(const Extent& e, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(next_++, type, e, true, false);
  }

  // c = a b; sums in f32
  void product(Place a, Place b, Place c);
  void reduce(cudnnReduceTensorOp_t, Place x, Place y);
  void transpose(Place x, Place y);
  // y = mode(x, b), of those that `chosen` holds
  void each(cudnnPointwiseMode_t, Place x, Place b, Place y, Place chosen = none,
            cudnnDataType_t in = CUDNN_DATA_FLOAT, std::int64_t axis = -1);
  // a convolution or one of its gradients, by the op of the problem: x, w and y are the tensors of
  // all three
  void convolve(const ConvProblem&, Place x, Place w, Place y);

  // All descriptors; the last one is the graph.
  std::vector<Descriptor> finish(const Planner::Target&, const std::string& key);

 private:
  Place tensor(std::int64_t id, cudnnDataType_t, const Extent&, bool is_virtual, bool by_value,
               cudnnBackendTensorReordering_t order = CUDNN_TENSOR_REORDERING_NONE);
  void add(Descriptor step, const char* what);
  std::vector<Descriptor> all_, steps_;
  std::int64_t next_ = 1000;
};

}  // namespace gossamer::cudnn
