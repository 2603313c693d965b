// What other threads call of the control link.
#include "gossamer/dist/net/asio_link.h"

#include <algorithm>
#include <asio/post.hpp>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/asio_link_impl.h"
#include "gossamer/dist/net/greeting.h"

namespace gossamer::dist {

using wire::Kind;

namespace {

constexpr double kMostBeatsASecond = 125;  // of one worker

Credentials credentials_of(const LaunchInfo& info, const JoinOptions& options,
                           const std::optional<Identity>& granted) {
  Credentials made{.token = wire::make_token(info.token)};
  made.started = static_cast<std::uint32_t>(info.size);
  if (!encrypts(info, options.tls)) return made;
  made.tls = granted ? std::make_shared<const Tls>(granted->own, granted->grant)
                     : std::make_shared<const Tls>();
  if (granted) made.launcher = granted->launcher;
  return made;
}

}  // namespace

AsioLink::Impl::Impl(const LaunchInfo& i, const JoinOptions& o)
    : info(i),
      options(o),
      dead_after(o.dead_after_s),
      // Among many each message costs all of them: as seldom as silence is still noticed in time.
      heartbeat(std::max(o.heartbeat_s,
                         std::min(o.dead_after_s / 4, i.all_places() / kMostBeatsASecond))),
      life(greeting::fresh_number()),
      granted(i.grant.empty() ? std::nullopt : std::optional(identity(i.grant))),
      credentials(credentials_of(i, o, granted)),
      bind((await_name(i, o), asio::ip::make_address(bind_address(i)))) {
  for (int r = 0; r < info.all_places(); ++r) peers.push_back(std::make_unique<Peer>(io));
}

AsioLink::Impl::Peer& AsioLink::Impl::peer(int rank) const {
  if (rank < 0 || rank >= size() || rank == info.rank)
    fail<DistError>("worker ", info.rank, " of ", size(), " has no peer ", rank);
  return *peers[static_cast<std::size_t>(rank)];
}

wire::Frame AsioLink::Impl::frame(Kind kind, std::uint64_t key) const {
  wire::Frame f;
  f.kind = kind;
  f.rank = static_cast<std::uint32_t>(info.rank);
  f.key = key;
  if (kind == Kind::welcome) f.life = life;
  return f;
}

AsioLink::AsioLink(const LaunchInfo& info, const JoinOptions& options)
    : impl_(std::make_unique<Impl>(info, options)) {
  if (info.rejoin)
    impl_->rejoin();
  else
    impl_->meet_all();
}

AsioLink::~AsioLink() { impl_->leave(); }

void AsioLink::send(int to, const Message& message) {
  Impl::Peer& p = impl_->peer(to);
  if (!p.alive) return;
  wire::Frame f = impl_->frame(Kind::message);
  f.message = message;
  asio::post(impl_->io, [&p, f, arrival = p.arrivals.load()] {
    if (p.alive && p.arrivals == arrival) p.link->write(f);
  });
}

Event AsioLink::next(Seconds timeout) {
  Event e;
  if (!impl_->dropped) e = impl_->events.pop(timeout);
  if (impl_->dropped) throw GivenUp(given_up());
  return e;
}

void AsioLink::post(Event e) { impl_->events.push(std::move(e)); }

bool AsioLink::alive(int peer) const {
  return peer == impl_->info.rank ? !impl_->dropped : impl_->peer(peer).alive.load();
}

std::optional<double> AsioLink::notice(Notice what, int peer) const {
  const double value = impl_->peer(peer).notices[static_cast<std::size_t>(what)].value;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int AsioLink::rank() const { return impl_->info.rank; }
int AsioLink::size() const { return impl_->size(); }
int AsioLink::started() const { return impl_->info.size; }
int AsioLink::refused() const { return impl_->door->refused(); }
std::uint64_t AsioLink::arrivals(int peer) const { return impl_->peer(peer).arrivals; }
std::uint64_t AsioLink::connection(int peer) const { return impl_->peer(peer).id; }
Side AsioLink::side(int peer) const { return impl_->peer(peer).side; }
MemberKeys AsioLink::keys(const std::vector<int>& ranks) const {
  MemberKeys keys{impl_->credentials.tls, {}};
  if (!keys.tls) return keys;
  std::lock_guard lock(impl_->mutex);
  for (const int r : ranks)
    keys.of.push_back(r == impl_->info.rank ? keys.tls->own() : impl_->peer(r).key);
  return keys;
}
std::optional<ClockEstimate> AsioLink::clock_offset(int peer, double at_us) const {
  return impl_->peer(peer).clock.at(at_us);
}

Seconds AsioLink::dead_after() const { return impl_->dead_after; }
std::string AsioLink::local_address() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->local_address;
}

std::vector<int> AsioLink::alive() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (r == rank() || alive(r)) ranks.push_back(r);
  return ranks;
}

