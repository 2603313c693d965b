// The meeting of all workers, driven by one io_context on the caller's thread.
#include "gossamer/dist/net/rendezvous.h"

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "gossamer/core/cancel.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::dist {
namespace {

using asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;
using wire::Kind;
constexpr std::chrono::milliseconds kRetry(100), kAnswerTime(10000);
constexpr std::chrono::milliseconds kLook(50);  // whether the caller has cancelled
constexpr std::chrono::milliseconds kAskNamesAgain(500);
// No process listens where a worker should: it has ended, unless it calls by then.
constexpr auto kGone = 3 * kTurn;
// When it is clear that all must end: those who call until then learn why. One who calls later
// waits for a worker 0 that is gone.
constexpr std::chrono::seconds kLastCalls(5);
// Those that cannot meet say so before worker 0 gives up waiting for them; but they have some time,
// also if the last worker registered at the last moment.
constexpr std::chrono::seconds kEarlier(1), kLastMoment(4);
constexpr std::size_t kMostRefused = 8;  // reasons that are kept

std::string join_ranks(const LaunchInfo& info, const std::vector<int>& ranks) {
  return listed(ranks, ", ", [&](int r) { return worker_name(info, r); });
}

class Rendezvous : public std::enable_shared_from_this<Rendezvous> {
 public:
  Rendezvous(asio::io_context& io, const LaunchInfo& info, const JoinOptions& options,
             const Credentials& credentials, std::uint64_t life)
      : io_(io),
        info_(info),
        options_(options),
        life_(life),
        credentials_(credentials),
        bind_(asio::ip::make_address(bind_address(info))),
        door_(std::make_shared<Door>(io, info.rank, credentials_, options.on_refused)),
        contacts_(static_cast<std::size_t>(info.size)),
        table_(static_cast<std::size_t>(info.size)) {}

  JoinedGroup run() {
    const auto start = SteadyClock::now();
    // Worker 0 decides which workers are late; the others wait a little longer, to hear its
    // verdict.
    const auto patience =
        std::chrono::duration_cast<SteadyClock::duration>(Seconds(options_.connect_timeout_s));
    auto deadline = [&] {
      auto late = start + patience;
      if (have_table_)
        late = std::max(late - std::min<SteadyClock::duration>(kEarlier, patience / 5),
                        table_since_ + kLastMoment);
      else if (info_.rank > 0 && contacts_[0].link)
        late += std::chrono::seconds(2);
      return hopeless() ? std::min(late, hopeless_since_ + kLastCalls) : late;
    };
    auto notice = start + std::chrono::seconds(10);
    try {
      endpoints_ = resolve(io_, info_.local ? bind_.to_string() : info_.host, info_.port);
      door_->receive([self = shared_from_this()](const wire::Frame& hello,
                                                 const std::shared_ptr<Connection>& link,
                                                 std::uint64_t id) {
        if (!self->ended_) self->arrived(hello, link, id);
      });
      if (info_.rank == 0)
        host();
      else
        dial_host();
      while (!complete() && failure_.empty() && !(hopeless() && all_called()) &&
             SteadyClock::now() < deadline()) {
        check_cancelled();
        io_.restart();
        io_.run_one_until(std::min({deadline(), notice, SteadyClock::now() + kLook}));
        if (SteadyClock::now() >= notice) {
          if (options_.on_wait) options_.on_wait(situation());
          notice += std::chrono::seconds(10);
        }
      }
    } catch (...) {
      end();
      door_->close();
      throw;
    }
    if (complete() && failure_.empty()) {
      end();
      for (std::size_t r = 0; r < table_.size(); ++r) contacts_[r].address = table_[r];
      door_->receive(nullptr);
      return {contacts_, door_, local_address_};
    }
    if (failure_.empty() && hopeless()) failure_ = sizes();
    if (failure_.empty()) {
      std::ostringstream text;
      text << "workers did not meet within " << options_.connect_timeout_s << " s: " << situation();
      failure_ = text.str();
    }
    tell_all(failure_);
    end();
    door_->close();
    for (auto& contact : contacts_) {
      if (contact.link) contact.link->close();
    }
    throw DistError(failure_);
  }

 private:
  bool complete() const {
    if (info_.rank != 0 && !have_table_) return false;
    for (int r = 0; r < info_.size; ++r) {
      if (r != info_.rank && !contacts_[static_cast<std::size_t>(r)].link) return false;
    }
    return true;
  }

  // A worker that was started for another number of workers has the place of one that we wait for.
  bool hopeless() const { return !misfits_.empty() && misfits_.begin()->first < contacts_.size(); }

