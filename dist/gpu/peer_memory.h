// Device memory that another process of this machine copies from: CUDA's handles of whole
// allocations, and where in them a buffer lies.
#pragma once

#include "gossamer/core/device.h"
#include "gossamer/dist/gpu/peer_copy.h"

namespace gossamer::dist {

class CudaPeerMemory final : public PeerMemory {
 public:
  explicit CudaPeerMemory(Device device) : device_(device) {}
  ChannelBytes share(const Sent&) override;
  std::shared_ptr<const void> open(const ChannelBytes& shared, std::size_t bytes) override;
  // on this machine, as far as that can be told beforehand
  static bool is_near(const ChannelBytes& shared);

 private:
  const Device device_;
};

// the same in all processes of one machine, until it is started again; 0: not known
std::uint64_t machine_id();

}  // namespace gossamer::dist
