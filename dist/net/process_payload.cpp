// One thread for each peer with which there is or was an exchange: so exchanges with several peers
// run at once, and those with one peer in their order.
//
// An edge that failed is closed on both sides before it is used again: the side that fails tells
// the other over the control link (AsioLink::reset_edge), in order with the messages that arrange
// the next exchange; so both sides open a new one together. The notice names the session and the
// edge, so that a late one does no harm to an edge opened since.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/process_payload.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/parallel.h"
#include "gossamer/dist/net/memory_edge.h"
#include "gossamer/dist/net/tcp_edge.h"

namespace gossamer::dist {

using SteadyClock = std::chrono::steady_clock;

struct ProcessPayload::Impl {
  // All there is with one peer. Guarded by the mutex, but for `stop`.
  struct Peer {
    explicit Peer(int r) : rank(r) {}
    const int rank;
    std::shared_ptr<PayloadEdge> edge;  // open from exchange to exchange
    // in which session: the edge's name, the same on both sides
    std::uint64_t opened = 0;
    bool stale = false;                     // the peer closed its end
    std::optional<std::uint64_t> given_up;  // the last session that the peer reported as failed
    std::deque<PayloadJob> jobs;            // from exchange() until its event is posted
    std::shared_ptr<PayloadEdge> active;    // what the first of them uses
    std::atomic<bool> stop{false};          // the first of them shall end
    std::uint64_t unreadable_since = 0;     // its memory, since this arrival; of the thread
    std::condition_variable wanted;
    std::thread thread;
  };

  AsioLink& link;
  const bool read_memory;
  std::mutex mutex;
  std::map<int, std::unique_ptr<Peer>> peers;
  std::condition_variable ended;
  bool closing = false;

  Impl(AsioLink& l, bool m) : link(l), read_memory(m) {}

  // Under the mutex, as all that ends in _locked.
  Peer& peer_locked(int rank) {
    auto& p = peers[rank];
    if (!p) {
      p = std::make_unique<Peer>(rank);
      p->thread = start_thread([this, one = p.get()] { run(*one); });
    }
    return *p;
  }

  void run(Peer& p) {
    set_compute_threads(1);  // more would take cores from the training
    std::unique_lock lock(mutex);
    for (;;) {
      p.wanted.wait(lock, [&] { return closing || !p.jobs.empty(); });
      if (closing) return;
      PayloadJob now = p.jobs.front();
      now.until =
          SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(now.deadline);
      p.stop = now.given_up || p.given_up == now.session;
      lock.unlock();
      Event done;
      done.kind = Event::Kind::exchanged;
      done.peer = p.rank;
      done.session = now.session;
      try {
        PayloadEdge::Arrival arrived = transfer(p, now);
        done.note = std::move(arrived.note);
        done.squared_distance = arrived.squared_distance;
        done.ok = true;
      } catch (const std::exception& e) {
        done.why = e.what();
        if (dynamic_cast<const MemoryEdge::Unreadable*>(&e)) p.unreadable_since = now.arrival;
        link.reset_edge(p.rank, now.session, drop(p).value_or(now.session), now.arrival);
      }
      lock.lock();
      p.jobs.pop_front();
      p.active.reset();
      link.post(done);
      ended.notify_all();
    }
  }

  // Closes our end and returns the edge's name, if there is one.
  std::optional<std::uint64_t> drop(Peer& p) {
    std::shared_ptr<PayloadEdge> old;
    std::uint64_t name = 0;
    {
      std::lock_guard lock(mutex);
      old = std::move(p.edge);
      p.edge.reset();
      name = p.opened;
      p.stale = false;
    }
    if (!old) return std::nullopt;
    old->abort();
    return name;
  }

  // The edge, if it can still be used.
  std::shared_ptr<PayloadEdge> find(Peer& p) {
    {
      std::lock_guard lock(mutex);
      if (!p.stale) return p.edge;
    }
    drop(p);
    return nullptr;
  }

  PayloadEdge::Arrival transfer(Peer& p, const PayloadJob& now) {
    if (!link.alive(p.rank) || link.arrivals(p.rank) != now.arrival)
      fail<DistError>("worker ", p.rank, " is gone: ", link.why_dead(p.rank));
    std::shared_ptr<PayloadEdge> edge = find(p);
    if (!edge) edge = open(p, now);
    begin(p, now, edge);
    return edge->carry(now);
  }

