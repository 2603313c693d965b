// Exchanges within one machine: each process reads the other's tensor out of its memory
// (process_vm_readv), one copy and no connection. Private to dist/.
//
// Where it is possible: both processes belong to one user, see each other's process numbers (one
// container), and neither Yama's ptrace_scope nor a seccomp filter forbids it. Both sides try it
// before the first exchange, so a machine where it is not possible needs no setting.
//
// Nothing is shared that could be left behind: a process that is killed takes its memory with it,
// and a read of it fails.
#pragma once

#include <memory>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/net/payload_edge.h"

namespace gossamer::dist {

class MemoryEdge final : public PayloadEdge {
 public:
  // The peer lives, but this memory can't be read: a device's, perhaps. Its next edge shall be
  // another one.
  struct Unreadable : DistError {
    using DistError::DistError;
  };
  // Both ends call it for the same job. Null on both if one of them can't read the other, or does
  // not want to. stop: ends the wait (followed by AsioLink::interrupt()). DistError: no answer.
  static std::shared_ptr<MemoryEdge> open(AsioLink&, int peer, bool wanted, const PayloadJob&,
                                          const std::atomic<bool>& stop);
  Arrival carry(const PayloadJob&) override;
  void abort() override;

 private:
  MemoryEdge(AsioLink&, int peer);
  void read(void* to, std::uint64_t from, std::size_t bytes) const;
  bool can_read();
  double copy(const PayloadJob&, std::uint64_t from) const;
  std::vector<char> wait_for(const PayloadJob&, std::uint64_t key);

  AsioLink& link_;
  const int peer_;
  const std::uint64_t secret_;   // of the connection
  int process_ = 0;              // the peer's
  std::uint64_t peer_word_ = 0;  // where the peer's word_ is
  std::atomic<bool> stop_{false};
  // What the peer reads after it has read our tensor: the name of the session in which the tensor
  // stood still. An exchange that is given up here clears it before the tensor may change, so a
  // peer that still reads then finds out.
  std::atomic<std::uint64_t> word_;
};

}  // namespace gossamer::dist
