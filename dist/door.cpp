// Accepts connections and waits for their first frame.
#include "gossamer/dist/door.h"

#include <chrono>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kMaxGreeting = 64;  // unknown clients at a time
constexpr std::chrono::seconds kGreetingTime(5);

}  // namespace

Door::Door(asio::io_context& io, const wire::Token& token) : io_(io), acceptor_(io), pause_(io), token_(token) {}

void Door::open(const asio::ip::tcp::endpoint& where, Arrived arrived, int listener) {
  arrived_ = std::move(arrived);
  asio::error_code error;
  if (listener >= 0) {
    acceptor_.assign(where.protocol(), listener, error);
  } else {
    acceptor_.open(where.protocol(), error);
    if (!error) acceptor_.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    fail<DistError>("cannot listen on ", where.address().to_string(), ":", where.port(), ": ", error.message(),
                    ". Choose another port (or address of this machine) for GOSSAMER_RENDEZVOUS or --rendezvous");
  }
  port_ = acceptor_.local_endpoint(error).port();
  accept();
}

void Door::close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& c : greeting_) c->close();
  greeting_.clear();
  arrived_ = nullptr;
}

void Door::accept() {
  acceptor_.async_accept([self = shared_from_this()](const asio::error_code& error, Connection::Socket socket) {
    if (self->closed_) return;
    if (!error) {
      self->greet(std::move(socket));
      return self->accept();
    }
    // Out of descriptors, or a client that left in the queue: breathe, then go on.
    self->pause_.expires_after(std::chrono::milliseconds(50));
    self->pause_.async_wait([self](const asio::error_code& stopped) {
      if (!stopped && !self->closed_) self->accept();
    });
  });
}

void Door::greet(Connection::Socket socket) {
  if (greeting_.size() >= kMaxGreeting) {
    ++refused_;
    return;  // the socket closes here
  }
  auto client = std::make_shared<Connection>(std::move(socket));
  greeting_.insert(client);
  auto timer = std::make_shared<asio::steady_timer>(io_, kGreetingTime);
  timer->async_wait([client](const asio::error_code& stopped) {
    if (!stopped) client->close();
  });
  client->read(
      [self = shared_from_this(), client, timer](const std::string& error, const wire::Frame& frame, const wire::Bytes&) {
        timer->cancel();
        if (self->closed_) return;
        self->greeting_.erase(client);
        if (error.empty() && frame.kind == wire::Kind::hello) return self->arrived_(frame, client);
        ++self->refused_;
        client->close();
      },
      &token_);
}

}  // namespace gossamer::dist
