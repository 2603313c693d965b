// Workers that come to the control link, and come back: the first meeting, lost connections,
// processes that were started again.
#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/asio_link_impl.h"
#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::dist {
namespace {

using asio::ip::tcp;
using wire::Kind;
using wire::Purpose;
constexpr std::chrono::milliseconds kFirstWait(250), kLongestWait(2000);  // between two dials
// where no process listens: it will rather come to us, but a host may be starting
constexpr std::chrono::seconds kNobodyWait(10);
constexpr std::chrono::milliseconds kDialTime(3000);
// two that dial each other at once: the second call is superfluous
constexpr std::chrono::seconds kJustConnected(1);
// a restarted worker waits so long for those that do not answer at once
constexpr std::chrono::seconds kTableTime(3);

}  // namespace

void AsioLink::Impl::meet_all() {
  JoinedGroup joined = meet(io, info, options, credentials, life);
  door = joined.door;
  local_address = joined.local_address;
  for_peers([&](int r, Peer& p) {
    if (is_spare(r)) return;
    Contact& c = joined.contacts[static_cast<std::size_t>(r)];
    p.link = c.link;
    p.address = c.address;
    p.life = c.life;
    p.id = c.id;
    p.side = c.side;
    p.key = c.link->peer();
    p.grant = c.link->grant();
    p.heard = p.connected = Clock::now();
    p.arrivals = 1;
    p.alive = true;
  });
  door->receive([this](const wire::Frame& hello, const auto& link, std::uint64_t id) {
    arrived(hello, link, id);
  });
  io.restart();
  for_peers([&](int r, Peer& p) {
    if (p.alive) listen(r);
  });
  start();
}

void AsioLink::Impl::rejoin() {
  door = std::make_shared<Door>(io, info.rank, credentials, options.on_refused);
  door->receive([this](const wire::Frame& hello, const auto& link, std::uint64_t id) {
    arrived(hello, link, id);
  });
  if (!bind.is_unspecified()) local_address = bind.to_string();
  std::string names, seed_error;
  std::vector<std::pair<std::string, int>> where;
  for (const std::string& seed : info.seeds) {
    auto& [host, port] = where.emplace_back();
    read_host_port("seed", seed, host, port);
  }
  where.emplace_back(info.host, info.port);
  for (auto& [host, port] : where) {
    names += (names.empty() ? "" : ", ") + host_and_port(host, port);
    try {
      for (const auto& endpoint : resolve(io, host, port)) seeds.push_back(endpoint);
    } catch (const DistError& e) {  // its machine may be gone, name and all
      seed_error = e.what();
    }
  }
  check<DistError>(
      info.rank != 0 || !info.seeds.empty(),
      "worker 0 was started again, and knows nobody to ask: others ask worker 0; it asks the "
      "workers that GOSSAMER_SEEDS names");
  check<DistError>(!seeds.empty(), "worker ", info.rank,
                   " was started again, and knows nobody to ask: ", seed_error);
  door->open({bind, 0}, info.listener);
  asio::post(io, [this] { ask_a_seed(); });
  start();
  std::unique_lock lock(mutex);
  const auto seconds = [](double s) {
    return std::chrono::duration_cast<Clock::duration>(Seconds(s));
  };
  const bool found = changed.wait_for(lock, seconds(options.connect_timeout_s),
                                      [this] { return have_table || taken; });
  if (found) changed.wait_for(lock, kTableTime, [this] { return untried == 0 || taken; });
  if (found) changed.wait_for(lock, kMeetTime, [this] { return unmet.empty() || taken; });
  const bool lost_place = taken;
  if (found && !lost_place && !nobody_alive() && unmet.empty()) {
    takes_part = true;
    return;
  }
  const std::string error = seek_error;
  const std::vector<int> without = unmet;
  lock.unlock();
  leave();
  check<PlaceTaken>(!lost_place, "place ", info.rank,
                    " was free, and another process has taken it");
  check<DistError>(without.empty(), "this worker and worker", without.size() > 1 ? "s " : " ",
                   listed(without),
                   " cannot reach each other: of two workers one must have an address that the "
                   "other can call");
  fail<DistError>("worker ", info.rank,
                  " was started again, but none of those that should go on answers at ", names,
                  " (", error.empty() ? "no answer" : error,
                  "); do they live, and have they the same token?");
}

