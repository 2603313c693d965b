// An edge between two processes of one machine: each maps the other's snapshot and copies it with a
// copy engine. No multiprocessor is taken, nothing on the device waits for the peer, and if the
// peer dies its mapping stays valid.
#pragma once

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

// How a snapshot is found from another process.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual ChannelBytes share() = 0;  // of our snapshot buffer
  // The peer's, mapped for as long as the pointer lives. DistError if it can't be.
  virtual std::shared_ptr<const void> open(const ChannelBytes& shared) = 0;
};

class PeerCopyMaker final : public GpuChannelMaker {
 public:
  PeerCopyMaker(DevicePort& device, PeerMemory& memory) : device_(device), memory_(memory) {}
  const char* name() const override { return "peercopy"; }
  ChannelBytes offer(int) override { return memory_.share(); }
  ChannelBytes answer(int, const ChannelBytes&) override { return memory_.share(); }
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

 private:
  DevicePort& device_;
  PeerMemory& memory_;
};

}  // namespace gossamer::dist
