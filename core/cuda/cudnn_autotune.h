// Measuring plans. Internal to core/cuda/cudnn_*.cpp.
#pragma once

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_graph.h"

namespace gossamer::cudnn {

// Enqueues one run of a plan.
void execute(cudnnHandle_t handle, const ConvPlan& plan, Device device, const cuda::Stream& stream,
             void* x, void* w, void* y);

struct Measured {
  ConvPlan plan;
  double microseconds = 0;
  int rejected = 0;  // faster ones whose result was wrong
};
// The fastest plan whose result is right. Every plan runs on buffers that the last runs have driven
// out of the L2 cache; its time is the median of three. DeviceError when no plan is right.
Measured measure(cudnnHandle_t handle, const std::vector<ConvPlan>& plans,
                 const ConvProblem& problem, Device device);

// Which of `times` to try first, second, …: by time; a place whose time is 0 did not run and is
// left out.
std::vector<std::size_t> by_time(const std::vector<double>& times);
double median_of_3(double a, double b, double c);

}  // namespace gossamer::cudnn
