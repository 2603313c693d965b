// Exchanges over a TCP connection (a Gloo context of two): between machines, or where memory can't
// be read. Private to dist/.
#pragma once

#include <memory>

#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/net/gloo_context.h"
#include "gossamer/dist/net/payload_edge.h"

namespace gossamer::dist {

class TcpEdge final : public PayloadEdge {
 public:
  // not connected yet
  TcpEdge(const AsioLink&, int peer, const PayloadJob&);
  Arrival carry(const PayloadJob&) override;
  void abort() override { context_->abort(); }
  // Both ends call it for the same job. stop: ends the wait for the peer (followed by
  // AsioLink::interrupt()); then, or without an answer, a DistError.
  void connect(AsioLink&, const PayloadJob&, const std::atomic<bool>& stop);

 private:
  const int rank_, peer_;
  const std::uint64_t secret_;  // of the connection
  const std::shared_ptr<GlooContext> context_;
};

}  // namespace gossamer::dist
