// The meeting of all workers, driven by one io_context on the caller's thread.
#include "gossamer/dist/rendezvous.h"

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <optional>

#include "gossamer/core/error.h"
#include "gossamer/dist/door.h"

namespace gossamer::dist {
namespace {

using asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;
using wire::Kind;
constexpr std::chrono::milliseconds kRetry(100), kAnswerTime(10000);
constexpr int kMaxHandshakeFailures = 30;

std::string join_ranks(const LaunchInfo& info, const std::vector<int>& ranks) {
  std::string text;
  for (int r : ranks) text += (text.empty() ? "" : ", ") + worker_name(info, r);
  return text;
}

bool names_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

class Rendezvous : public std::enable_shared_from_this<Rendezvous> {
 public:
  Rendezvous(asio::io_context& io, const LaunchInfo& info, const JoinOptions& options)
      : io_(io),
        info_(info),
        options_(options),
        token_(wire::make_token(info.token)),
        door_(std::make_shared<Door>(io, token_)),
        links_(static_cast<std::size_t>(info.size)),
        table_(static_cast<std::size_t>(info.size)) {}

  Meeting run() {
    const auto start = SteadyClock::now();
    // Worker 0 decides who is late; the others wait a little longer, to hear its verdict.
    const auto patience = std::chrono::duration_cast<SteadyClock::duration>(Seconds(options_.connect_timeout_s));
    auto deadline = [&] {
      return start + patience + (info_.rank == 0 || !links_[0] ? SteadyClock::duration(0) : std::chrono::seconds(2));
    };
    auto notice = start + std::chrono::seconds(10);
    try {
      resolve();
      if (info_.rank == 0)
        host();
      else
        dial_host();
      while (!complete() && failure_.empty() && SteadyClock::now() < deadline()) {
        io_.restart();
        io_.run_one_until(std::min(deadline(), notice));
        if (SteadyClock::now() >= notice) {
          if (options_.on_wait) options_.on_wait(situation());
          notice += std::chrono::seconds(10);
        }
      }
    } catch (...) {
      end();
      throw;
    }
    if (complete() && failure_.empty()) {
      end();
      return {links_, local_address_, door_->refused()};
    }
    if (failure_.empty()) {
      std::ostringstream text;
      text << "workers did not meet within " << options_.connect_timeout_s << " s: " << situation();
      failure_ = text.str();
    }
    if (info_.rank == 0) tell_all(failure_);
    end();
    for (auto& link : links_) {
      if (link) link->close();
    }
    throw DistError(failure_);
  }

 private:
  bool complete() const {
    if (info_.rank != 0 && !have_table_) return false;
    for (int r = 0; r < info_.size; ++r) {
      if (r != info_.rank && !links_[static_cast<std::size_t>(r)]) return false;
    }
    return true;
  }

  std::string situation() const {
    std::vector<int> missing, here;
    for (int r = 0; r < info_.size; ++r) (r == info_.rank || links_[static_cast<std::size_t>(r)] ? here : missing).push_back(r);
    const std::string host = info_.host + ":" + std::to_string(info_.port);
    if (info_.rank == 0 || have_table_) {
      std::string text = "waiting for worker" + std::string(missing.size() > 1 ? "s " : " ") + join_ranks(info_, missing) + " (of " +
                         std::to_string(info_.size) + "; here: " + join_ranks(info_, here) + ")";
      if (door_->refused() > 0)
        text += "; " + std::to_string(door_->refused()) + " client(s) without the job's token turned away";
      return text + (info_.rank == 0 ? ". Are they running, and can they reach " + host + "?" : "");
    }
    if (links_[0]) return "worker " + std::to_string(info_.rank) + " is registered at " + host + " and waits for the others";
    const std::string reason = !handshake_error_.empty() ? handshake_error_ : !last_error_.empty() ? last_error_ : "no answer";
    return "worker " + std::to_string(info_.rank) + " waits for worker 0 at " + host + " (" + reason + ")";
  }

  // After this no handler touches us any more; connections live on in the Meeting.
  void end() {
    ended_ = true;
    for (auto& waiting : watched_) {
      asio::error_code ignored;
      if (waiting->open()) waiting->socket().cancel(ignored);
    }
    for (auto& timer : timers_) timer->cancel();
    if (dialing_) dialing_->close();
    door_->close();
  }

  void resolve() {
    tcp::resolver resolver(io_);
    asio::error_code error;
    const auto found = resolver.resolve(info_.host, std::to_string(info_.port), tcp::resolver::numeric_service, error);
    if (error || found.empty()) {
      fail<DistError>("cannot resolve the host of worker 0, \"", info_.host, "\": ", error.message(),
                      ". Set GOSSAMER_RENDEZVOUS=host:port");
    }
    for (const auto& entry : found) endpoints_.push_back(entry.endpoint());
    std::stable_partition(endpoints_.begin(), endpoints_.end(), [](const tcp::endpoint& e) { return e.address().is_v4(); });
  }

