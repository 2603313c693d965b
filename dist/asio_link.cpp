// The control link's thread: frames in, frames out, heartbeats, deaths.
#include "gossamer/dist/asio_link.h"

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/event_queue.h"
#include "gossamer/dist/rendezvous.h"

namespace gossamer::dist {
namespace {

using SteadyClock = std::chrono::steady_clock;
using wire::Kind;
constexpr std::size_t kMaxKept = 256;                 // values of one peer that nobody has taken yet
constexpr std::chrono::milliseconds kLeaveTime(500);  // for the others to hear that we leave

std::string seconds_text(double s) {
  std::ostringstream text;
  text.precision(2);
  text << s << " s";
  return text.str();
}

}  // namespace

struct AsioLink::Impl {
  struct Peer {
    std::shared_ptr<Connection> link;  // used on the link's thread only, as the next two
    SteadyClock::time_point heard;
    bool beats = false;  // silence counts from the first heartbeat on: until then it may still be joining
    std::atomic<bool> alive{true};
    std::atomic<std::uint64_t> mark{0};
    ClockOffset clock;
    std::string why;  // guarded by mutex, as the next
    std::map<std::uint64_t, std::vector<char>> kept;
  };

  const LaunchInfo info;
  const Seconds heartbeat, dead_after;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer timer{io};
  std::vector<std::unique_ptr<Peer>> peers;
  std::string local_address;
  int refused = 0;
  EventQueue events;
  std::atomic<std::uint64_t> own_mark{0};
  std::atomic<bool> dropped{false};

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string dropped_why;

  std::mutex hooks_mutex;
  std::function<void(int, const std::string&)> on_dead;
  std::function<void(int, std::uint64_t, std::uint64_t)> on_reset;

  SteadyClock::time_point last_tick = SteadyClock::now(), suspicious_until{};  // link's thread
  double stopped_for = 0;
  bool leaving = false;
  std::thread thread;

  Impl(const LaunchInfo& i, const JoinOptions& o) : info(i), heartbeat(o.heartbeat_s), dead_after(o.dead_after_s) {}

  wire::Frame frame(Kind kind, std::uint64_t key = 0) const {
    wire::Frame f;
    f.kind = kind;
    f.rank = static_cast<std::uint32_t>(info.rank);
    f.key = key;
    return f;
  }

  Peer& peer(int rank) const {
    if (rank < 0 || rank >= info.size || rank == info.rank)
      fail<DistError>("worker ", info.rank, " of ", info.size, " has no peer ", rank);
    return *peers[static_cast<std::size_t>(rank)];
  }

  void start() {
    timer.expires_after(std::chrono::seconds(0));
    schedule();
    for (int r = 0; r < info.size; ++r)
      if (r != info.rank) listen(r);
    thread = std::thread([this] {
      for (;;) {
        try {
          io.run();
          return;
        } catch (const std::exception& e) {  // out of memory in a handler, or a hook that threw: this worker is lost, not the process
          give_up(std::string("its communication thread failed: ") + e.what());
        }
      }
    });
  }

  void listen(int rank) {
    Peer& p = peer(rank);
    p.link->read([this, rank](const std::string& error, const wire::Frame& f, const wire::Bytes& payload) {
      if (!error.empty()) return closed(rank, error);
      Peer& from = peer(rank);
      if (!from.alive) return;  // given up, the connection is about to close
      from.heard = SteadyClock::now();
      if (receive(rank, from, f, payload)) listen(rank);
    });
  }

  bool receive(int rank, Peer& from, const wire::Frame& f, const wire::Bytes& payload) {
    switch (f.kind) {
      case Kind::beat:
        from.beats = true;
        from.mark = f.key;
        from.clock.heard(f.clock, trace::now_us());
        return true;
      case Kind::message: {
        Event e;
        e.kind = Event::Kind::message;
        e.peer = rank;
        e.message = f.message;
        events.push(std::move(e));
        return true;
      }
      case Kind::key_value: {
        {
          std::lock_guard lock(mutex);
          if (from.kept.size() >= kMaxKept) from.kept.clear();  // leftovers of sessions that failed long ago
          from.kept[f.key] = std::vector<char>(payload.begin(), payload.end());
        }
        changed.notify_all();
        return true;
      }
      case Kind::edge_reset: {
        std::lock_guard lock(hooks_mutex);
        if (on_reset) on_reset(rank, f.key, f.edge);
        return true;
      }
      case Kind::dropped:
        give_up("worker " + std::to_string(rank) + " gave this worker up: " + wire::printable(payload));
        mark_dead(rank, "gave this worker up");
        return false;
      case Kind::leaving:
        mark_dead(rank, "left");
        return false;
      default:
        mark_dead(rank, "it sent a frame that does not belong here");
        return false;
    }
  }