  // all that anybody counts on
  bool all_called() const {
    auto size = static_cast<std::uint32_t>(info_.size);
    for (const auto& [rank, its_size] : misfits_) size = std::max(size, its_size);
    for (std::uint32_t r = 1; r < size; ++r)
      if (!misfits_.contains(r) && (r >= contacts_.size() || !contacts_[r].link)) return false;
    return true;
  }

  std::string sizes() const {
    std::map<std::uint32_t, std::vector<int>> ranks_of;
    for (const auto& [rank, size] : misfits_) ranks_of[size].push_back(static_cast<int>(rank));
    std::string text;
    for (const auto& [size, ranks] : ranks_of)
      text += (ranks.size() > 1 ? "workers " : "worker ") + join_ranks(info_, ranks) +
              (ranks.size() > 1 ? " were" : " was") + " started for " + std::to_string(size) +
              " workers, ";
    return text + "worker 0 for " + std::to_string(info_.size) +
           "; start all for the same number (GOSSAMER_WORLD, WORLD_SIZE; in C: size)";
  }

  std::string situation() const {
    std::vector<int> missing, here;
    for (int r = 0; r < info_.size; ++r)
      (r == info_.rank || contacts_[static_cast<std::size_t>(r)].link ? here : missing)
          .push_back(r);
    const std::string host = host_and_port(info_.host, info_.port);
    if (info_.rank == 0 || have_table_) {
      std::string text = "waiting for worker" + std::string(missing.size() > 1 ? "s " : " ") +
                         join_ranks(info_, missing) + " (of " + std::to_string(info_.size) +
                         "; here: " + join_ranks(info_, here) + ")";
      if (const int n = door_->refused(); n > 0)
        text += "; worker " + std::to_string(info_.rank) + " turned away " + std::to_string(n) +
                (n > 1 ? " callers" : " caller") + " without the job's token, the last from " +
                door_->last_refused();
      for (const std::string& why : refused_) text += "; refused: " + why;
      if (!unreached_.empty()) text += "; " + unreached_;
      return text + (info_.rank == 0 ? ". Are they running, and can they reach " + host + "?" : "");
    }
    if (contacts_[0].link)
      return "worker " + std::to_string(info_.rank) + " is registered at " + host +
             " and waits for the others";
    const std::string reason = !handshake_error_.empty() ? handshake_error_
                               : !last_error_.empty()    ? last_error_
                                                         : "no answer";
    return "worker " + std::to_string(info_.rank) + " waits for worker 0 at " + host + " (" +
           reason + ")";
  }

  // From here on no handler calls this object; the JoinedGroup owns the connections.
  void end() {
    ended_ = true;
    for (auto& waiting : watched_) {
      asio::error_code ignored;
      if (waiting->open()) waiting->socket().cancel(ignored);
    }
    for (auto& timer : timers_) timer->cancel();
    if (dial_) dial_->cancel();
    dial_ = nullptr;
  }

  void after(std::chrono::milliseconds time, std::function<void()> what) {
    auto timer = std::make_shared<asio::steady_timer>(io_, time);
    timers_.push_back(timer);
    timer->async_wait(
        [self = shared_from_this(), what = std::move(what)](const asio::error_code& stopped) {
          if (!stopped && !self->ended_) what();
        });
  }

  wire::Frame frame(Kind kind) const {
    wire::Frame f;
    f.kind = kind;
    f.rank = static_cast<std::uint32_t>(info_.rank);
    if (kind == Kind::welcome) f.life = life_;
    return f;
  }

  // The refused worker ends with these words; whoever waits for it here reads them too.
  void refuse(const std::shared_ptr<Connection>& link, const std::string& why) {
    if (refused_.size() < kMostRefused && refused_.insert(why).second && options_.on_refused)
      options_.on_refused("a worker was refused: " + why);
    link->write(frame(Kind::reject), wire::to_bytes(why));
    link->finish();
    after(std::chrono::seconds(1), [link] { link->close(); });
  }

  void open_door(std::uint16_t port) {
    if (door_->port() == 0) door_->open({bind_, port}, info_.listener);
  }

  // ---- worker 0 ----
  void host() {
    open_door(static_cast<std::uint16_t>(info_.port));
    // alone, until others join
    if (info_.size == 1 && !bind_.is_unspecified()) local_address_ = bind_.to_string();
  }

