// Reads and writes frames on one socket.
#include "gossamer/dist/net/connection.h"

#include <asio/read.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/write.hpp>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kMaxUnsent = 1 << 20;

std::string describe(const asio::error_code& error) {
  if (error == asio::error::eof) return Connection::kClosed;
  if (error == asio::error::connection_reset) return "connection reset";
  if (error == asio::ssl::error::stream_truncated) return Connection::kClosed;
  return error.message();
}

}  // namespace

bool Credentials::may_be(std::uint32_t rank, const Connection& other) const {
  if (tls == nullptr || !launcher || rank >= started) return true;
  const auto& grant = other.grant();
  return grant && grant->rank == rank && genuine(*grant, *launcher);
}

struct Connection::Encryption {
  Encryption(Socket& socket, const Tls& tls) : stream(socket, tls.session().release()) {}
  asio::ssl::stream<Socket&> stream;
};

Connection::Connection(Socket socket, const Tls* tls) : socket_(std::move(socket)) {
  if (tls != nullptr) tls_ = std::make_unique<Encryption>(socket_, *tls);
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

Connection::~Connection() = default;

void Connection::handshake(Side side, std::function<void(const std::string& error)> done) {
  if (!tls_) return done("");
  tls_->stream.async_handshake(
      side == Side::door ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
      [self = shared_from_this(), done = std::move(done)](const asio::error_code& failed) {
        std::string error = failed ? describe(failed) : "";
        if (!failed) try {
            ssl_st* const session = self->tls_->stream.native_handle();
            self->peer_ = peer_key(session);
            self->grant_ = peer_grant(session);
            self->binding_ = dist::binding(session);
          } catch (const DistError& e) {
            error = e.what();
          }
        if (!error.empty()) self->close();
        done(error);
      });
}

template <class Buffer, class Handler>
void Connection::receive(const Buffer& buffer, Handler done) {
  if (tls_)
    asio::async_read(tls_->stream, buffer, std::move(done));
  else
    asio::async_read(socket_, buffer, std::move(done));
}

void Connection::read(Done done) {
  receive(asio::buffer(header_), [self = shared_from_this(), done = std::move(done)](
                                     const asio::error_code& error, std::size_t) {
    self->payload_.clear();
    const char* wrong = error ? nullptr : wire::decode(self->header_, self->frame_);
    if (error || wrong != nullptr) {
      self->close();
      done(error ? describe(error) : std::string(wrong), self->frame_, self->payload_);
    } else if (self->frame_.payload_bytes == 0) {
      done("", self->frame_, self->payload_);
    } else {
      self->read_payload(done);
    }
  });
}

void Connection::read_bytes(
    std::size_t count, std::function<void(const std::string& error, const wire::Bytes&)> done) {
  payload_.assign(count, 0);
  receive(asio::buffer(payload_), [self = shared_from_this(), done = std::move(done)](
                                      const asio::error_code& error, std::size_t got) {
    if (error) self->close();
    self->payload_.resize(got);
    // `done` may begin the next read
    const wire::Bytes bytes = std::move(self->payload_);
    done(error ? describe(error) : std::string(), bytes);
  });
}

void Connection::read_payload(Done done) {
  payload_.resize(frame_.payload_bytes);
  receive(asio::buffer(payload_), [self = shared_from_this(), done = std::move(done)](
                                      const asio::error_code& error, std::size_t) {
    if (error) self->close();
    done(error ? describe(error) : std::string(), self->frame_, self->payload_);
  });
}

bool Connection::write(const wire::Frame& frame, std::span<const std::uint8_t> payload) {
  return enqueue(wire::encode(frame, payload));
}
void Connection::write_bytes(wire::Bytes bytes) { enqueue(std::move(bytes)); }

bool Connection::enqueue(wire::Bytes bytes) {
  if (!socket_.is_open() || finishing_) return true;
  outgoing_.push_back(std::move(bytes));
  unsent_ += outgoing_.back().size();
  if (outgoing_.size() == 1) write_next();
  return unsent_ <= kMaxUnsent;
}

void Connection::write_next() {
  auto sent = [self = shared_from_this()](const asio::error_code& error, std::size_t) {
    if (error) return;  // the read that is always outstanding reports it
    self->unsent_ -= self->outgoing_.front().size();
    self->outgoing_.pop_front();
    if (!self->outgoing_.empty()) {
      self->write_next();
    } else if (self->finishing_) {
      asio::error_code ignored;
      self->socket_.shutdown(Socket::shutdown_send, ignored);
    }
  };
  if (tls_)
    asio::async_write(tls_->stream, asio::buffer(outgoing_.front()), std::move(sent));
  else
    asio::async_write(socket_, asio::buffer(outgoing_.front()), std::move(sent));
}

void Connection::close() {
  asio::error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Connection::finish() {
  finishing_ = true;
  asio::error_code ignored;
  if (outgoing_.empty()) socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace gossamer::dist
