// Trying plans on the GPU at hand. Internal to core/cuda/cudnn_*.cpp.
#pragma once

#include <chrono>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_graph.h"

namespace gossamer::cudnn {

struct Measured {
  Plan plan;
  double microseconds = 0;
  int rejected = 0;  // faster plans whose result was wrong
};
// The fastest plan whose result is right. The GPU first runs for `warm_up`, so that its clocks have
// risen; every timed run finds its operands outside of the L2 cache. DeviceError when no plan is
// right.
Measured measure(cudnnHandle_t handle, const std::vector<Plan>& plans, const ConvProblem& problem,
                 Device device, std::chrono::milliseconds warm_up);
// The first plan whose result is right, which is the same one in every run: nothing is timed.
// DeviceError when none is.
Measured first_right(cudnnHandle_t handle, const std::vector<Plan>& plans,
                     const ConvProblem& problem, Device device);

}  // namespace gossamer::cudnn
