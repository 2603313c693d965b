// A Gloo context: Gloo's algorithms, over connections that we make (mesh.h), each when it is first
// used: an algorithm needs few of all that are possible. Private to dist/.
//
// Gloo's own TCP transport ends the process where a connection is reset before its thread has taken
// it, or where a message is longer than what it is for; and it does not wake who waits for a worker
// that died. Here each of these ends a wait by an exception.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gloo/context.h>

#include "gossamer/dist/net/stop_signal.h"
#include "gossamer/dist/net/stream.h"
#include "gossamer/dist/net/tls.h"

namespace gossamer::dist {

// One thread at a time, but for abort().
class GlooContext final : public gloo::Context {
 public:
  // The member at `place` of `size`. address: numeric, of ours. limit: for waits that name none.
  GlooContext(const std::string& address, int place, int size, std::chrono::milliseconds limit,
              MemberKeys keys = {});
  ~GlooContext() override;

  const std::vector<char>& address() const;  // for the others' connect()
  // The member at `place`, and our side of the connection to it. DistError: it is no address.
  void expect(int place, const std::vector<char>& address, Side);
  // The same, and connects: both sides call it at the same time; DistError, DistTimeout.
  void connect(int place, const std::vector<char>& address, Side, StopSignal::TimePoint until);
  void abort();  // any thread: all waits, now and later, throw

 private:
  class Buffer;
  class Transport;
  std::shared_ptr<Transport> transport_;
};

}  // namespace gossamer::dist