  void closed(int rank, const std::string& why) {
    if (leaving) {
      peer(rank).link->close();
      peer(rank).alive = false;
      return;
    }
    if (!peer(rank).alive) return;
    const auto now = SteadyClock::now();
    if (now - last_tick > dead_after) note_stop(now);
    mark_dead(rank, why);
    // Normally who gave us up says so (Kind::dropped). If that was lost: all connections ended just after we were stopped. One
    // alone may be a death in a moment when the whole machine stood still.
    const bool alone = std::none_of(peers.begin(), peers.end(), [](const auto& p) { return p && p->alive; });
    if (now < suspicious_until && alone && info.size > 2) {
      give_up("all others closed their connections while this process was stopped for " + seconds_text(stopped_for));
    }
  }

  void note_stop(SteadyClock::time_point now) {
    stopped_for = Seconds(now - last_tick).count();
    suspicious_until = now + std::chrono::duration_cast<SteadyClock::duration>(heartbeat * 4);
    last_tick = now;
    for (auto& p : peers) {
      if (p) p->heard = now;
    }
  }

  void mark_dead(int rank, const std::string& why) {
    Peer& p = peer(rank);
    {
      std::lock_guard lock(mutex);
      if (!p.alive.exchange(false)) return;
      p.why = why;
      p.kept.clear();
    }
    p.link->close();
    changed.notify_all();
    {
      std::lock_guard lock(hooks_mutex);
      if (on_dead) on_dead(rank, why);
    }
    Event e;
    e.kind = Event::Kind::dead;
    e.peer = rank;
    e.why = why;
    events.push(std::move(e));
  }

  void give_up(const std::string& why) {
    {
      std::lock_guard lock(mutex);
      if (dropped) return;
      dropped_why = why + ". Worker " + std::to_string(info.rank) + " is no longer part of the job; start it again";
      dropped = true;
    }
    changed.notify_all();
    {
      std::lock_guard lock(hooks_mutex);
      if (on_dead) on_dead(info.rank, why);
    }
    Event e;
    e.kind = Event::Kind::woken;
    events.push(std::move(e));
  }

  void schedule() {
    timer.async_wait([this](const asio::error_code& stopped) {
      if (stopped || leaving) return;
      tick();
      timer.expires_after(std::chrono::duration_cast<SteadyClock::duration>(heartbeat));
      schedule();
    });
  }

  void tick() {
    const auto now = SteadyClock::now();
    if (now - last_tick > dead_after) {
      // We were stopped. Read first what the others had to say: a write to a connection that they closed would wipe it out.
      note_stop(now);
      return;
    }
    // Starved of CPU for a while: silence in that time says nothing about the others.
    const bool starved = now - last_tick > dead_after / 2;
    last_tick = now;
    wire::Frame beat = frame(Kind::beat, own_mark);
    for (int r = 0; r < info.size; ++r) {
      if (r == info.rank || !peer(r).alive) continue;
      Peer& p = peer(r);
      if (starved) p.heard = now;
      beat.clock = p.clock.stamps(trace::now_us());
      const bool reads = p.link->write(beat);
      if (reads && (!p.beats || now - p.heard <= dead_after)) continue;
      const std::string why = reads ? "no heartbeat for " + seconds_text(Seconds(now - p.heard).count()) : "it does not read its messages";
      p.link->write(frame(Kind::dropped), wire::to_bytes(why));
      p.link->finish();
      mark_dead_gently(r, why);
    }
  }

  // As mark_dead(), but the connection stays for a moment so that the peer can read why.
  void mark_dead_gently(int rank, const std::string& why) {
    auto link = peer(rank).link;
    auto later = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(20));
    later->async_wait([link, later](const asio::error_code&) { link->close(); });
    Peer& p = peer(rank);
    p.link = std::make_shared<Connection>(Connection::Socket(io));  // a closed one in its place
    mark_dead(rank, why);
  }