  void arrived(const wire::Frame& hello, const std::shared_ptr<Connection>& link,
               std::uint64_t id) {
    if (!admit(hello, link, id) || info_.rank != 0) return;
    const auto rank = static_cast<std::size_t>(hello.rank);
    asio::error_code error;
    const auto remote = link->socket().remote_endpoint(error).address(),
               local = link->socket().local_endpoint(error).address();
    table_[rank] = {remote.to_string(), hello.port, link->peer()};
    if (local_address_.empty() || asio::ip::make_address(local_address_, error).is_loopback())
      local_address_ = local.to_string();
    watch(rank, link);
    if (!complete()) return;
    table_[0] = {local_address_, door_->port(), own_key()};
    for (auto& entry : table_) {
      entry.host = seen_from_outside(entry.host, local_address_);
      entry.alive = true;
    }
    const wire::Bytes table = wire::encode_table(table_);
    for (auto& contact : contacts_) {
      if (contact.link) contact.link->write(frame(Kind::table), table);
    }
  }

  PublicKey own_key() const { return credentials_.tls ? credentials_.tls->own() : PublicKey{}; }

  // A rank is the process that proved its key to worker 0 as such. Once the table is here, others
  // that called in its name are sent away.
  bool is_member(std::size_t rank, const Connection& link) const {
    return !have_table_ || link.peer() == table_[rank].key;
  }
  void forget_strangers() {
    for (std::size_t r = 1; r < contacts_.size(); ++r) {
      if (!contacts_[r].link || is_member(r, *contacts_[r].link)) continue;
      contacts_[r].link->close();
      contacts_[r] = {};
    }
  }

  bool admit(const wire::Frame& hello, const std::shared_ptr<Connection>& link, std::uint64_t id) {
    // It could not be reached from here, and calls itself.
    const bool in_turn =
        have_table_ && hello.rank > 0 && hello.rank < static_cast<std::uint32_t>(info_.rank);
    const auto lowest = in_turn ? 1 : static_cast<std::uint32_t>(info_.rank) + 1;
    if (hello.purpose == wire::Purpose::enter) {  // it asks again
      link->write(frame(Kind::reject), wire::to_bytes("the workers have not met yet"));
      link->finish();
      after(std::chrono::seconds(1), [link] { link->close(); });
    } else if (hello.world != static_cast<std::uint32_t>(info_.size)) {
      // one that calls back, or was started again, belongs to another job
      if (info_.rank == 0 && hello.purpose == wire::Purpose::first && hello.rank >= lowest &&
          hello.rank < hello.world &&
          (hello.rank >= contacts_.size() || !contacts_[hello.rank].link)) {
        const bool had_hope = !hopeless();
        misfits_[hello.rank] = hello.world;
        if (had_hope) hopeless_since_ = SteadyClock::now();
      }
      refuse(link, "worker " + std::to_string(hello.rank) + " was started for " +
                       std::to_string(hello.world) + " workers, worker " +
                       std::to_string(info_.rank) + " for " + std::to_string(info_.size));
    } else if (hello.rank < lowest || hello.rank >= hello.world) {
      refuse(link, "worker " + std::to_string(hello.rank) + " must not dial worker " +
                       std::to_string(info_.rank));
    } else if (!is_member(hello.rank, *link) ||
               (contacts_[hello.rank].link &&
                (contacts_[hello.rank].life != hello.life ||
                 contacts_[hello.rank].link->peer() != link->peer()))) {
      refuse(link, "there is a worker " + std::to_string(hello.rank) +
                       " already: two processes were given the same rank");
    } else if (in_turn && (contacts_[hello.rank].link ? contacts_[hello.rank].side == Side::caller
                                                      : calls(hello.rank) && dial_->said_hello())) {
      // Of two that call each other the higher rank counts. The other one calls again if it must.
      link->close();
    } else {
      // it did not hear our answer, and calls again
      if (contacts_[hello.rank].link) contacts_[hello.rank].link->close();
      contacts_[hello.rank] = {link, Side::door, {}, hello.life, id};
      if (calls(hello.rank)) {
        dial_->cancel();
        dial_ = nullptr;
        asio::post(io_, [self = shared_from_this()] { self->dial_next(); });
      }
      misfits_.erase(hello.rank);
      link->write(frame(Kind::welcome));
      return true;
    }
    return false;
  }