  // Debian lets a host's own name point to 127.0.1.1: who was given a real name listens on all interfaces then.
  tcp::endpoint listening_on(const asio::ip::address& address, std::uint16_t port) const {
    if (!address.is_loopback() || names_loopback(info_.host)) return {address, port};
    return {asio::ip::address_v4::any(), port};
  }

  void after(std::chrono::milliseconds time, std::function<void()> what) {
    auto timer = std::make_shared<asio::steady_timer>(io_, time);
    timers_.push_back(timer);
    timer->async_wait([self = shared_from_this(), what = std::move(what)](const asio::error_code& stopped) {
      if (!stopped && !self->ended_) what();
    });
  }

  wire::Frame frame(Kind kind) const {
    wire::Frame f;
    f.kind = kind;
    f.rank = static_cast<std::uint32_t>(info_.rank);
    f.token = token_;
    if (kind == Kind::hello) {
      f.world = static_cast<std::uint32_t>(info_.size);
      f.port = door_->port();
    }
    return f;
  }

  void refuse(const std::shared_ptr<Connection>& link, const std::string& why) {
    link->write(frame(Kind::reject), wire::to_bytes(why));
    link->finish();
    after(std::chrono::seconds(1), [link] { link->close(); });
  }

  // ---- worker 0 ----
  void host() {
    door_->open(listening_on(endpoints_.front().address(), static_cast<std::uint16_t>(info_.port)),
                [self = shared_from_this()](const wire::Frame& hello, const std::shared_ptr<Connection>& link) {
                  self->registered(hello, link);
                },
                info_.listener);
  }

  void registered(const wire::Frame& hello, const std::shared_ptr<Connection>& link) {
    if (ended_) return;
    if (!admit(hello, link)) return;
    const auto rank = static_cast<std::size_t>(hello.rank);
    asio::error_code error;
    const auto remote = link->socket().remote_endpoint(error).address(), local = link->socket().local_endpoint(error).address();
    table_[rank] = {remote.to_string(), hello.port};
    if (local_address_.empty() || asio::ip::make_address(local_address_, error).is_loopback()) local_address_ = local.to_string();
    watch(rank, link);
    if (!complete()) return;
    // Workers on our own host may have come over loopback: for the others they live where we do.
    const bool public_host = !asio::ip::make_address(local_address_, error).is_loopback();
    table_[0] = {local_address_, static_cast<std::uint16_t>(info_.port)};
    for (auto& entry : table_) {
      if (public_host && asio::ip::make_address(entry.host, error).is_loopback()) entry.host = local_address_;
    }
    const wire::Bytes table = wire::encode_table(table_);
    for (auto& l : links_) {
      if (l) l->write(frame(Kind::table), table);
    }
  }

  bool admit(const wire::Frame& hello, const std::shared_ptr<Connection>& link) {
    const auto lowest = static_cast<std::uint32_t>(info_.rank) + 1;
    if (hello.world != static_cast<std::uint32_t>(info_.size)) {
      refuse(link, "worker " + std::to_string(hello.rank) + " was started for " + std::to_string(hello.world) +
                       " workers, worker " + std::to_string(info_.rank) + " for " + std::to_string(info_.size));
    } else if (hello.rank < lowest || hello.rank >= hello.world) {
      refuse(link, "worker " + std::to_string(hello.rank) + " has no business to dial worker " + std::to_string(info_.rank));
    } else if (links_[hello.rank]) {
      refuse(link, "there is a worker " + std::to_string(hello.rank) + " already: two processes were given the same rank");
    } else {
      links_[hello.rank] = link;
      link->write(frame(Kind::welcome));
      return true;
    }
    return false;
  }

