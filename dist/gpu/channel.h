// One way to move bytes between the GPUs of two workers: NCCL (nccl_channel.h), or copies by the
// copy engines (peer_copy.h). edge.h decides when; a channel never asks what for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/dist/gpu/port.h"

namespace gossamer::dist {

using ChannelBytes = std::vector<char>;

// Of one edge, from its opening to its end. Never waits. Calls come from one thread.
class GpuChannel {
 public:
  virtual ~GpuChannel() = default;  // after gone() only
  virtual Stage opened() = 0;
  // Both sides are ready. Sends `bytes` of `send` and receives as many, on the exchange stream.
  virtual void launch(const void* send, void* receive, std::size_t bytes) = 0;
  // of the last launch, on this side: the peer may need more time
  virtual Stage moved() = 0;
  // It can send what lies there. Else a new one is opened for the next exchange.
  virtual bool sends_from(const void*) const { return true; }
  // No more is moved. Until gone(), the device may still write to the buffers of a launch.
  virtual void abort() = 0;
  virtual bool gone() = 0;
  virtual std::string why() const = 0;  // after failed
};

// Device memory that is sent, exchange after exchange.
struct Sent {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

class GpuChannelMaker {
 public:
  virtual ~GpuChannelMaker() = default;
  virtual const char* name() const = 0;  // "nccl", "peercopy"
  // What the other side must know before open(): the higher rank's offer, and the lower rank's
  // answer to it. send: what this side will send. DistError if it makes no sense.
  virtual ChannelBytes offer(int peer, const Sent& send) = 0;
  virtual ChannelBytes answer(int peer, const Sent& send, const ChannelBytes& theirs) = 0;
  // own: what offer() or answer() returned.
  virtual std::unique_ptr<GpuChannel> open(int peer, bool lower, const Sent& send,
                                           const ChannelBytes& own, const ChannelBytes& theirs) = 0;
};

}  // namespace gossamer::dist
