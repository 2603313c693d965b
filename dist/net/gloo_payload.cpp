// One thread for each peer with which there is or was an exchange: so exchanges with several peers
// run at once, and those with one peer in their order.
//
// An edge that failed is closed on both sides before it is used again: the side that fails tells
// the other over the control link (AsioLink::reset_edge), in order with the messages that arrange
// the next exchange; so both sides open a new one together. The notice names the session and the
// edge, so that a late one does no harm to an edge opened since.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/net/gloo_payload.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <gloo/transport/unbound_buffer.h>

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/dist/net/gloo_context.h"

namespace gossamer::dist {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A note on its way: its length, then its bytes.
using Note = std::array<char, 1 + kLongestNote>;

bool goes(const Tensor& t) { return t.defined() && t.numel() > 0; }

std::uint64_t mix(std::uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

std::chrono::milliseconds left(SteadyClock::time_point until) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()),
                  std::chrono::milliseconds(1));
}

}  // namespace

struct GlooPayload::Impl {
  struct Job {
    std::uint64_t session, arrival;  // arrival: of the peer, as link.arrivals() counts
    Tensor send, receive;
    std::vector<char> note;
    Seconds deadline;
    bool given_up = false;            // it shall end
    SteadyClock::time_point until{};  // from its turn on
  };
  // All there is with one peer. Guarded by the mutex, but for `stop`.
  struct Peer {
    explicit Peer(int r) : rank(r) {}
    const int rank;
    std::shared_ptr<GlooContext> edge;  // open from exchange to exchange
    // in which session: the edge's name, the same on both sides
    std::uint64_t opened = 0;
    bool stale = false;                     // the peer closed its end
    std::optional<std::uint64_t> given_up;  // the last session that the peer reported as failed
    std::deque<Job> jobs;                   // from exchange() until its event is posted
    std::shared_ptr<GlooContext> active;    // the context that the first of them uses
    std::atomic<bool> stop{false};          // the first of them shall end
    std::condition_variable wanted;
    std::thread thread;
  };

  AsioLink& link;
  std::shared_ptr<gloo::transport::Device> device;
  std::mutex mutex;
  std::map<int, std::unique_ptr<Peer>> peers;
  std::condition_variable ended;
  bool closing = false;

  Impl(AsioLink& l, std::shared_ptr<gloo::transport::Device> d) : link(l), device(std::move(d)) {}

  // Under the mutex, as all that ends in _locked.
  Peer& peer_locked(int rank) {
    auto& p = peers[rank];
    if (!p) {
      p = std::make_unique<Peer>(rank);
      p->thread = std::thread([this, one = p.get()] { run(*one); });
    }
    return *p;
  }

