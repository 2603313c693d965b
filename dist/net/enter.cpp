// How a process that nobody has given a rank finds a place in a job that is running.
#include <algorithm>
#include <chrono>
#include <thread>

#include "gossamer/core/cancel.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/launch_sources.h"
#include "gossamer/dist/net/rendezvous.h"

namespace gossamer::dist {
namespace {

using wire::Kind;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kCallTime(3000), kRetry(250);
constexpr std::chrono::milliseconds kLook(50);  // whether the caller has cancelled

// What one worker says: its table, and about the job.
struct Told {
  std::vector<wire::Address> table;
  std::uint32_t started = 0;
  std::string about;
};

class Asking : public std::enable_shared_from_this<Asking> {
 public:
  Asking(asio::io_context& io, const LaunchInfo& info, const Credentials& credentials)
      : io_(io),
        credentials_(credentials),
        bind_(asio::ip::make_address(bind_address(info))),
        hello_(hello(info, wire::Purpose::enter, greeting::fresh_number(), 0)) {
    hello_.rank = hello_.world = 0;
  }

  // Calls one worker. After it: told(), or why there is nothing.
  void call(const asio::ip::tcp::endpoint& where) {
    const auto until = Clock::now() + kCallTime;
    ended_ = turned_away_ = false;
    dial_ = Dial::start(io_, where, greeting::kAnyone, bind_, credentials_, hello_, kCallTime,
                        [self = shared_from_this()](const Answer& a) { self->answered(a); });
    while (!ended_ && Clock::now() < until) {
      check_cancelled();
      io_.restart();
      io_.run_one_until(std::min(until, Clock::now() + kLook));
    }
    if (!ended_) end("no answer");
  }
  const std::string& why() const { return why_; }
  // The other side ended the handshake: most likely it has another token, or encrypts otherwise.
  bool was_turned_away() const { return turned_away_; }
  const Told& told() const { return told_; }

 private:
  void answered(const Answer& a) {
    turned_away_ = a.kind == Answer::Kind::no_handshake;
    if (a.kind != Answer::Kind::frame) return end(a.error);
    link_ = a.link;
    if (a.frame.kind == Kind::reject) return end(wire::printable(a.payload));
    if (a.frame.kind != Kind::welcome) return end("it knows nothing of joining");
    read();
  }
  void read() {
    link_->read([self = shared_from_this()](const std::string& error, const wire::Frame& frame,
                                            const wire::Bytes& payload) {
      if (self->ended_) return;
      const char* wrong = nullptr;
      if (!error.empty()) return self->end(error);
      if (frame.kind == Kind::table)
        wrong = wire::decode_table(payload, self->told_.table);
      else if (frame.kind == Kind::about)
        wrong = wire::decode_about(payload, self->told_.started, self->told_.about);
      else
        wrong = "something else than what was asked";
      if (wrong != nullptr) return self->end(std::string("it sent ") + wrong);
      if (frame.kind == Kind::table) return self->read();
      self->end("");
    });
  }
  void end(const std::string& why) {
    ended_ = true;
    why_ = why;
    if (dial_) dial_->cancel();
    dial_ = nullptr;
    if (link_) link_->close();
    link_ = nullptr;
  }

  asio::io_context& io_;
  const Credentials credentials_;
  const asio::ip::address bind_;
  wire::Frame hello_;
  std::shared_ptr<Dial> dial_;
  std::shared_ptr<Connection> link_;
  Told told_;
  std::string why_;
  bool ended_ = false, turned_away_ = false;
};

// One of the free places, drawn at random: two that ask at once seldom draw the same.
Entry entry_of(const Told& told, LaunchInfo place) {
  std::vector<int> free;
  place.seeds.clear();
  for (std::size_t r = 0; r < told.table.size(); ++r) {
    if (told.table[r].port != 0)
      place.seeds.push_back(host_and_port(told.table[r].host, told.table[r].port));
    else if (r >= told.started)
      free.push_back(static_cast<int>(r));
  }
  place.size = static_cast<int>(told.started);
  place.places = static_cast<int>(told.table.size());
  const std::string job = "the job at " + host_and_port(place.host, place.port);
  check<DistError>(place.places > place.size, job,
                   " has no places for workers that join later: as many as its ", place.size,
                   " workers");
  check<DistError>(!free.empty(), job, " has ", place.places, " places, and all are taken");
  place.rank = free[greeting::fresh_number() % free.size()];
  place.rejoin = true;
  place.source = "joined";
  place.local_rank = 0;
  place.local_size = 1;
  return {place, told.about};
}

}  // namespace

Entry enter(const LaunchInfo& with, const std::vector<std::string>& seeds,
            const JoinOptions& options) {
  check<ConfigError>(!seeds.empty(), "no worker of the job is named: give host:port of one");
  LaunchInfo info = with;
  info.rank = 0, info.size = 1, info.places = 2;
  std::vector<std::pair<std::string, int>> where;
  for (const std::string& seed : seeds) {
    auto& [host, port] = where.emplace_back();
    read_host_port("join", seed, host, port);
  }
  info.host = where[0].first;
  info.port = where[0].second;
  info.local = std::ranges::all_of(where, [](const auto& w) { return is_loopback(w.first); });
  info = with_token(info, options.open);
  Credentials credentials{.token = wire::make_token(info.token)};
  if (encrypts(info, options.tls)) credentials.tls = std::make_shared<const Tls>();

  asio::io_context io;
  const auto asking = std::make_shared<Asking>(io, info, credentials);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        Seconds(options.connect_timeout_s));
  auto notice = Clock::now() + std::chrono::seconds(10);
  std::string why;
  int turned_away = 0;
  do {
    for (const auto& [host, port] : where) {
      std::vector<asio::ip::tcp::endpoint> endpoints;
      try {
        endpoints = resolve(io, host, port);
      } catch (const DistError& e) {  // asked again: a name may be new
        why = e.what();
      }
      for (const auto& endpoint : endpoints) {
        asking->call(endpoint);
        if (asking->why().empty()) return entry_of(asking->told(), info);
        why = host_and_port(host, port) + ": " + asking->why();
        if (asking->was_turned_away()) ++turned_away;
      }
    }
    if (Clock::now() > notice && options.on_wait) {
      options.on_wait("waiting for the job (" + why + ")");
      notice += std::chrono::seconds(10);
    }
    for (const auto next = Clock::now() + kRetry; Clock::now() < next;) {
      check_cancelled();
      std::this_thread::sleep_for(kLook);
    }
  } while (Clock::now() < until && turned_away < kMaxHandshakeFailures);
  fail<DistError>(
      "no worker of the job lets this one in (", why,
      "). Does it run, is the address that of a worker, and are token and tls the same?");
}

}  // namespace gossamer::dist