  std::shared_ptr<PayloadEdge> open(Peer& p, const PayloadJob& now) {
    const bool wanted = read_memory && p.unreadable_since != now.arrival;
    if (auto edge = MemoryEdge::open(link, p.rank, wanted, now, p.stop)) return edge;
    const auto edge = std::make_shared<TcpEdge>(link, p.rank, now);
    {
      std::lock_guard lock(mutex);
      p.active = edge;
      if (p.stop) fail<DistError>("given up");
    }
    edge->connect(link, now, p.stop);
    return edge;
  }

  void begin(Peer& p, const PayloadJob& now, const std::shared_ptr<PayloadEdge>& edge) {
    std::lock_guard lock(mutex);
    if (p.stop) fail<DistError>("given up");
    p.active = edge;
    if (p.edge) return;
    p.edge = edge;
    p.opened = now.session;
    p.stale = false;
  }

  // The peer's exchange of this session failed, and it closed its end of the edge. True: that ends
  // an exchange of ours.
  bool reset(int peer, std::uint64_t session, std::uint64_t opened) {
    std::lock_guard lock(mutex);
    Peer& p = peer_locked(peer);
    p.given_up = session;
    const bool ours = p.edge && p.opened == opened;
    if (ours) p.stale = true;
    for (PayloadJob& job : p.jobs) job.given_up = job.given_up || job.session == session;
    if (p.jobs.empty() || (!ours && p.jobs.front().session != session)) return false;
    stop_first_locked(p);
    return true;
  }

  static void stop_first_locked(Peer& p) {
    p.stop = true;
    if (p.active) p.active->abort();
  }
  static void abort_locked(Peer& p, std::uint64_t from_session = 0) {
    for (PayloadJob& job : p.jobs) job.given_up = job.given_up || job.session >= from_session;
    if (!p.jobs.empty() && p.jobs.front().given_up) stop_first_locked(p);
  }
};

ProcessPayload::ProcessPayload(AsioLink& link, bool read_memory)
    : impl_(std::make_unique<Impl>(link, read_memory)) {}

ProcessPayload::~ProcessPayload() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
    for (auto& [rank, p] : impl_->peers) {
      Impl::abort_locked(*p);
      p->wanted.notify_all();
    }
  }
  impl_->link.interrupt();
  for (auto& [rank, p] : impl_->peers) p->thread.join();
}

void ProcessPayload::exchange(int peer, std::uint64_t session, const Tensor& send,
                              const Tensor& receive, std::span<const char> note, Seconds deadline) {
  check_exchange(peer, send, receive, note);
  check<DistError>(peer != impl_->link.rank(), "exchange of worker ", peer, " with itself");
  // throws for a rank that does not exist
  const std::uint64_t arrival = impl_->link.arrivals(peer);
  std::lock_guard lock(impl_->mutex);
  Impl::Peer& p = impl_->peer_locked(peer);
  p.jobs.push_back({session, arrival, send, receive, {note.begin(), note.end()}, deadline});
  p.wanted.notify_all();
}

void ProcessPayload::abort(int peer, std::uint64_t from_session) {
  {
    std::lock_guard lock(impl_->mutex);
    for (auto& [rank, p] : impl_->peers) {
      // Our own rank: this worker was given up itself.
      if (rank == peer || peer == impl_->link.rank()) Impl::abort_locked(*p, from_session);
    }
  }
  impl_->link.interrupt();
}

void ProcessPayload::forget(int peer) {
  {
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->peers.find(peer);
    if (found == impl_->peers.end()) return;
    Impl::Peer& p = *found->second;
    Impl::abort_locked(p);
    p.stale = true;
    p.given_up.reset();
  }
  impl_->link.interrupt();
}

void ProcessPayload::drain(Seconds limit) {
  std::unique_lock lock(impl_->mutex);
  const auto idle = [this] {
    return std::ranges::none_of(impl_->peers, [](const auto& l) {
      const auto& [rank, p] = l;
      return (p->stop && !p->jobs.empty()) || std::ranges::any_of(p->jobs, &PayloadJob::given_up);
    });
  };
  check<DistError>(impl_->ended.wait_for(lock, limit, idle), "worker ", impl_->link.rank(),
                   ": an exchange did not end within ", limit.count(), " s of being given up");
}

void ProcessPayload::peer_failed(int peer, std::uint64_t session, std::uint64_t opened) {
  if (impl_->reset(peer, session, opened)) impl_->link.interrupt();
}

}  // namespace gossamer::dist
#endif
