// One TCP connection that carries control frames, encrypted if the job encrypts. All calls on the
// thread that runs the io_context. Private to dist/.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gossamer/dist/net/tls.h"
#include "gossamer/dist/net/wire.h"

namespace gossamer::dist {

// What a worker proves: the job's token, as its key (greeting.h). tls: how it encrypts; null: not.
// launcher: whose grant each worker of a rank below `started` has to show, those that the launcher
// started; none: the launcher gives none.
class Connection;
struct Credentials {
  wire::Token token{};
  std::shared_ptr<const Tls> tls{};
  std::optional<PublicKey> launcher{};
  std::uint32_t started = wire::kMostRanks;
  // Whether the other side may be worker `rank`: the launcher says so, if it says anything.
  bool may_be(std::uint32_t rank, const Connection&) const;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = asio::ip::tcp::socket;
  // error: empty, or why there is no frame and the connection is of no more use.
  using Done =
      std::function<void(const std::string& error, const wire::Frame&, const wire::Bytes& payload)>;

  static constexpr const char* kClosed = "connection closed";  // an error of these

  // tls: null does not encrypt.
  explicit Connection(Socket, const Tls* tls = nullptr);
  ~Connection();
  // Before all else: agrees on keys with the other side, if this connection encrypts. error: empty,
  // or why it failed.
  void handshake(Side, std::function<void(const std::string& error)>);
  // After it. All zero without encryption.
  const PublicKey& peer() const { return peer_; }
  const std::optional<Grant>& grant() const { return grant_; }  // of anybody
  const Code& binding() const { return binding_; }              // see tls.h
  void read(Done);                                              // one frame
  // Greetings: so many bytes of any kind. On an error, those that came.
  void read_bytes(std::size_t, std::function<void(const std::string& error, const wire::Bytes&)>);
  void write_bytes(wire::Bytes);
  // Never blocks. A peer that does not read while 1 MB waits for it counts as gone: false.
  bool write(const wire::Frame&, std::span<const std::uint8_t> payload = {});
  void close();   // at once
  void finish();  // no more writes: closes the sending half when all is written; reading goes on
  Socket& socket() { return socket_; }
  bool open() const { return socket_.is_open(); }

 private:
  bool enqueue(wire::Bytes);
  void write_next();
  void read_payload(Done);
  template <class Buffer, class Handler>
  void receive(const Buffer&, Handler);  // all of it

  Socket socket_;
  struct Encryption;
  std::unique_ptr<Encryption> tls_;  // null: none
  PublicKey peer_{};
  std::optional<Grant> grant_;
  Code binding_{};
  std::array<std::uint8_t, wire::kFrameBytes> header_{};
  wire::Frame frame_;
  wire::Bytes payload_;
  std::deque<wire::Bytes> outgoing_;  // the first is under way
  std::size_t unsent_ = 0;
  bool finishing_ = false;
};

}  // namespace gossamer::dist
