// Reads and writes frames on one socket.
#include "gossamer/dist/net/connection.h"

#include <asio/read.hpp>
#include <asio/write.hpp>

namespace gossamer::dist {
namespace {

constexpr std::size_t kMaxUnsent = 1 << 20;

std::string describe(const asio::error_code& error) {
  if (error == asio::error::eof) return "connection closed";
  if (error == asio::error::connection_reset) return "connection reset";
  return error.message();
}

}  // namespace

Connection::Connection(Socket socket) : socket_(std::move(socket)) {
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void Connection::read(Done done) {
  asio::async_read(
      socket_, asio::buffer(header_),
      [self = shared_from_this(), done = std::move(done)](const asio::error_code& error,
                                                          std::size_t) {
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
  asio::async_read(socket_, asio::buffer(payload_),
                   [self = shared_from_this(), done = std::move(done)](
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
  asio::async_read(socket_, asio::buffer(payload_),
                   [self = shared_from_this(), done = std::move(done)](
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
  asio::async_write(socket_, asio::buffer(outgoing_.front()),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      if (error) return;  // the read that is always outstanding reports it
                      self->unsent_ -= self->outgoing_.front().size();
                      self->outgoing_.pop_front();
                      if (!self->outgoing_.empty()) {
                        self->write_next();
                      } else if (self->finishing_) {
                        asio::error_code ignored;
                        self->socket_.shutdown(Socket::shutdown_send, ignored);
                      }
                    });
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