// One after the other, until a worker that takes part has answered.
void AsioLink::Impl::ask_a_seed() {
  if (leaving || have_table || seeking) return;
  const auto where = seeds[next_seed++ % seeds.size()];
  const wire::Frame introduction = hello(info, Purpose::rejoin, life, door->port());
  seeking = Dial::start(
      io, where, greeting::kAnyone, bind, credentials, introduction, kDialTime,
      [this, where](const Answer& a) {
        seeking = nullptr;
        const int rank = static_cast<int>(a.frame.rank);
        if (a.kind == Answer::Kind::frame && a.frame.kind == Kind::taken) say_taken();
        const bool welcome = a.kind == Answer::Kind::frame && a.frame.kind == Kind::welcome &&
                             rank != info.rank && rank < size();
        if (welcome) {
          Peer& p = peer(rank);
          p.address = {where.address().to_string(), where.port()};
          // Two that ask each other at once: the call of the higher rank counts, as in objection().
          if (p.alive && p.life == a.frame.life && info.rank < rank &&
              Clock::now() - p.connected < kJustConnected)
            a.link->close();
          else
            adopt(rank, a.link, a.id, a.frame.life, Side::caller);
          // It sends the table now, unless it was just started again itself: then the next one is
          // asked.
        } else {
          std::lock_guard lock(mutex);
          seek_error = a.kind == Answer::Kind::frame ? wire::printable(a.payload) : a.error;
          if (a.link) a.link->close();
        }
        Peer& timer_of = *peers[static_cast<std::size_t>(info.rank)];
        timer_of.retry.expires_after(
            welcome || next_seed % seeds.size() == 0 ? kFirstWait : std::chrono::milliseconds(0));
        timer_of.retry.async_wait([this](const asio::error_code& stopped) {
          if (!stopped) ask_a_seed();
        });
      });
}

// The table of a worker that we asked; later, of one that has met another that was started again.
// Two that were started again at once know each other's new address only from it. For a worker that
// was not away only others are news that may be unable to call it.
void AsioLink::Impl::learn(const wire::Bytes& bytes) {
  std::vector<wire::Address> addresses;
  if (wire::decode_table(bytes, addresses) != nullptr || addresses.size() != peers.size()) return;
  if (!info.rejoin) return learn_of_newcomers(addresses);
  std::vector<int> news;
  for_peers([&](int r, Peer& p) {
    const wire::Address& now = addresses[static_cast<std::size_t>(r)];
    p.unmet = now.alive && !p.alive && (p.unmet || !have_table);
    const bool same = now.host == p.address.host && now.port == p.address.port;
    if (p.alive || now.port == 0 || (have_table && (same || p.life != 0))) return;
    p.address = now;
    p.seek = true;
    p.patience = {};
    p.retry.cancel();
    if (p.dial) p.dial->cancel();
    p.dial = nullptr;
    news.push_back(r);
  });
  {
    std::lock_guard lock(mutex);
    for (const int r : news)
      if (!std::exchange(peer(r).untried, true)) ++untried;
    have_table = true;
  }
  note_unmet();
  for (const int r : news) dial(r);
}

void AsioLink::Impl::note_unmet() {
  {
    std::lock_guard lock(mutex);
    unmet.clear();
    for_peers([&](int r, Peer& p) {
      if (p.unmet) unmet.push_back(r);
    });
  }
  changed.notify_all();
}

void AsioLink::Impl::learn_of_newcomers(const std::vector<wire::Address>& addresses) {
  for_peers([&](int r, Peer& p) {
    const wire::Address& now = addresses[static_cast<std::size_t>(r)];
    if (p.alive || now.port == 0 || (now.host == p.address.host && now.port == p.address.port))
      return;
    p.address = now;
    p.patience = {};
    dial_later(r, kTurn);
  });
}

// A worker that joined and is gone leaves a free place behind: it has no address.
wire::Bytes AsioLink::Impl::table() const {
  std::vector<wire::Address> addresses(peers.size());
  for_peers([&](int r, Peer& p) {
    wire::Address& said = addresses[static_cast<std::size_t>(r)];
    if (p.alive || !is_spare(r)) said = p.address;
    said.alive = p.alive;
  });
  addresses[static_cast<std::size_t>(info.rank)] = {
      local_address, door->port(), credentials.tls ? credentials.tls->own() : PublicKey{}, true};
  return wire::encode_table(addresses);
}

// Where the job encrypts: whether this may be the worker that we knew as `p`. A new process in its
// place needs the launcher's word. Where the launcher gives none, it can only take a place whose
// process has gone.
bool AsioLink::Impl::may_follow(int rank, const Connection& link) const {
  const Peer& p = peer(rank);
  if (!credentials.tls || p.key == PublicKey{} || link.peer() == p.key) return true;
  if (!credentials.launcher || is_spare(rank)) return !p.alive;
  return p.grant && link.grant() && link.grant()->generation > p.grant->generation;
}

// Whether the launcher says that another process has our place. Without encryption all workers are
// on one machine, and believe each other. For places of those that join there is no grant: the
// others' word counts.
bool AsioLink::Impl::is_replaced(const wire::Bytes& proof) const {
  if (!credentials.tls || is_spare(info.rank)) return true;
  const auto grant = decode_grant(proof);
  return grant && granted && grant->rank == granted->grant.rank &&
         grant->generation > granted->grant.generation && genuine(*grant, granted->launcher);
}