  // A worker that dies while others are awaited frees its place: it may be started again.
  void watch(std::size_t rank, const std::shared_ptr<Connection>& link) {
    watched_.push_back(link);
    link->socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), rank,
                                                       link](const asio::error_code& error) {
      if (self->ended_ || self->complete()) return;
      asio::error_code ignored;
      if (!error && link->socket().available(ignored) > 0) return;
      link->close();
      if (self->contacts_[rank].link == link) self->contacts_[rank] = {};
    });
  }

  void tell_all(const std::string& why) {
    for (auto& contact : contacts_) {
      if (!contact.link) continue;
      contact.link->write(frame(Kind::reject), wire::to_bytes(why));
      contact.link->finish();
    }
    io_.restart();
    io_.run_for(std::chrono::milliseconds(100));
  }

  // ---- all others ----
  void dial_host() {
    if (ended_) return;
    const auto where = endpoints_[next_endpoint_++ % endpoints_.size()];
    open_door(0);
    call(where, 0, [this](const Answer& answer) {
      if (answer.kind == Answer::Kind::frame) return await_table(answer.link);
      missed(answer);
      after(kRetry, [this] { dial_host(); });
    });
  }

  // A call that failed and is made again, until a wrong token is the likeliest reason.
  void missed(const Answer& answer) {
    last_error_ = answer.error;
    if (answer.kind != Answer::Kind::no_handshake) return;
    handshake_error_ = answer.error;
    if (++handshake_failures_ >= kMaxHandshakeFailures) failure_ = situation();
  }

  // Dials; after the welcome the link is up. A refusal in words is the end.
  void call(const tcp::endpoint& where, std::size_t rank, std::function<void(const Answer&)> done) {
    const wire::Frame introduction = hello(info_, wire::Purpose::first, life_, door_->port());
    called_ = rank;
    dial_ = Dial::start(
        io_, where, static_cast<std::uint32_t>(rank), bind_, credentials_, introduction,
        kAnswerTime, [self = shared_from_this(), rank, done = std::move(done)](Answer answer) {
          if (self->ended_) return;
          self->dial_ = nullptr;
          if (answer.kind == Answer::Kind::no_handshake)
            answer.error = "it ended the handshake: " + answer.error +
                           "; are the token (GOSSAMER_TOKEN; in C: token) and tls the "
                           "same for all workers?";
          if (answer.kind == Answer::Kind::frame && !self->is_member(rank, *answer.link)) {
            answer.link->close();
            answer.kind = Answer::Kind::no_handshake;
            answer.error = "another process answers than the one that met worker 0";
          }
          if (answer.kind != Answer::Kind::frame) return done(answer);
          if (answer.frame.kind == Kind::welcome && answer.frame.rank == rank) {
            self->contacts_[rank] = {answer.link, Side::caller, {}, answer.frame.life, answer.id};
            self->handshake_failures_ = 0;
            return done(answer);
          }
          answer.link->close();
          self->failure_ = "worker " + std::to_string(rank) + " refused this worker: " +
                           (answer.frame.kind == Kind::reject ? wire::printable(answer.payload)
                                                              : "another worker answers there");
        });
  }

  void await_table(const std::shared_ptr<Connection>& link) {
    link->read([self = shared_from_this(), link](const std::string& error, const wire::Frame& frame,
                                                 const wire::Bytes& payload) {
      if (self->ended_) return;
      const char* wrong = nullptr;
      if (!error.empty()) {
        self->failure_ = "worker 0 ended while workers were meeting: " + error;
      } else if (frame.kind == Kind::reject) {
        self->failure_ = wire::printable(payload);
      } else if (frame.kind != Kind::table ||
                 (wrong = wire::decode_table(payload, self->table_)) != nullptr ||
                 self->table_.size() != static_cast<std::size_t>(self->info_.size)) {
        self->failure_ = std::string("worker 0 sent ") +
                         (wrong != nullptr ? wrong : "something else than the table of workers");
      } else {
        self->have_table_ = true;
        self->forget_strangers();
        // Behind NAT the others know another address.
        asio::error_code failed;
        self->local_address_ =
            seen_from_outside(link->socket().local_endpoint(failed).address().to_string(),
                              self->table_[static_cast<std::size_t>(self->info_.rank)].host);
        self->table_since_ = SteadyClock::now();
        for (int r = 1; r < self->info_.rank; ++r) self->to_dial_.push_back(r);
        self->dial_next();
        self->after(kTurn, [self] {
          for (int r = self->info_.rank + 1; r < self->info_.size; ++r) self->to_dial_.push_back(r);
          if (!self->dial_) self->dial_next();
        });
      }
    });
  }

  bool calls(std::uint32_t rank) const { return dial_ && called_ == rank; }

  void dial_next() {
    std::erase_if(to_dial_,
                  [this](int r) { return contacts_[static_cast<std::size_t>(r)].link != nullptr; });
    if (ended_ || dial_ || to_dial_.empty()) return;
    const int rank = to_dial_.front();
    to_dial_.pop_front();
    const wire::Address& a = table_[static_cast<std::size_t>(rank)];
    asio::error_code bad;
    const tcp::endpoint where(asio::ip::make_address(a.host, bad), a.port);
    call(where, static_cast<std::size_t>(rank), [this, rank, where](const Answer& answer) {
      if (answer.kind == Answer::Kind::frame) return unreached_.clear(), dial_next();
      unreached_ = "cannot reach worker " + std::to_string(rank) + " at " +
                   host_and_port(where.address().to_string(), where.port()) + ": " + answer.error +
                   ", and it does not call. It died, or neither can reach the " +
                   "other: of two workers one must have an address that the other can call";
      if (answer.kind == Answer::Kind::nobody_there && SteadyClock::now() > table_since_ + kGone) {
        failure_ = unreached_;
        return;
      }
      missed(answer);  // its door may be besieged
      to_dial_.push_back(rank);
      after(kRetry, [this] { dial_next(); });
    });
  }

  asio::io_context& io_;
  const LaunchInfo info_;
  const JoinOptions& options_;
  const std::uint64_t life_;
  const Credentials credentials_;
  const asio::ip::address bind_;
  std::shared_ptr<Door> door_;
  std::vector<Contact> contacts_;
  std::vector<std::shared_ptr<Connection>> watched_;
  std::vector<wire::Address> table_;
  std::vector<tcp::endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  std::vector<std::shared_ptr<asio::steady_timer>> timers_;
  std::shared_ptr<Dial> dial_;
  std::size_t called_ = 0;  // whom it calls
  std::deque<int> to_dial_;
  std::set<std::string> refused_;  // why workers were
  // worker 0: who was started for another number of workers, and for which; none of contacts_
  std::map<std::uint32_t, std::uint32_t> misfits_;
  SteadyClock::time_point hopeless_since_{}, table_since_{};
  std::string local_address_, last_error_, handshake_error_, unreached_, failure_;
  int handshake_failures_ = 0;
  bool have_table_ = false, ended_ = false;
};

}  // namespace

