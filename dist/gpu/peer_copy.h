// An edge between two processes of one machine: each maps the other's snapshot and copies it with a
// copy engine. No multiprocessor is taken, and nothing on the device waits for the peer.
//
// A risk: CUDA does not say what becomes of a mapping (cudaIpcOpenMemHandle) whose owner has died,
// or of a copy from it that is under way. Such a copy may fail with an error of the device, which
// ends this worker too; dist.restart starts it again. Edges by NCCL do not have this risk.
#pragma once

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

// How a snapshot is found from another process.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual ChannelBytes share(const Sent&) = 0;  // of our snapshot buffer
  // The peer's, of as many bytes, mapped for as long as the pointer lives. DistError if that is not
  // possible.
  virtual std::shared_ptr<const void> open(const ChannelBytes& shared, std::size_t bytes) = 0;
};

class PeerCopyMaker final : public GpuChannelMaker {
 public:
  PeerCopyMaker(DevicePort& device, PeerMemory& memory) : device_(device), memory_(memory) {}
  const char* name() const override { return "peercopy"; }
  ChannelBytes offer(int, const Sent& send) override { return memory_.share(send); }
  ChannelBytes answer(int, const Sent& send, const ChannelBytes&) override {
    return memory_.share(send);
  }
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const Sent&, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

 private:
  DevicePort& device_;
  PeerMemory& memory_;
};

}  // namespace gossamer::dist