void AsioLink::Impl::tell_replaced(int rank, Connection& link) const {
  const auto& grant = peer(rank).grant;
  link.write(frame(Kind::replaced),
             credentials.tls && grant
                 ? encode(*grant)
                 : wire::to_bytes("another process was started as worker " + std::to_string(rank)));
}

// For one that asks for a place: who we are, which places have workers, and what the job is.
void AsioLink::Impl::tell_about(Connection& link) const {
  if (info.rejoin && !have_table) {
    link.write(frame(Kind::reject), wire::to_bytes("it has just come itself"));
    return;
  }
  link.write(frame(Kind::welcome));
  link.write(frame(Kind::table), table());
  link.write(frame(Kind::about),
             wire::encode_about(static_cast<std::uint32_t>(info.size), options.about));
}

void AsioLink::Impl::say_taken() {
  {
    std::lock_guard lock(mutex);
    taken = true;
  }
  changed.notify_all();
}

// Why this caller can't be let in; empty: it can.
std::string AsioLink::Impl::objection(const wire::Frame& hello, const Connection& link) const {
  const int rank = static_cast<int>(hello.rank);
  if (static_cast<int>(hello.world) != info.size)
    return "worker " + std::to_string(rank) + " was started for " + std::to_string(hello.world) +
           " workers, this job has " + std::to_string(info.size);
  if (rank >= size())
    return "there is no place " + std::to_string(rank) + " of " + std::to_string(size());
  if (rank == info.rank) return "this is worker " + std::to_string(rank) + " itself";
  const Peer& p = *peers[static_cast<std::size_t>(rank)];
  if (hello.purpose == Purpose::first)
    return "the job has begun, with a worker " + std::to_string(rank) +
           ". A process that is to take its place is started with GOSSAMER_REJOIN=1, or in C with "
           "`restarted` of gsm_join_options";
  const bool replaced = hello.purpose == Purpose::back && p.life != 0 && p.life != hello.life;
  if (!replaced && !is_spare(rank) && !may_follow(rank, link))
    return "worker " + std::to_string(rank) +
           (credentials.launcher ? " was not started again by the launcher"
                                 : " lives; a process that is to take its place waits for its end");
  if (p.alive && p.life == hello.life && Clock::now() - p.connected < kJustConnected)
    return "connected already";
  if (p.dial && p.dial->said_hello() && info.rank > rank) return "a call from here is under way";
  return "";
}

// This worker has left in peace, and calls as if nothing had begun: those who use the address again
// call until we have left it, too.
bool AsioLink::Impl::belongs_to_the_next_job(const wire::Frame& hello) const {
  if (hello.purpose != Purpose::first || hello.rank >= peers.size() ||
      static_cast<int>(hello.rank) == info.rank)
    return false;
  const Peer& p = *peers[hello.rank];
  const std::lock_guard lock(mutex);
  return !p.alive && p.why == "left";
}

void AsioLink::Impl::arrived(const wire::Frame& hello, const std::shared_ptr<Connection>& link,
                             std::uint64_t id) {
  if (leaving || dropped || belongs_to_the_next_job(hello)) return link->close();
  const auto send_off = [&](const std::string& why) {
    if (!why.empty()) link->write(frame(Kind::reject), wire::to_bytes(why));
    link->finish();
    auto later = std::make_shared<asio::steady_timer>(io, std::chrono::seconds(1));
    later->async_wait([link, later](const asio::error_code&) { link->close(); });
  };
  if (hello.purpose == Purpose::enter) return tell_about(*link), send_off("");
  if (const std::string why = objection(hello, *link); !why.empty()) return send_off(why);
  const int rank = static_cast<int>(hello.rank);
  Peer& p = peer(rank);
  const bool another = p.life != 0 && p.life != hello.life;
  if (hello.purpose == Purpose::rejoin && another && p.alive && is_spare(rank))
    return link->write(frame(Kind::taken)), send_off("");
  // Two may have taken a place that was free while the network was cut. Whoever is asked, the same
  // one stays.
  if (hello.purpose == Purpose::back && another &&
      (is_spare(rank) ? p.alive && p.life < hello.life : true))
    return tell_replaced(rank, *link), send_off("");
  asio::error_code error;
  p.address = {
      seen_from_outside(link->socket().remote_endpoint(error).address().to_string(), local_address),
      hello.port, link->peer()};
  link->write(frame(Kind::welcome));
  const bool news = hello.purpose == Purpose::rejoin && hello.life != p.life;
  if (hello.purpose == Purpose::rejoin && (!info.rejoin || have_table))
    link->write(frame(Kind::table), table());
  adopt(rank, link, id, hello.life, Side::door);
  if (!news) return;
  p.newcomer = true;
  // For those that were started again, too, and still look for it at its old address.
  for_peers([&](int r, Peer& other) {
    if (r != rank && other.alive) other.link->write(frame(Kind::table), table());
  });
}

