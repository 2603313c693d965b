// A Gloo context whose addresses we exchange ourselves, and whose waits another thread can end.
// Private to dist/.
//
// Gloo does not wake a receive that is in progress when its peer dies, nor a thread inside a
// collective when connections are closed from elsewhere. So every buffer made by this context is
// remembered, also those that Gloo's collectives make, and abort() wakes them.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/device.h>

namespace gossamer::dist {

class GlooContext final : public gloo::Context {
 public:
  // connect_limit: for one connect().
  GlooContext(const std::shared_ptr<gloo::transport::Device>&, int rank, int size,
              std::chrono::milliseconds connect_limit);
  ~GlooContext() override;

  std::vector<char> address(int peer);                       // where `peer` shall connect to
  void connect(int peer, const std::vector<char>& address);  // throws std::exception
  // any thread: all waits, now and later, throw
  void abort();

 private:
  class Watched;
  class Transport;
  std::shared_ptr<Transport> transport_;
};

// A Gloo device bound to this numeric address. Its thread starts here.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& address);

// Gloo writes to sockets without MSG_NOSIGNAL: while one of these lives, a broken pipe is an error
// on this thread, not a signal.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool pending_before_ = false;
};

}  // namespace gossamer::dist
