// Problems as cuDNN operation graphs, and what a plan keeps of them. Internal to
// core/cuda/cudnn_*.cpp.
#pragma once

#include "gossamer/core/cuda/cudnn_api.h"
#include "gossamer/core/cuda/cudnn_attention.h"
#include "gossamer/core/cuda/cudnn_plan.h"

namespace gossamer::cudnn {

// Tensors of a convolution by their unique ids: x and dx, w and dw, y and dy share one each. Those
// of its tail: bias [k] and what is added, like y.
inline constexpr std::int64_t kX = 'x', kW = 'w', kY = 'y', kBias = 'b', kAdd = 'a';
// Those of attention. kThrough and kDQSums are scratch memory of backward: f32 [B, H, Tq] and
// [B, H, Tq, D]. The last three are numbers of the host: 1/sqrt(D), minus infinity, 1.
enum AttentionTensor : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLogSums,
  kDQ,
  kDK,
  kDV,
  kDOut,
  kThrough,
  kDQSums,
  kScale,
  kMinusInfinity,
  kOne
};

// DeviceError for types that cuDNN does not take here
cudnnDataType_t vendor_type(DType);

// What a plan is made for: a handle, or properties of a device that need not be there.
struct Planner::Target {
  cudnnHandle_t handle = nullptr;
  Descriptor properties;
  bool deterministic = false;
};

// Keeps every descriptor alive that the plan was made from: cuDNN holds pointers only.
struct Plan::Impl {
  std::shared_ptr<const Planner::Target> target;
  std::shared_ptr<const std::vector<Descriptor>> graph;
  Descriptor config, plan;
  int engine = -1;
  std::size_t workspace = 0;
  bool tensor_cores = false, clusters = false, compiles = false, down_converts = false,
       reduced_sums = false, any_order = false;
  std::string knobs;
};

// tensors and steps; the last one is the graph
std::vector<Descriptor> conv_graph(const ConvProblem&, const Planner::Target&);
std::vector<Descriptor> attention_graph(const AttentionProblem&, const Planner::Target&);

// Enqueues one run of a plan with the memory of its tensors; those without memory are left out.
struct Operand {
  std::int64_t id;
  void* data;
};
void execute(cudnnHandle_t, const Plan&, Device, const cuda::Stream&,
             std::initializer_list<Operand>);
void execute(cudnnHandle_t, const Plan&, Device, const cuda::Stream&, const ConvMemory&);

}  // namespace gossamer::cudnn
