// What exchanges and sums need of NCCL, and no more. Implemented by the real NCCL (nccl_port.h) and
// by fakes in the tests.
#pragma once

#include <array>
#include <string>

#include "gossamer/dist/device_port.h"

namespace gossamer::dist {

enum class Stage : std::uint8_t { pending, done, failed };

// NCCL as far as it is used. Communicators are non-blocking: init() and group_end() return at once,
// and status() says when what they began has come about. Only then may an event be recorded behind
// a launch: before, its kernel is not in the stream yet. All calls of one worker come from one
// thread at a time. What NCCL refuses at once is a DistError, of group_end() for the calls of a
// group; what fails later is in status().
class NcclPort {
 public:
  using Comm = std::uint64_t;  // 0: none
  using Id = std::array<char, 128>;
  struct Status {
    Stage stage = Stage::pending;
    std::string why;  // failed
  };
  struct Options {
    // multiprocessors that one communicator may take; 0: NCCL's choice
    int most_ctas = 0;
    std::string name;  // for NCCL's own messages: "edge 2-3"
  };
  virtual ~NcclPort() = default;
  // Starts a thread of NCCL that waits for the others: only when they are known to be about to call
  // init().
  virtual Id unique_id() = 0;
  virtual Comm init(const Id&, int ranks, int rank, const Options&) = 0;
  // of init(), or of the last group; and of the transport since: a peer that is lost
  virtual Status status(Comm) = 0;
  virtual void group_start() = 0;
  virtual void group_end() = 0;
  // On the exchange stream; inside a group: a send and a receive, or one sum. Sums of a
  // communicator are enqueued by all its ranks in one order, the next when status() says that the
  // last is in the stream.
  virtual void send(Comm, const void*, std::size_t bytes, int to) = 0;
  virtual void receive(Comm, void*, std::size_t bytes, int from) = 0;
  virtual void all_reduce_sum(Comm, const float* from, float* to, std::size_t count) = 0;
  // Ends whatever runs: its kernels leave, and what they received is garbage. May take long; gone()
  // says when all is over, and until then the device may still touch the buffers. The communicator
  // is not to be used any more.
  virtual void abort(Comm) = 0;
  // An orderly end, agreed with all its ranks. gone() as above.
  virtual void finalize(Comm) = 0;
  virtual bool gone(Comm) = 0;
};

}  // namespace gossamer::dist
