// A convolution as a cuDNN operation graph, and what a plan keeps of it. Internal to
// core/cuda/cudnn_*.cpp.
#pragma once

#include "gossamer/core/cuda/cudnn_api.h"
#include "gossamer/core/cuda/cudnn_plan.h"

namespace gossamer::cudnn {

// Tensors of a problem by their unique ids: x and dx, w and dw, y and dy share one each.
inline constexpr std::int64_t kX = 'x', kW = 'w', kY = 'y';

// What a plan is made for: a handle, or properties of a device that need not be there.
struct Planner::Target {
  cudnnHandle_t handle = nullptr;
  Descriptor properties;
};

// Keeps every descriptor alive that the plan was made from: cuDNN holds pointers only.
struct ConvPlan::Impl {
  std::shared_ptr<const Planner::Target> target;
  std::shared_ptr<const std::vector<Descriptor>> graph;
  Descriptor config, plan;
  int engine = -1;
  std::size_t workspace = 0;
  bool tensor_cores = false, clusters = false, compiles = false, down_converts = false,
       reduced_sums = false;
  std::string knobs;
};

// tensors, convolution, operation, operation graph: the last one is the graph.
std::vector<Descriptor> conv_graph(const ConvProblem&, const Planner::Target&);

}  // namespace gossamer::cudnn
