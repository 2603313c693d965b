// Exchanges and sums of a real GPU: puts together streams, buffers, channels, thread and letters.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/gossip/carrier.h"
#include "gossamer/dist/rounds/reducer.h"
#include "gossamer/dist/rounds/round_carrier.h"

namespace gossamer::dist {

struct GpuTransportOptions {
  // auto: the quicker of the two, measured edge by edge; nccl; peercopy (one machine); host
  std::string transport = "auto";
  // or f16: half the bytes; the mean is kept all the same
  std::string wire = "f32";
  // what NCCL_HOSTID is set to: with another one for each, workers may share a GPU
  std::string nccl_hostid{};
  // multiprocessors that NCCL may take (a power of two); 0: as many as it likes
  int ctas = 4;
  double collective_timeout_s = 60;  // of a sum: without a death this long, it has failed
  // what was chosen, with numbers; from the thread of the exchanges
  std::function<void(const std::string&)> log{};
};
// For MethodOptions::carrier. ConfigError for a name that is not known; DistError if what was asked
// for is not there. All workers must have the same options. The calling thread's current stream is
// the one that trains.
std::function<std::unique_ptr<Carrier>(Group&, i64 size)> gpu_carriers(Device,
                                                                       const GpuTransportOptions&);
// For MethodOptions::reducer; errors as above. auto: NCCL if all workers have it, else over the
// host, and the log says why. ConfigError for peercopy and f16: gradients are summed by all at
// once, in f32.
std::function<std::unique_ptr<Reducer>(Group&, std::size_t buckets)> gpu_reducers(
    Device, const GpuTransportOptions&);
// For MethodOptions::round_carrier: over the host, whatever the machine has, and the log says so.
// ConfigError for nccl, peercopy and f16.
std::function<std::unique_ptr<RoundCarrier>(Group&, int slots)> gpu_round_carriers(
    Device, const GpuTransportOptions&);
void check_gpu_transport(const GpuTransportOptions&);  // the names only

}  // namespace gossamer::dist
