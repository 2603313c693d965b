// The control link's thread: frames in, frames out, heartbeats, deaths.
#include <algorithm>
#include <asio/post.hpp>
#include <sstream>

#include "gossamer/core/host_signals.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/net/asio_link_impl.h"

namespace gossamer::dist {
namespace {

using wire::Kind;
// values of one peer that nobody has taken yet
constexpr std::size_t kMaxKept = 256;
constexpr std::chrono::milliseconds kLeaveTime(500);  // for the others to hear that we leave
constexpr std::chrono::milliseconds kFirstDial(250);  // after a death
// a connection that ends so soon after this process stood still was closed meanwhile
constexpr std::chrono::milliseconds kThaw(500);

std::string seconds_text(double s) {
  std::ostringstream text;
  text.precision(2);
  text << s << " s";
  return text.str();
}

}  // namespace

bool AsioLink::Impl::nobody_alive() const {
  return std::ranges::none_of(peers, [](const auto& p) { return p->alive.load(); });
}

void AsioLink::Impl::start() {
  last_tick = Clock::now();
  timer.expires_after(std::chrono::seconds(0));  // silence counts from the first on
  schedule();
  thread = start_thread([this] {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& e) {
        // out of memory in a handler, or a hook that threw: this worker is lost, not the process
        give_up(std::string("its communication thread failed: ") + e.what());
      }
    }
  });
}

void AsioLink::Impl::listen(int rank) {
  const auto link = peer(rank).link;
  link->read([this, rank, link](const std::string& error, const wire::Frame& f,
                                const wire::Bytes& payload) {
    Peer& from = peer(rank);
    if (from.link != link) return;  // late news of a connection that has been replaced
    if (!error.empty()) return closed(rank, error);
    if (!from.alive) return;  // given up, the connection is about to close
    from.heard = Clock::now();
    if (receive(rank, from, f, payload)) listen(rank);
  });
}

bool AsioLink::Impl::receive(int rank, Peer& from, const wire::Frame& f,
                             const wire::Bytes& payload) {
  switch (f.kind) {
    case Kind::beat:
      from.beats = true;
      from.mark = f.key;
      from.clock.heard(f.clock, trace::now_us());
      return true;
    case Kind::message: {
      if (f.message.type == MessageType::notice) {
        // only this thread writes it
        if (f.message.epoch >= kNotices) return true;
        std::atomic<double>& largest = from.notices[f.message.epoch].value;
        if (f.message.value > largest) largest = f.message.value;
        return true;
      }
      Event e;
      e.kind = Event::Kind::message;
      e.peer = rank;
      e.message = f.message;
      events.push(std::move(e));
      if (f.message.type == MessageType::admitted)
        say_joined(static_cast<int>(f.message.epoch / 2));
      return true;
    }
    case Kind::key_value: {
      if (f.key == kSideMessage) {
        std::lock_guard lock(hooks_mutex);
        if (hooks.message)
          hooks.message(rank, {reinterpret_cast<const char*>(payload.data()), payload.size()});
        return true;
      }
      {
        std::lock_guard lock(mutex);
        // leftovers of sessions that failed long ago
        if (from.kept.size() >= kMaxKept) from.kept.clear();
        from.kept[f.key] = std::vector<char>(payload.begin(), payload.end());
      }
      changed.notify_all();
      return true;
    }
    case Kind::edge_reset: {
      std::lock_guard lock(hooks_mutex);
      if (hooks.reset) hooks.reset(rank, f.key, f.edge);
      return true;
    }
    case Kind::collectives_ended: {
      std::lock_guard lock(hooks_mutex);
      if (hooks.collectives_ended) hooks.collectives_ended(rank, f.key, f.edge != 0);
      return true;
    }
    case Kind::table:
      learn(payload);
      return true;
    case Kind::dropped:
      mark_given_up(rank, wire::printable(payload));
      return false;
    case Kind::replaced:
      if (is_replaced(payload))
        give_up("another process was started as worker " + std::to_string(info.rank));
      else
        mark_given_up(rank, "it says that another process has this worker's place");
      return false;
    case Kind::leaving:
      mark_dead(rank, "left", false);
      return false;
    case Kind::reject:
      // It could not meet all, so nobody begins. Later nobody may say so.
      if (info.rejoin || begun) {
        mark_dead(rank, "it sent a frame that does not belong here", false);
      } else {
        end("worker " + std::to_string(rank) + ": " + wire::printable(payload));
      }
      return false;
    default:
      mark_dead(rank, "it sent a frame that does not belong here", false);
      return false;
  }
}

void AsioLink::Impl::closed(int rank, const std::string& why) {
  if (leaving) {
    peer(rank).link->close();
    peer(rank).alive = false;
    return;
  }
  if (!peer(rank).alive) return;
  const auto now = Clock::now();
  if (now - last_tick > dead_after) note_stop(now);
  // A worker that gave this one up has closed the connection. Its reason may be lost: a write to a
  // closed connection discards what was not read yet.
  if (thawed && now - *thawed < kThaw)
    mark_given_up(rank, "this process stood still");
  else
    mark_dead(rank, why, false);
}