std::string AsioLink::why_dead(int peer) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->peer(peer).why;
}

std::string AsioLink::given_up_by(int peer) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->peer(peer).gave_us_up;
}

std::string AsioLink::given_up() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->dropped_why;
}

void AsioLink::put(int to, std::uint64_t key, const std::vector<char>& value,
                   std::uint64_t arrival) {
  Impl::Peer& p = impl_->peer(to);
  if (!p.alive) return;
  check<DistError>(value.size() <= wire::kMaxPayload, "a value of ", value.size(),
                   " bytes for worker ", to, ": at most ", wire::kMaxPayload);
  if (arrival == 0) arrival = p.arrivals;
  asio::post(impl_->io, [impl = impl_.get(), &p, key, arrival,
                         bytes = wire::Bytes(value.begin(), value.end())] {
    if (p.alive && p.arrivals == arrival) p.link->write(impl->frame(Kind::key_value, key), bytes);
  });
}

std::optional<std::vector<char>> AsioLink::take(int from, std::uint64_t key, TimePoint until,
                                                const std::atomic<bool>& stop) {
  auto found = take_any({from}, key, until, stop);
  if (!found) return std::nullopt;
  return std::move(found->second);
}

std::optional<std::pair<int, std::vector<char>>> AsioLink::take_any(const std::vector<int>& from,
                                                                    std::uint64_t key,
                                                                    TimePoint until,
                                                                    const std::atomic<bool>& stop) {
  std::unique_lock lock(impl_->mutex);
  std::optional<int> found;
  const auto ended = [&] {
    for (int r : from) {
      const Impl::Peer& p = impl_->peer(r);
      if (!p.alive) return true;
      if (!found && p.kept.count(key) > 0) found = r;
    }
    return found || stop || impl_->dropped;
  };
  if (!impl_->changed.wait_until(lock, until, ended) || !found || stop || impl_->dropped)
    return std::nullopt;
  auto& kept = impl_->peer(*found).kept;
  std::pair out(*found, std::move(kept.at(key)));
  kept.erase(key);
  return out;
}

void AsioLink::interrupt() {
  { std::lock_guard lock(impl_->mutex); }  // a waiter is either before its check or asleep
  impl_->changed.notify_all();
}

void AsioLink::reset_edge(int to, std::uint64_t session, std::uint64_t opened,
                          std::uint64_t arrival) {
  Impl::Peer& p = impl_->peer(to);
  wire::Frame f = impl_->frame(Kind::edge_reset, session);
  f.edge = opened;
  asio::post(impl_->io, [&p, f, arrival] {
    if (p.alive && p.arrivals == arrival) p.link->write(f);
  });
}

void AsioLink::end_collectives(int to, std::uint64_t key, bool late) {
  Impl::Peer& p = impl_->peer(to);
  wire::Frame f = impl_->frame(Kind::collectives_ended, key);
  f.edge = late ? 1 : 0;
  asio::post(impl_->io, [&p, f] {
    if (p.alive) p.link->write(f);
  });
}

void AsioLink::set_mark(std::uint64_t mark) {
  impl_->own_mark = mark;
  if (mark > 0) impl_->begun = true;
}
std::uint64_t AsioLink::mark(int peer) const { return impl_->peer(peer).mark; }

void AsioLink::on_events(Hooks hooks) {
  std::lock_guard lock(impl_->hooks_mutex);
  impl_->hooks = std::move(hooks);
}

}  // namespace gossamer::dist
