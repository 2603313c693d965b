// Which channel an edge uses: a peer copy where the peer's memory can be reached, else NCCL. A copy
// engine moves what an NVLink or PCIe can carry and takes no multiprocessor; NCCL, held to a few of
// those, is not quicker by as much as they are worth to the computation.
#pragma once

#include <functional>
#include <set>

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

// The higher rank offers its memory, if it has any to offer. The lower one answers with its own, or
// with what NCCL needs. An edge whose mapping failed on either side uses NCCL from then on.
class BestChannel final : public GpuChannelMaker {
 public:
  struct Parts {
    GpuChannelMaker* copies = nullptr;  // one of both may be missing
    GpuChannelMaker* nccl = nullptr;
    // whether the peer, given its offer for copies, may be reached by them
    std::function<bool(const ChannelBytes&)> near{};
    std::function<void(const std::string&)> log{};  // one line for each channel
  };
  BestChannel(int self, Parts);  // DistError if both are missing
  const char* name() const override { return "auto"; }
  ChannelBytes offer(int peer, const Sent&) override;
  ChannelBytes answer(int peer, const Sent&, const ChannelBytes& theirs) override;
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const Sent&, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

 private:
  bool copies(int peer) const { return parts_.copies != nullptr && !unreachable_.contains(peer); }

  const int self_;
  const Parts parts_;
  std::set<int> unreachable_;  // by copies
};

}  // namespace gossamer::dist