// The connection to this peer from now on. Nothing of an older one counts any more.
void AsioLink::Impl::adopt(int rank, const std::shared_ptr<Connection>& link, std::uint64_t id,
                           std::uint64_t life_of_peer, Side side) {
  Peer& p = peer(rank);
  if (p.alive && p.life != life_of_peer) {
    p.grant = link->grant();
    tell_replaced(rank, *p.link);
    p.link->finish();
    mark_dead_gently(rank, "started again");
  } else if (p.alive) {  // it noticed first: to it this worker was dead
    mark_given_up(rank, "the connection was lost");
  }
  if (p.dial) p.dial->cancel();
  p.dial = nullptr;
  p.retry.cancel();
  if (p.life != life_of_peer) p.clock.forget();
  p.link = link;
  p.life = life_of_peer;
  p.id = id;
  p.side = side;
  p.heard = p.connected = Clock::now();
  p.beats = true;
  p.lost = false;
  p.patience = {};
  p.mark = 0;
  p.seek = p.unmet = p.newcomer = false;
  for (auto& each : p.notices) each.value = -INFINITY;
  p.grant = link->grant();
  {
    std::lock_guard lock(mutex);
    p.why.clear();
    p.key = link->peer();
    if (local_address.empty()) {
      asio::error_code error;
      local_address = link->socket().local_endpoint(error).address().to_string();
    }
    ++p.arrivals;
    p.alive = true;
  }
  changed.notify_all();
  if (info.rejoin) note_unmet();
  say_joined(-1);
  Event e;
  e.kind = Event::Kind::joined;
  e.peer = rank;
  e.session = p.arrivals;
  events.push(std::move(e));
  tried(rank);
  listen(rank);
}

void AsioLink::Impl::say_joined(int rank) {
  std::lock_guard lock(hooks_mutex);
  if (hooks.joined) hooks.joined(rank);
}

void AsioLink::Impl::dial_later(int rank, Clock::duration wait) {
  Peer& p = peer(rank);
  if (leaving || p.alive || p.address.port == 0) return;
  p.retry.expires_after(wait);
  p.retry.async_wait([this, rank](const asio::error_code& stopped) {
    if (!stopped) dial(rank);
  });
}

void AsioLink::Impl::dial(int rank) {
  Peer& p = peer(rank);
  if (leaving || dropped || p.alive || p.dial) return;
  asio::error_code error;
  const tcp::endpoint where(asio::ip::make_address(p.address.host, error), p.address.port);
  if (error) return tried(rank);
  // Who takes part keeps its place against another process.
  const bool seeks = p.seek && !(takes_part && is_spare(info.rank));
  const wire::Frame introduction =
      hello(info, seeks ? Purpose::rejoin : Purpose::back, life, door->port());
  p.dial = Dial::start(io, where, static_cast<std::uint32_t>(rank), bind, credentials, introduction,
                       kDialTime, [this, rank](const Answer& a) {
                         peer(rank).dial = nullptr;
                         answered(rank, a);
                       });
}

void AsioLink::Impl::answered(int rank, const Answer& a) {
  Peer& p = peer(rank);
  if (p.alive || leaving) {
    if (a.link) a.link->close();
    return;
  }
  if (a.kind == Answer::Kind::frame && a.frame.kind == Kind::welcome &&
      static_cast<int>(a.frame.rank) == rank && may_follow(rank, *a.link)) {
    // Another process than the one we knew: it may not have found anybody else yet.
    if (p.life != 0 && p.life != a.frame.life) a.link->write(frame(Kind::table), table());
    return adopt(rank, a.link, a.id, a.frame.life, Side::caller);
  }
  if (a.link) a.link->close();
  if (a.kind == Answer::Kind::frame && a.frame.kind == Kind::taken) say_taken();
  tried(rank);
  if (a.kind == Answer::Kind::frame && a.frame.kind == Kind::replaced && is_replaced(a.payload))
    return give_up("another process was started as worker " + std::to_string(info.rank) +
                   " meanwhile");
  if (a.kind == Answer::Kind::nobody_there) {
    p.lost = false;  // its process has ended
    return dial_later(rank, kNobodyWait);
  }
  p.patience = std::clamp<Clock::duration>(p.patience * 2, kFirstWait, kLongestWait);
  dial_later(rank, p.patience);
}

// A restarted worker begins when all of the table have been called once.
void AsioLink::Impl::tried(int rank) {
  Peer& p = peer(rank);
  if (!p.untried) return;
  p.untried = false;
  {
    std::lock_guard lock(mutex);
    --untried;
  }
  changed.notify_all();
}

}  // namespace gossamer::dist