  void leave() {
    asio::post(io, [this] {
      leaving = true;
      timer.cancel();
      for (auto& p : peers) {
        if (!p || !p->alive) continue;
        p->link->write(frame(Kind::leaving));
        p->link->finish();
      }
    });
    const auto until = SteadyClock::now() + kLeaveTime;
    // The others close their ends when they have read it: only then is ours closed, or the goodbye could be lost.
    auto all_closed = [this] { return std::none_of(peers.begin(), peers.end(), [](const auto& p) { return p && p->alive; }); };
    while (!all_closed() && SteadyClock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    io.stop();
    thread.join();
    for (auto& p : peers) {
      if (p) p->link->close();
    }
  }
};

AsioLink::AsioLink(const LaunchInfo& info, const JoinOptions& options) : impl_(std::make_unique<Impl>(info, options)) {
  Meeting meeting = meet(impl_->io, info, options);
  impl_->local_address = meeting.local_address;
  impl_->refused = meeting.refused;
  impl_->peers.resize(static_cast<std::size_t>(info.size));
  for (int r = 0; r < info.size; ++r) {
    if (r == info.rank) continue;
    auto p = std::make_unique<Impl::Peer>();
    p->link = meeting.links[static_cast<std::size_t>(r)];
    p->heard = SteadyClock::now();
    impl_->peers[static_cast<std::size_t>(r)] = std::move(p);
  }
  impl_->io.restart();
  impl_->last_tick = SteadyClock::now();
  impl_->start();
}

AsioLink::~AsioLink() { impl_->leave(); }

void AsioLink::send(int to, const Message& message) {
  if (!impl_->peer(to).alive) return;
  wire::Frame f = impl_->frame(Kind::message);
  f.message = message;
  asio::post(impl_->io, [impl = impl_.get(), to, f] { impl->peer(to).link->write(f); });
}

Event AsioLink::next(Seconds timeout) {
  Event e;
  if (!impl_->dropped) e = impl_->events.pop(timeout);
  if (impl_->dropped) throw DistError(given_up());
  return e;
}

void AsioLink::post(Event e) { impl_->events.push(std::move(e)); }

bool AsioLink::alive(int peer) const { return peer == impl_->info.rank ? !impl_->dropped : impl_->peer(peer).alive.load(); }

void AsioLink::connect(const std::vector<int>& wanted, Seconds) {
  if (impl_->dropped) throw DistError(given_up());
  for (int p : wanted) {
    if (!alive(p)) fail<DistError>("worker ", p, " cannot be a neighbour of worker ", rank(), ": it is gone (", why_dead(p), ")");
  }
}

int AsioLink::rank() const { return impl_->info.rank; }
int AsioLink::size() const { return impl_->info.size; }
std::string AsioLink::local_address() const { return impl_->local_address; }
int AsioLink::refused() const { return impl_->refused; }

std::vector<int> AsioLink::alive() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    if (r == rank() || alive(r)) ranks.push_back(r);
  }
  return ranks;
}

std::optional<ClockEstimate> AsioLink::clock_offset(int peer, double at_us) const { return impl_->peer(peer).clock.at(at_us); }

std::string AsioLink::why_dead(int peer) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->peer(peer).why;
}

std::string AsioLink::given_up() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->dropped_why;
}

void AsioLink::put(int to, std::uint64_t key, const std::vector<char>& value) {
  if (!impl_->peer(to).alive) return;
  check<DistError>(value.size() <= wire::kMaxPayload, "a value of ", value.size(), " bytes for worker ", to, ": at most ",
                   wire::kMaxPayload);
  asio::post(impl_->io, [impl = impl_.get(), to, key, bytes = wire::Bytes(value.begin(), value.end())] {
    impl->peer(to).link->write(impl->frame(Kind::key_value, key), bytes);
  });
}

std::optional<std::vector<char>> AsioLink::take(int from, std::uint64_t key, TimePoint until, const std::atomic<bool>& stop) {
  Impl::Peer& p = impl_->peer(from);
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_until(lock, until, [&] { return stop || !p.alive || impl_->dropped || p.kept.count(key) > 0; });
  const auto found = p.kept.find(key);
  if (stop || !p.alive || impl_->dropped || found == p.kept.end()) return std::nullopt;
  std::vector<char> value = std::move(found->second);
  p.kept.erase(found);
  return value;
}

void AsioLink::interrupt() {
  { std::lock_guard lock(impl_->mutex); }  // a waiter is either before its check or asleep
  impl_->changed.notify_all();
}

void AsioLink::reset_edge(int to, std::uint64_t session, std::uint64_t opened) {
  wire::Frame f = impl_->frame(Kind::edge_reset, session);
  f.edge = opened;
  asio::post(impl_->io, [impl = impl_.get(), to, f] { impl->peer(to).link->write(f); });
}

void AsioLink::set_mark(std::uint64_t mark) { impl_->own_mark = mark; }
std::uint64_t AsioLink::mark(int peer) const { return impl_->peer(peer).mark; }

void AsioLink::on_events(std::function<void(int, const std::string&)> on_dead,
                         std::function<void(int, std::uint64_t, std::uint64_t)> on_reset) {
  std::lock_guard lock(impl_->hooks_mutex);
  impl_->on_dead = std::move(on_dead);
  impl_->on_reset = std::move(on_reset);
}

}  // namespace gossamer::dist
