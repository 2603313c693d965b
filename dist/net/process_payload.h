// Payload between processes: an edge to each peer, opened in the first exchange with it. Within a
// machine the processes read each other's memory (memory_edge.h), else a TCP connection carries the
// tensors (tcp_edge.h). Private to dist/.
#pragma once

#include <memory>

#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class ProcessPayload final : public Payload {
 public:
  // read_memory: false: TCP everywhere
  ProcessPayload(AsioLink&, bool read_memory);
  ~ProcessPayload() override;
  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override;
  void abort(int peer, std::uint64_t from_session = 0) override;
  void drain(Seconds limit) override;
  // it is dead: as abort(), and nothing of the edge is used again when it comes back
  void forget(int peer);
  // From the control link: the peer's exchange of this session failed, and the edge opened in
  // session `opened` is closed.
  void peer_failed(int peer, std::uint64_t session, std::uint64_t opened);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
