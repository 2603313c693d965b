// The way between two GPUs that always works: snapshot -> pinned memory -> Payload (Gloo) -> pinned
// memory -> GPU.
#pragma once

#include "gossamer/dist/gossip/carrier.h"
#include "gossamer/dist/gpu/port.h"

namespace gossamer::dist {

class HostStaging {
 public:
  HostStaging(Group&, DevicePort&, Tensor own, Tensor theirs);
  // taken: the snapshot is in `own`. Waits for it and for its copy, on the host: up to a step of
  // the training, which goes on.
  void start(int peer, std::uint64_t session, DevicePort::Event taken, const Progress& own,
             Seconds limit);
  void abort(int peer) { group_.payload().abort(peer); }
  void settle(Seconds limit) { group_.payload().drain(limit); }
  Progress land(const Event&);  // enqueues the copy of what came to `theirs`

 private:
  Group& group_;
  DevicePort& port_;
  Tensor own_, theirs_;
  std::shared_ptr<Block> send_, receive_;  // pinned: the bytes of a snapshot
  const DevicePort::Event copied_;
};

}  // namespace gossamer::dist
