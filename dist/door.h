// The listening socket while workers meet: lets in who shows the token in time, turns away and counts all others. Private to
// dist/.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <set>

#include "gossamer/dist/connection.h"

namespace gossamer::dist {

class Door : public std::enable_shared_from_this<Door> {
 public:
  using Arrived = std::function<void(const wire::Frame& hello, const std::shared_ptr<Connection>&)>;

  Door(asio::io_context&, const wire::Token&);
  // DistError when the address cannot be had. listener: a socket that listens there already; it is taken over.
  void open(const asio::ip::tcp::endpoint&, Arrived, int listener = -1);
  void close();
  int refused() const { return refused_; }
  std::uint16_t port() const { return port_; }

 private:
  void accept();
  void greet(Connection::Socket);

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const wire::Token token_;
  Arrived arrived_;
  std::set<std::shared_ptr<Connection>> greeting_;  // have not shown the token yet
  std::uint16_t port_ = 0;
  int refused_ = 0;
  bool closed_ = false;
};

}  // namespace gossamer::dist
