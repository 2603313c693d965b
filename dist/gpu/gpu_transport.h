// Exchanges of a real GPU: puts together streams, buffers, channels, thread and letters.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/gossip/carrier.h"

namespace gossamer::dist {

struct GpuTransportOptions {
  std::string transport = "auto";            // auto: the quicker of the two, measured edge by edge; nccl; peercopy (one machine); host
  std::string wire = "f32";                  // or f16: half the bytes; the mean is kept all the same
  int ctas = 4;                              // multiprocessors that an NCCL exchange may take (a power of two)
  std::function<void(const std::string&)> log{};       // what was chosen, with numbers; from the thread of the exchanges
};
// For MethodOptions::carrier. ConfigError for a name that is not known; DistError if what was asked for is not there. All workers must have
// the same options. The calling thread's current stream is the one that trains.
std::function<std::unique_ptr<Carrier>(Group&, i64 size)> gpu_carriers(Device, const GpuTransportOptions&);
void check_gpu_transport(const GpuTransportOptions&);      // the names only

}  // namespace gossamer::dist
