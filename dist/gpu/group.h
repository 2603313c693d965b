// A group of workers whose parameters lie on GPUs: made from one of the CPU, and given to
// make_method() in its place.
// Threads: those of the group (transport.h); log is called by several.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gossamer/core/device.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// What a method moves, and so which way is open to it and behind which stream a tensor is sent:
//   gossip      one snapshot at a time with one neighbour (a2cid2, adpsgd), behind the stream of
//               exchanges: NCCL, peer copies, or over the host
//   rounds      pieces with several neighbours at once (dpsgd, sgp …), behind the stream that
//               trains: over the host
//   all_reduce  gradients of all, under backward: NCCL, or over the host
enum class GpuTraffic : std::uint8_t { gossip, rounds, all_reduce };

struct GpuOptions {
  GpuTraffic traffic = GpuTraffic::gossip;
  // nccl; peercopy (one machine); host; auto: peer copies where the memory can be reached, else
  // NCCL; for all_reduce NCCL if all workers have it, else the host; for rounds the host
  std::string transport = "auto";
  // what NCCL_HOSTID is set to: with another one for each, workers may share a GPU
  std::string nccl_hostid{};
  // multiprocessors that NCCL may take (a power of two); 0: as many as it likes. Between machines
  // at most 2
  int nccl_ctas = 4;
  // The workers encrypt what goes between machines. NCCL does not, so it is not used: exchanges and
  // sums go over the host.
  bool encrypted = false;
  // all_reduce: the bits of a sum depend on its numbers and on the order of the workers only. So it
  // goes over the host, for NCCL's order depends on the machines and on its version
  bool deterministic = false;
  double collective_timeout_s = 60;  // of a sum: without a death this long, it has failed
  // what is used, and why not what was hoped for; from several threads
  std::function<void(const std::string&)> log{};
};

// The same workers, with a payload, collectives and sums for tensors on `device`; those of the CPU
// pass on to `host`, which must outlive it. All workers call it together, with the same options.
// The calling thread's current stream is the one that trains. ConfigError for a name that is not
// known, or does not go with the traffic; DistError if what was asked for is not there.
std::unique_ptr<Group> gpu_group(Group& host, Device device, const GpuOptions&);
// ConfigError for a `transport` that is not known, or does not go with the traffic. Asks no device.
void check_gpu_options(const GpuOptions&);

}  // namespace gossamer::dist
