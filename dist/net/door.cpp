// Accepts connections and lets them prove the token.
#include "gossamer/dist/net/door.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/greeting.h"

namespace gossamer::dist {
namespace {

// unknown clients at a time: one more, and one goes. A worker needs a few times the network's delay
constexpr std::size_t kMaxGreeting = 64;
constexpr std::chrono::seconds kGreetingTime(5);  // for all of the greeting, however it drips in
// then a pause, so that a flood leaves time for heartbeats; the kernel's queue waits
constexpr int kAcceptBurst = 32;
constexpr std::chrono::milliseconds kAcceptPause(20);

}  // namespace

Door::Door(asio::io_context& io, int rank, const Credentials& credentials,
           std::function<void(const std::string&)> on_refused)
    : io_(io),
      acceptor_(io),
      pause_(io),
      rank_(static_cast<std::uint32_t>(rank)),
      credentials_(credentials),
      on_refused_(std::move(on_refused)) {}

void Door::open(const asio::ip::tcp::endpoint& where, int listener) {
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
    const bool taken = error == asio::error::address_in_use;
    fail<DistError>("cannot listen on ", where.address().to_string(), ":", where.port(), ": ",
                    error.message(),
                    taken && rank_ == 0 ? ". Is another worker 0, of this or another job, running "
                                          "there? Each worker needs its own rank, and each job its "
                                          "own port (MASTER_PORT, GOSSAMER_RENDEZVOUS; in C: port)"
                                        : ". Choose another port, or an address of this machine, "
                                          "for the rendezvous");
  }
  acceptor_.non_blocking(true, error);
  port_ = acceptor_.local_endpoint(error).port();
  accept();
}

void Door::close() {
  if (closed_) return;
  closed_ = true;
  asio::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& guest : greeting_) guest->link->close();
  greeting_.clear();
  arrived_ = nullptr;
}

void Door::accept() {
  acceptor_.async_accept(
      [self = shared_from_this()](const asio::error_code& error, Connection::Socket socket) {
        if (self->closed_) return;
        if (!error) self->greet(std::move(socket));
        if (!error && ++self->accepted_in_a_row_ < kAcceptBurst) return self->accept();
        // A flood, no descriptors left, or a client that left in the queue: breathe, then go on.
        self->accepted_in_a_row_ = 0;
        self->pause_.expires_after(kAcceptPause);
        self->pause_.async_wait([self](const asio::error_code& stopped) {
          if (!stopped && !self->closed_) self->accept();
        });
      });
}

void Door::greet(Connection::Socket socket) {
  asio::error_code unknown;
  const auto from = socket.remote_endpoint(unknown);
  const auto guest = std::make_shared<Guest>();
  guest->from = unknown ? "somebody" : from.address().to_string();
  guest->link = std::make_shared<Connection>(std::move(socket), credentials_.tls.get());
  if (greeting_.size() >= kMaxGreeting) {
    const auto goes = superfluous();
    refuse(*goes, "too many at once");
    forget(goes);
  }
  greeting_.push_back(guest);
  auto timer = std::make_shared<asio::steady_timer>(io_, kGreetingTime);
  timer->async_wait([self = shared_from_this(), guest](const asio::error_code& stopped) {
    if (stopped || guest->gone) return;
    self->refuse(*guest, "no greeting in time");
    self->forget(guest);
  });
  guest->link->handshake(Side::door,
                         [self = shared_from_this(), guest, timer](const std::string& error) {
                           if (self->closed_ || guest->gone) return timer->cancel(), void();
                           if (error.empty()) return self->challenge(guest, timer);
                           timer->cancel();
                           self->forget(guest);
                           if (error != Connection::kClosed)
                             self->refuse(*guest, "it does not encrypt: " + error);
                         });
}

void Door::challenge(const std::shared_ptr<Guest>& guest,
                     std::shared_ptr<asio::steady_timer> timer) {
  guest->key = greeting::bound(credentials_.token, guest->link->binding());
  const greeting::Nonce challenge = greeting::fresh();
  const wire::Bytes said(challenge.begin(), challenge.end());
  guest->link->write_bytes(said);
  guest->link->read_bytes(greeting::kHelloBytes,
                          [self = shared_from_this(), guest, timer = std::move(timer), said](
                              const std::string& error, const wire::Bytes& answer) {
                            timer->cancel();
                            if (self->closed_ || guest->gone) return;
                            self->forget(guest);
                            if (error.empty()) return self->judge(guest, said, answer);
                            // A caller that hangs up without a word did no harm: a scan, or a
                            // worker that lost patience.
                            if (!answer.empty()) self->refuse(*guest, "no greeting");
                          });
}

void Door::judge(const std::shared_ptr<Guest>& guest, const wire::Bytes& said,
                 const wire::Bytes& answer) {
  greeting::Nonce challenge;
  std::copy(said.begin(), said.end(), challenge.begin());
  const std::span<const std::uint8_t, greeting::kHelloBytes> bytes(answer.data(),
                                                                   greeting::kHelloBytes);
  if (!greeting::proves(guest->key, challenge, bytes, rank_))
    return refuse(*guest, "wrong token, or a call for another worker");
  wire::Frame hello;
  const char* wrong = wire::decode(bytes.first<wire::kFrameBytes>(), hello);
  if (wrong != nullptr) return refuse(*guest, wrong);
  if (hello.kind != wire::Kind::hello || !arrived_) return refuse(*guest, "not a hello");
  const bool has_no_rank = hello.purpose == wire::Purpose::enter;
  if (!has_no_rank && !credentials_.may_be(hello.rank, *guest->link))
    return refuse(*guest, "the launcher did not start it as the worker that it says it is");
  const greeting::Nonce theirs = greeting::nonce_of(bytes);
  const Code proof = greeting::answer(guest->key, challenge, theirs, rank_);
  guest->link->write_bytes(wire::Bytes(proof.begin(), proof.end()));
  arrived_(hello, guest->link, greeting::connection_id(guest->key, challenge, theirs));
}

void Door::refuse(Guest& guest, const std::string& why) {
  ++refused_;
  last_refused_ = guest.from;
  guest.link->close();
  const auto now = std::chrono::steady_clock::now();
  if (!on_refused_ || now - last_report_ < std::chrono::seconds(1)) return;
  last_report_ = now;
  const int count = refused_ - reported_;
  reported_ = refused_;
  on_refused_(count == 1 ? "a client from " + guest.from + " was turned away: " + why
                         : std::to_string(count) + " clients were turned away, the last from " +
                               guest.from + ": " + why);
}

// The oldest of the address from which most have come: a flood takes no place of other addresses.
std::shared_ptr<Door::Guest> Door::superfluous() const {
  std::map<std::string, int> of_address;
  for (const auto& guest : greeting_) ++of_address[guest->from];
  return *std::ranges::max_element(greeting_, {},
                                   [&](const auto& guest) { return of_address[guest->from]; });
}

void Door::forget(const std::shared_ptr<Guest>& guest) {
  guest->gone = true;
  std::erase(greeting_, guest);
}

}  // namespace gossamer::dist