  void run(Peer& p) {
    set_compute_threads(1);  // more would take cores from the training
    NoSigpipe quiet;
    std::unique_lock lock(mutex);
    for (;;) {
      p.wanted.wait(lock, [&] { return closing || !p.jobs.empty(); });
      if (closing) return;
      Job now = p.jobs.front();
      now.until =
          SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(now.deadline);
      p.stop = now.given_up || p.given_up == now.session;
      lock.unlock();
      Event done;
      done.kind = Event::Kind::exchanged;
      done.peer = p.rank;
      done.session = now.session;
      try {
        done.note = transfer(p, now);
        done.squared_distance = distance_of_exchange(now.send, now.receive);
        done.ok = true;
      } catch (const std::exception& e) {
        done.why = e.what();
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
    std::shared_ptr<GlooContext> old;
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

  // The context of the edge, if it can still be used.
  std::shared_ptr<GlooContext> find(Peer& p) {
    {
      std::lock_guard lock(mutex);
      if (!p.stale) return p.edge;
    }
    drop(p);
    return nullptr;
  }

  // The peer's note.
  std::vector<char> transfer(Peer& p, const Job& now) {
    if (!link.alive(p.rank) || link.arrivals(p.rank) != now.arrival)
      fail<DistError>("worker ", p.rank, " is gone: ", link.why_dead(p.rank));
    std::shared_ptr<GlooContext> context = find(p);
    if (!context) context = open(p, now);
    begin(p, now, context);

    // A different length gets a different slot: Gloo would end the process if more arrived than
    // fits. Strangers can't guess it.
    const std::uint64_t secret = link.connection(p.rank);
    const auto slot = [&](std::uint64_t what) {
      return mix(now.session * 2 + 1) ^ mix(what) ^ secret;
    };
    const auto slot_of = [&](const Tensor& t) {
      return slot(t.bytes() << 8 | static_cast<std::uint64_t>(t.dtype()));
    };
    const std::uint64_t notes = slot(~std::uint64_t{0});
    const int other = p.rank < link.rank() ? 0 : 1;
    Note own{}, theirs{};
    own[0] = static_cast<char>(now.note.size());
    std::ranges::copy(now.note, own.begin() + 1);
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> in, out;
    const auto add = [&](auto& to, void* data, std::size_t bytes) -> auto& {
      return *to.emplace_back(context->createUnboundBuffer(data, bytes));
    };
    if (goes(now.receive)) {
      const std::size_t bytes = now.receive.bytes();
      add(in, now.receive.data(), bytes).recv(other, slot_of(now.receive), 0, bytes);
      add(in, theirs.data(), theirs.size()).recv(other, notes, 0, theirs.size());
    }
    if (goes(now.send)) {
      const std::size_t bytes = now.send.bytes();
      add(out, own.data(), own.size()).send(other, notes, 0, own.size());
      add(out, now.send.data(), bytes).send(other, slot_of(now.send), 0, bytes);
    }
    for (const auto& buffer : in) buffer->waitRecv(left(now.until));
    for (const auto& buffer : out) buffer->waitSend(left(now.until));
    const auto length = static_cast<unsigned char>(theirs[0]);
    check<DistError>(length <= kLongestNote, "worker ", p.rank, " sent a note of ",
                     static_cast<int>(length), " bytes");
    return {theirs.begin() + 1, theirs.begin() + 1 + length};
  }

  std::shared_ptr<GlooContext> open(Peer& p, const Job& now) {
    const bool first = link.rank() < p.rank;
    const auto context = std::make_shared<GlooContext>(device, first ? 0 : 1, 2, left(now.until));
    {
      std::lock_guard lock(mutex);
      p.active = context;
      if (p.stop) fail<DistError>("given up");
    }
    const int other = first ? 1 : 0;
    const std::uint64_t key = mix(now.session ^ 0x65646765);  // "edge"
    link.put(p.rank, key, context->address(other), now.arrival);
    const auto address = link.take(p.rank, key, now.until, p.stop);
    if (!address) {
      if (!link.alive(p.rank))
        fail<DistError>("worker ", p.rank, " is gone: ", link.why_dead(p.rank));
      fail<DistError>(p.stop ? "given up" : "no answer",
                      " while opening the payload edge to worker ", p.rank);
    }
    context->connect(other, *address);
    return context;
  }

  void begin(Peer& p, const Job& now, const std::shared_ptr<GlooContext>& context) {
    std::lock_guard lock(mutex);
    if (p.stop) fail<DistError>("given up");
    p.active = context;
    if (p.edge) return;
    p.edge = context;
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
    for (Job& job : p.jobs) job.given_up = job.given_up || job.session == session;
    if (p.jobs.empty() || (!ours && p.jobs.front().session != session)) return false;
    stop_first_locked(p);
    return true;
  }

  static void stop_first_locked(Peer& p) {
    p.stop = true;
    if (p.active) p.active->abort();
  }
  static void abort_locked(Peer& p, std::uint64_t from_session = 0) {
    for (Job& job : p.jobs) job.given_up = job.given_up || job.session >= from_session;
    if (!p.jobs.empty() && p.jobs.front().given_up) stop_first_locked(p);
  }
};

GlooPayload::GlooPayload(AsioLink& link, std::shared_ptr<gloo::transport::Device> device)
    : impl_(std::make_unique<Impl>(link, std::move(device))) {}

GlooPayload::~GlooPayload() {
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

void GlooPayload::exchange(int peer, std::uint64_t session, const Tensor& send,
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

void GlooPayload::abort(int peer, std::uint64_t from_session) {
  {
    std::lock_guard lock(impl_->mutex);
    for (auto& [rank, p] : impl_->peers) {
      // Our own rank: this worker was given up itself.
      if (rank == peer || peer == impl_->link.rank()) Impl::abort_locked(*p, from_session);
    }
  }
  impl_->link.interrupt();
}

void GlooPayload::forget(int peer) {
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

void GlooPayload::drain(Seconds limit) {
  std::unique_lock lock(impl_->mutex);
  const auto idle = [this] {
    return std::ranges::none_of(impl_->peers, [](const auto& l) {
      const auto& [rank, p] = l;
      return (p->stop && !p->jobs.empty()) || std::ranges::any_of(p->jobs, &Impl::Job::given_up);
    });
  };
  check<DistError>(impl_->ended.wait_for(lock, limit, idle), "worker ", impl_->link.rank(),
                   ": an exchange did not end within ", limit.count(), " s of being given up");
}

void GlooPayload::peer_failed(int peer, std::uint64_t session, std::uint64_t opened) {
  if (impl_->reset(peer, session, opened)) impl_->link.interrupt();
}

}  // namespace gossamer::dist
#endif
