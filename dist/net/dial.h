// Dials a worker's door, proves the token, checks that the other side knows it too, and reads its
// first frame. Private to dist/.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "gossamer/dist/net/connection.h"

namespace gossamer::dist {

// What became of a call.
struct Answer {
  enum class Kind { unreachable, nobody_there, no_handshake, frame } kind = Kind::unreachable;
  // all but frame. nobody_there: the host lives, but no process listens at that port
  std::string error;
  std::shared_ptr<Connection> link;  // frame: its first frame and payload were read
  wire::Frame frame;
  wire::Bytes payload;
  std::uint64_t id = 0;  // the connection's name, known to both ends only
};

class Dial : public std::enable_shared_from_this<Dial> {
 public:
  using Done = std::function<void(const Answer&)>;
  // called: the worker that shall be there, or greeting::kAnyone (but not the caller itself). from:
  // the address of ours to use; unspecified: the kernel's choice. limit: for all of it. Calls
  // `done` once, or never after cancel().
  static std::shared_ptr<Dial> start(asio::io_context&, const asio::ip::tcp::endpoint& to,
                                     std::uint32_t called, const asio::ip::address& from,
                                     const Credentials&, const wire::Frame& hello,
                                     std::chrono::milliseconds limit, Done done);
  void cancel();
  bool said_hello() const { return said_hello_; }

  Dial(asio::io_context&, std::uint32_t called, const Credentials&, const wire::Frame& hello,
       Done done);

 private:
  void connect(const asio::ip::tcp::endpoint& to, const asio::ip::address& from);
  void greet();
  void say_hello();
  void check(const wire::Bytes& challenge, const wire::Bytes& own, const wire::Bytes& proof);
  bool answers(std::uint32_t rank, const wire::Bytes& challenge, const wire::Bytes& own,
               const wire::Bytes& proof) const;
  void end(Answer::Kind, const std::string& error);

  asio::steady_timer timer_;
  Connection::Socket socket_;
  const std::uint32_t called_;
  const Credentials credentials_;
  wire::Token key_{};  // of the greeting
  const wire::Frame hello_;
  Done done_;
  std::shared_ptr<Connection> link_;
  std::uint64_t id_ = 0;
  bool said_hello_ = false;
};

}  // namespace gossamer::dist
