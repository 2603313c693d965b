// An edge by NCCL: a communicator of two, one send and one receive in one group.
#pragma once

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

class NcclChannelMaker final : public GpuChannelMaker {
 public:
  // most_ctas: multiprocessors that an exchange may take: 2 saturate a network, 4 to 8 an NVLink.
  NcclChannelMaker(int self, DevicePort&, NcclPort&, int most_ctas);
  const char* name() const override { return "nccl"; }
  ChannelBytes offer(int) override { return {}; }
  ChannelBytes answer(int peer, const ChannelBytes&) override;  // a fresh id
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

 private:
  const int self_, most_ctas_;
  DevicePort& device_;
  NcclPort& nccl_;
};

}  // namespace gossamer::dist
