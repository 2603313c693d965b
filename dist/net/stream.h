// A connected TCP socket that carries tensors, encrypted if the job encrypts. Nothing waits here:
// what cannot go on now says so. One thread at a time. Private to dist/.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <span>

#include <sys/uio.h>

#include "gossamer/dist/net/tls.h"

namespace gossamer::dist {

// TLS 1.3 allows 2^24.5 full records under one key (RFC 8446, 5.5): 370 GB.
constexpr std::size_t kBytesOfAKey = std::size_t{1} << 36;

class Stream {
 public:
  using Socket = asio::ip::tcp::socket;

  // Takes a socket that does not block. tls: null does not encrypt. bytes_of_a_key: then this side
  // sends under a new one.
  Stream(Socket, Side, const Tls* tls, std::size_t bytes_of_a_key = kBytesOfAKey);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // All of these throw a DistError when the connection is of no more use: it was closed, or a byte
  // of it was changed on its way.

  // Before all else; true: it is over, and peer() is known. No need to ask without encryption.
  bool shake_hands();
  const PublicKey& peer() const { return peer_; }  // all zero without encryption
  // How many bytes moved; 0: none now.
  std::size_t read(char* to, std::size_t bytes);
  std::size_t write(std::span<const iovec>);
  bool flush();  // whether the kernel has all that was written

  // poll(): until then nothing goes on with the handshake.
  short events() const;
  int descriptor() { return socket_.native_handle(); }

 private:
  struct Encryption;
  Socket socket_;
  std::unique_ptr<Encryption> tls_;  // null: none
  PublicKey peer_{};
};

}  // namespace gossamer::dist
