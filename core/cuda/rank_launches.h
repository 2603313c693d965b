// Which of several ways to compute the same thing is the fastest on the GPU at hand.
#pragma once

#include <functional>
#include <vector>

#include "gossamer/core/cuda/rank_by_time.h"
#include "gossamer/core/device.h"

namespace gossamer {

// Times launch(0) … launch(n - 1) on the current stream and orders them as rank_by_time(). Every
// launch that is timed finds the L2 cache full of something else, and a GPU whose clocks have
// risen. The host waits, so never while a graph is captured. A launch that throws DeviceError is
// left out; if all do, the first one's error is thrown.
std::vector<Ranked> rank_launches(Device, std::size_t n,
                                  const std::function<void(std::size_t)>& launch);

}  // namespace gossamer