wire::Frame hello(const LaunchInfo& info, wire::Purpose purpose, std::uint64_t life,
                  std::uint16_t port) {
  wire::Frame f;
  f.kind = Kind::hello;
  f.rank = static_cast<std::uint32_t>(info.rank);
  f.world = static_cast<std::uint32_t>(info.size);
  f.port = port;
  f.purpose = purpose;
  f.life = life;
  return f;
}

std::vector<tcp::endpoint> resolve(asio::io_context& io, const std::string& host, int port) {
  tcp::resolver resolver(io);
  asio::error_code error;
  const auto found =
      resolver.resolve(host, std::to_string(port), tcp::resolver::numeric_service, error);
  check<DistError>(!error && !found.empty(), "the host of a worker, \"", host,
                   "\", does not resolve (", error.message(),
                   "); wanted a name or an address that this machine knows, without spaces, "
                   "brackets or port");
  std::vector<tcp::endpoint> out;
  for (const auto& entry : found) out.push_back(entry.endpoint());
  std::stable_partition(out.begin(), out.end(),
                        [](const tcp::endpoint& e) { return e.address().is_v4(); });
  return out;
}

void await_name(const LaunchInfo& info, const JoinOptions& options) {
  if (info.local) return;
  std::vector<std::string> hosts{info.host};
  int port = 0;
  for (const std::string& seed : info.seeds)
    read_host_port("seed", seed, hosts.emplace_back(), port);
  asio::io_context io;
  const auto until = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                              Seconds(options.connect_timeout_s));
  for (bool again = false;; again = true) {
    for (const std::string& host : hosts) try {
        resolve(io, host, info.port);
        return;
      } catch (const DistError&) {
        const bool is_none = host.find_first_of("[] \t") != host.npos;
        if (&host == &hosts.back() && (is_none || SteadyClock::now() + kAskNamesAgain > until))
          throw;
      }
    if (!again && options.on_wait)
      options.on_wait("the name \"" + info.host + "\" is not known yet; asked for again");
    for (const auto next = SteadyClock::now() + kAskNamesAgain; SteadyClock::now() < next;) {
      check_cancelled();
      std::this_thread::sleep_for(kLook);
    }
  }
}

std::string seen_from_outside(const std::string& host, const std::string& local_address) {
  asio::error_code error;
  const bool here = asio::ip::make_address(host, error).is_loopback() && !error;
  return here && !asio::ip::make_address(local_address, error).is_loopback() ? local_address : host;
}

JoinedGroup meet(asio::io_context& io, const LaunchInfo& info, const JoinOptions& options,
                 const Credentials& credentials, std::uint64_t life) {
  return std::make_shared<Rendezvous>(io, info, options, credentials, life)->run();
}

}  // namespace gossamer::dist