  // A worker that dies while others are awaited frees its place: it may be started again.
  void watch(std::size_t rank, const std::shared_ptr<Connection>& link) {
    watched_.push_back(link);
    link->socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), rank, link](const asio::error_code& error) {
      if (self->ended_ || self->complete()) return;
      asio::error_code ignored;
      if (!error && link->socket().available(ignored) > 0) return;
      link->close();
      if (self->links_[rank] == link) self->links_[rank] = nullptr;
    });
  }

  void tell_all(const std::string& why) {
    for (auto& link : links_) {
      if (!link) continue;
      link->write(frame(Kind::reject), wire::to_bytes(why));
      link->finish();
    }
    io_.restart();
    io_.run_for(std::chrono::milliseconds(100));
  }

  // ---- all others ----
  void dial_host() {
    if (ended_) return;
    auto socket = std::make_shared<Connection::Socket>(io_);
    const auto where = endpoints_[next_endpoint_++ % endpoints_.size()];
    socket->async_connect(where, [self = shared_from_this(), socket](const asio::error_code& error) {
      if (self->ended_) return;
      if (!error) return self->greet_host(std::make_shared<Connection>(std::move(*socket)));
      self->last_error_ = error.message();
      self->after(kRetry, [self] { self->dial_host(); });
    });
  }

  void greet_host(const std::shared_ptr<Connection>& link) {
    asio::error_code error;
    const auto local = link->socket().local_endpoint(error).address();
    if (door_->port() == 0) {
      door_->open(listening_on(local, 0),
                  [self = shared_from_this()](const wire::Frame& hello, const std::shared_ptr<Connection>& peer) {
                    if (!self->ended_) self->admit(hello, peer);
                  },
                  info_.listener);
    }
    greet(
        link, 0,
        [this, link](const std::string& why) {
          handshake_error_ = why;
          if (++handshake_failures_ >= kMaxHandshakeFailures) failure_ = situation();
          after(kRetry, [this] { dial_host(); });
        },
        [this, link] { await_table(link); });
  }

  // Says hello on a fresh connection and waits for the welcome; then the link is up.
  void greet(const std::shared_ptr<Connection>& link, std::size_t rank, std::function<void(const std::string&)> failed,
             std::function<void()> up) {
    dialing_ = link;
    link->write(frame(Kind::hello));
    auto timer = std::make_shared<asio::steady_timer>(io_, kAnswerTime);
    timers_.push_back(timer);
    timer->async_wait([link](const asio::error_code& stopped) {
      if (!stopped) link->close();
    });
    link->read(
        [self = shared_from_this(), link, rank, timer, failed, up](const std::string& error, const wire::Frame& answer,
                                                                   const wire::Bytes& payload) {
          timer->cancel();
          if (self->ended_) return;
          self->dialing_ = nullptr;
          if (error.empty() && answer.kind == Kind::welcome && answer.rank == rank) {
            self->links_[rank] = link;
            return up();
          }
          link->close();
          if (error.empty() && answer.kind == Kind::reject) {
            self->failure_ = "worker " + std::to_string(rank) + " refused this worker: " + wire::printable(payload);
          } else {
            failed(error.empty()
                       ? "it answered something else than welcome"
                       : "it ended the handshake: " + error + "; is the token (GOSSAMER_TOKEN) the same for all workers?");
          }
        },
        &token_);
  }

  void await_table(const std::shared_ptr<Connection>& link) {
    link->read([self = shared_from_this(), link](const std::string& error, const wire::Frame& frame, const wire::Bytes& payload) {
      if (self->ended_) return;
      const char* wrong = nullptr;
      if (!error.empty()) {
        self->failure_ = "worker 0 ended while workers were meeting: " + error;
      } else if (frame.kind == Kind::reject) {
        self->failure_ = wire::printable(payload);
      } else if (frame.kind != Kind::table || (wrong = wire::decode_table(payload, self->table_)) != nullptr ||
                 self->table_.size() != static_cast<std::size_t>(self->info_.size)) {
        self->failure_ = std::string("worker 0 sent ") + (wrong != nullptr ? wrong : "something else than the table of workers");
      } else {
        self->have_table_ = true;
        self->local_address_ = self->table_[static_cast<std::size_t>(self->info_.rank)].host;
        for (int r = 1; r < self->info_.rank; ++r) self->to_dial_.push_back(r);
        self->dial_next();
      }
    });
  }

  void dial_next() {
    if (ended_ || to_dial_.empty()) return;
    const int rank = to_dial_.front();
    to_dial_.pop_front();
    const wire::Address& a = table_[static_cast<std::size_t>(rank)];
    asio::error_code bad;
    const tcp::endpoint where(asio::ip::make_address(a.host, bad), a.port);
    const std::string name = "worker " + std::to_string(rank) + " at " + a.host + ":" + std::to_string(a.port);
    auto socket = std::make_shared<Connection::Socket>(io_);
    socket->async_connect(where, [self = shared_from_this(), socket, rank, name](const asio::error_code& error) {
      if (self->ended_) return;
      if (error) {
        self->failure_ = "cannot reach " + name + ": " + error.message() + ". It died, or a firewall stands between";
        return;
      }
      self->greet(
          std::make_shared<Connection>(std::move(*socket)), static_cast<std::size_t>(rank),
          [self, name](const std::string& why) { self->failure_ = name + ": " + why; }, [self] { self->dial_next(); });
    });
  }

  asio::io_context& io_;
  const LaunchInfo info_;
  const JoinOptions& options_;
  const wire::Token token_;
  std::shared_ptr<Door> door_;
  std::vector<std::shared_ptr<Connection>> links_, watched_;
  std::vector<wire::Address> table_;
  std::vector<tcp::endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  std::vector<std::shared_ptr<asio::steady_timer>> timers_;
  std::shared_ptr<Connection> dialing_;
  std::deque<int> to_dial_;
  std::string local_address_, last_error_, handshake_error_, failure_;
  int handshake_failures_ = 0;
  bool have_table_ = false, ended_ = false;
};

}  // namespace

Meeting meet(asio::io_context& io, const LaunchInfo& info, const JoinOptions& options) {
  return std::make_shared<Rendezvous>(io, info, options)->run();
}

}  // namespace gossamer::dist
