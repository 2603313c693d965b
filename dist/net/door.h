// The listening socket of a worker, open as long as it runs: lets in callers that prove to know the
// token in time, turns away and counts all others. Strangers cost little: few at a time, each for a
// short time, and nothing of theirs is parsed. Private to dist/.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "gossamer/dist/net/connection.h"

namespace gossamer::dist {

class Door : public std::enable_shared_from_this<Door> {
 public:
  // id: the connection's name, known to both ends only.
  using Arrived = std::function<void(const wire::Frame& hello, const std::shared_ptr<Connection>&,
                                     std::uint64_t id)>;

  // rank: of the worker whose door it is. on_refused: a sentence for a log, at most one a second;
  // may be empty.
  Door(asio::io_context&, int rank, const Credentials&,
       std::function<void(const std::string&)> on_refused);
  // DistError when the address cannot be had. listener: a socket that listens there already; it is
  // taken over.
  void open(const asio::ip::tcp::endpoint&, int listener = -1);
  void receive(Arrived arrived) { arrived_ = std::move(arrived); }  // called from now on
  void close();
  int refused() const { return refused_; }                           // any thread
  const std::string& last_refused() const { return last_refused_; }  // its address
  std::uint16_t port() const { return port_; }

 private:
  struct Guest {
    std::shared_ptr<Connection> link;
    std::string from;
    wire::Token key{};  // of its greeting
    bool gone = false;
  };
  void accept();
  void greet(Connection::Socket);
  void challenge(const std::shared_ptr<Guest>&, std::shared_ptr<asio::steady_timer>);
  void judge(const std::shared_ptr<Guest>&, const wire::Bytes& challenge,
             const wire::Bytes& answer);
  void refuse(Guest&, const std::string& why);
  void forget(const std::shared_ptr<Guest>&);
  std::shared_ptr<Guest> superfluous() const;  // of several; the one to go for another

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const std::uint32_t rank_;
  const Credentials credentials_;
  const std::function<void(const std::string&)> on_refused_;
  Arrived arrived_;
  std::deque<std::shared_ptr<Guest>> greeting_;  // have not shown the token yet, the oldest first
  std::uint16_t port_ = 0;
  std::atomic<int> refused_{0};
  std::string last_refused_;
  int reported_ = 0, accepted_in_a_row_ = 0;
  std::chrono::steady_clock::time_point last_report_{};
  bool closed_ = false;
};

}  // namespace gossamer::dist
