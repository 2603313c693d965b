// The NcclPort of the real NCCL.
#pragma once

#include <memory>
#include <string>

#include "gossamer/dist/gpu/cuda_port.h"

namespace gossamer::dist {

// One for each thread that talks to NCCL. DistError if this build or this machine has no NCCL. The
// port of the device lives longer.
std::unique_ptr<NcclPort> nccl_port(CudaPort&);
std::string nccl_version();  // "2.28.9", or why there is none

}  // namespace gossamer::dist
