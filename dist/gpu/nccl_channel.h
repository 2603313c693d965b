// An edge by NCCL: a communicator of two, one send and one receive in one group.
#pragma once

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

class NcclChannelMaker final : public GpuChannelMaker {
 public:
  // most_ctas: multiprocessors that an exchange may take; 0: as many as NCCL likes. 4 to 8 saturate
  // an NVLink, 2 a network: between two machines at most 2 are taken. machine: a number of this one
  // (machine_id()); 0: not known, so the same as none.
  NcclChannelMaker(int self, DevicePort&, NcclPort&, int most_ctas, std::uint64_t machine);
  const char* name() const override { return "nccl"; }
  ChannelBytes offer(int, const Sent&) override;  // the machine
  // the machine, and a fresh id
  ChannelBytes answer(int peer, const Sent&, const ChannelBytes&) override;
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const Sent&, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

 private:
  const int self_, most_ctas_;
  const std::uint64_t machine_;
  DevicePort& device_;
  NcclPort& nccl_;
};

}  // namespace gossamer::dist