// This process was stopped: the silence of that time says nothing about the others.
void AsioLink::Impl::note_stop(Clock::time_point now) {
  thawed = last_tick = now;
  for_peers([&](int, Peer& p) { p.heard = now; });
}

void AsioLink::Impl::mark_dead(int rank, const std::string& why, bool lost) {
  Peer& p = peer(rank);
  {
    std::lock_guard lock(mutex);
    if (!p.alive.exchange(false)) return;
    p.why = why;
    p.kept.clear();
  }
  p.lost = lost;
  p.link->close();
  changed.notify_all();
  // Those who came a moment ago may wait for it.
  for_peers([&](int, Peer& other) {
    if (other.alive && other.newcomer && Clock::now() - other.connected < kMeetTime)
      other.link->write(frame(Kind::table), table());
  });
  {
    std::lock_guard lock(hooks_mutex);
    if (hooks.dead) hooks.dead(rank, why);
  }
  Event e;
  e.kind = Event::Kind::dead;
  e.peer = rank;
  e.why = why;
  events.push(std::move(e));
  if (why != "left") dial_later(rank, info.rank > rank ? Clock::duration(kFirstDial) : kTurn);
  if (info.rejoin && !have_table) asio::post(io, [this] { ask_a_seed(); });
}

void AsioLink::Impl::mark_given_up(int rank, const std::string& why) {
  {
    std::lock_guard lock(mutex);
    peer(rank).gave_us_up = why;
  }
  mark_dead(rank, "it gave this worker up: " + why, true);
}

// As mark_dead(), but the connection stays for a moment so that the peer can read why.
void AsioLink::Impl::mark_dead_gently(int rank, const std::string& why) {
  auto link = peer(rank).link;
  auto later = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(20));
  later->async_wait([link, later](const asio::error_code&) { link->close(); });
  // a closed one in its place
  peer(rank).link = std::make_shared<Connection>(Connection::Socket(io));
  mark_dead(rank, why, true);
}

void AsioLink::Impl::give_up(const std::string& why) {
  end(why + ". Worker " + std::to_string(info.rank) +
      " is no longer part of the job; start it again");
}

void AsioLink::Impl::end(const std::string& why) {
  {
    std::lock_guard lock(mutex);
    if (dropped) return;
    dropped_why = why;
    dropped = true;
  }
  changed.notify_all();
  {
    std::lock_guard lock(hooks_mutex);
    if (hooks.dead) hooks.dead(info.rank, why);
  }
  Event e;
  e.kind = Event::Kind::woken;
  events.push(std::move(e));
}

void AsioLink::Impl::schedule() {
  timer.async_wait([this](const asio::error_code& stopped) {
    if (stopped || leaving) return;
    tick();
    timer.expires_after(std::chrono::duration_cast<Clock::duration>(heartbeat));
    schedule();
  });
}

void AsioLink::Impl::tick() {
  const auto now = Clock::now();
  if (now - last_tick > dead_after) {
    // We were stopped. Read first what the others had to say: a write to a connection that they
    // closed would wipe it out.
    note_stop(now);
    return;
  }
  // Starved of CPU for a while: silence in that time says nothing about the others.
  const bool starved = now - last_tick > dead_after / 2;
  last_tick = now;
  wire::Frame beat = frame(Kind::beat, own_mark);
  bool any_lost = false;
  for_peers([&](int r, Peer& p) {
    any_lost = any_lost || (!p.alive && p.lost);
    if (!p.alive) return;
    if (starved) p.heard = now;
    beat.clock = p.clock.stamps(trace::now_us());
    const bool reads = p.link->write(beat);
    if (reads && (!p.beats || now - p.heard <= dead_after)) return;
    const std::string why = reads
                                ? "no heartbeat for " + seconds_text(Seconds(now - p.heard).count())
                                : "it does not read its messages";
    p.link->write(frame(Kind::dropped), wire::to_bytes(why));
    p.link->finish();
    mark_dead_gently(r, why);
  });
  if (!any_lost || !nobody_alive()) {
    alone_since.reset();
  } else if (!alone_since) {
    alone_since = now;
  } else if (Seconds(now - *alone_since).count() > options.alone_after_s) {
    give_up("cut off from all others for " + seconds_text(Seconds(now - *alone_since).count()));
  }
}

void AsioLink::Impl::leave() {
  asio::post(io, [this] {
    leaving = true;
    timer.cancel();
    door->close();
    if (seeking) seeking->cancel();
    for_peers([&](int, Peer& p) {
      p.retry.cancel();
      if (p.dial) p.dial->cancel();
      p.dial = nullptr;
      if (!p.alive) return;
      p.link->write(frame(Kind::leaving));
      p.link->finish();
    });
  });
  const auto until = Clock::now() + kLeaveTime;
  // The others close their ends when they have read it: only then is ours closed, or the goodbye
  // could be lost.
  while (!nobody_alive() && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  io.stop();
  thread.join();
  for_peers([](int, Peer& p) {
    if (p.link) p.link->close();
  });
}

}  // namespace gossamer::dist
