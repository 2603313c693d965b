// See dial.h.
#include "gossamer/dist/net/dial.h"

#include <algorithm>

#include "gossamer/dist/net/greeting.h"

namespace gossamer::dist {
namespace {

greeting::Nonce nonce(const wire::Bytes& bytes) {
  greeting::Nonce out{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), out.size()), out.begin());
  return out;
}

}  // namespace

Dial::Dial(asio::io_context& io, std::uint32_t called, const Credentials& credentials,
           const wire::Frame& hello, Done done)
    : timer_(io),
      socket_(io),
      called_(called),
      credentials_(credentials),
      hello_(hello),
      done_(std::move(done)) {}

std::shared_ptr<Dial> Dial::start(asio::io_context& io, const asio::ip::tcp::endpoint& to,
                                  std::uint32_t called, const asio::ip::address& from,
                                  const Credentials& credentials, const wire::Frame& hello,
                                  std::chrono::milliseconds limit, Done done) {
  auto dial = std::make_shared<Dial>(io, called, credentials, hello, std::move(done));
  dial->timer_.expires_after(limit);
  dial->timer_.async_wait([dial](const asio::error_code& stopped) {
    if (!stopped)
      dial->end(dial->link_ ? Answer::Kind::no_handshake : Answer::Kind::unreachable, "no answer");
  });
  dial->connect(to, from);
  return dial;
}

void Dial::connect(const asio::ip::tcp::endpoint& to, const asio::ip::address& from) {
  asio::error_code error;
  socket_.open(to.protocol(), error);
  if (!error && !from.is_unspecified() && from.is_v4() == to.address().is_v4())
    socket_.bind({from, 0}, error);
  socket_.async_connect(to, [self = shared_from_this()](const asio::error_code& failed) {
    if (!self->done_) return;
    if (!failed) return self->greet();
    self->end(failed == asio::error::connection_refused ? Answer::Kind::nobody_there
                                                        : Answer::Kind::unreachable,
              failed.message());
  });
}

void Dial::greet() {
  link_ = std::make_shared<Connection>(std::move(socket_), credentials_.tls.get());
  link_->handshake(Side::caller, [self = shared_from_this()](const std::string& error) {
    if (!self->done_) return;
    if (!error.empty()) return self->end(Answer::Kind::no_handshake, error);
    self->key_ = greeting::bound(self->credentials_.token, self->link_->binding());
    self->say_hello();
  });
}

void Dial::say_hello() {
  link_->read_bytes(
      sizeof(greeting::Nonce),
      [self = shared_from_this()](const std::string& error, const wire::Bytes& challenge) {
        if (!self->done_) return;
        if (!error.empty()) return self->end(Answer::Kind::no_handshake, error);
        const greeting::Nonce own = greeting::fresh();
        self->link_->write_bytes(
            greeting::hello(self->key_, nonce(challenge), self->hello_, own, self->called_));
        self->said_hello_ = true;
        self->link_->read_bytes(sizeof(Code), [self, challenge, own](const std::string& failed,
                                                                     const wire::Bytes& proof) {
          if (!self->done_) return;
          if (!failed.empty()) return self->end(Answer::Kind::no_handshake, failed);
          self->check(challenge, wire::Bytes(own.begin(), own.end()), proof);
        });
      });
}

bool Dial::answers(std::uint32_t rank, const wire::Bytes& challenge, const wire::Bytes& own,
                   const wire::Bytes& proof) const {
  return (rank != hello_.rank || hello_.purpose == wire::Purpose::enter) &&
         greeting::same(greeting::answer(key_, nonce(challenge), nonce(own), rank), proof);
}

void Dial::check(const wire::Bytes& challenge, const wire::Bytes& own, const wire::Bytes& proof) {
  std::uint32_t who = called_;
  if (called_ == greeting::kAnyone)
    for (who = 0; who < wire::kMostRanks && !answers(who, challenge, own, proof);) ++who;
  if (!answers(who, challenge, own, proof))
    return end(Answer::Kind::no_handshake, "it does not know the token");
  if (!credentials_.may_be(who, *link_))
    return end(Answer::Kind::no_handshake,
               "the launcher did not start it as the worker that it says it is");
  id_ = greeting::connection_id(key_, nonce(challenge), nonce(own));
  link_->read([self = shared_from_this(), who](const std::string& error, const wire::Frame& frame,
                                               const wire::Bytes& payload) {
    if (!self->done_) return;
    // It knows the token, so a wrong one is not the reason.
    if (!error.empty())
      return self->end(Answer::Kind::unreachable,
                       "it did not answer: " + error + "; an earlier job may still be ending");
    if (frame.rank != who)
      return self->end(Answer::Kind::no_handshake,
                       "it speaks for another worker than the one it is");
    self->timer_.cancel();
    const Done done = std::move(self->done_);
    self->done_ = nullptr;
    done({Answer::Kind::frame, "", self->link_, frame, payload, self->id_});
  });
}

void Dial::end(Answer::Kind kind, const std::string& error) {
  if (!done_) return;
  const Done done = std::move(done_);
  cancel();
  done({kind, error, nullptr, {}, {}, 0});
}

void Dial::cancel() {
  done_ = nullptr;
  timer_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  if (link_) link_->close();
}

}  // namespace gossamer::dist
