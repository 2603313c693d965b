// One thread that runs the exchanges of this worker, one after the other.
//
// An edge that failed is closed on both sides before it is used again: who fails tells the other over the control link
// (AsioLink::reset_edge), in order with the messages that arrange the next exchange; so both sides open a new one together. The
// notice names the session and the edge, so that a late one does no harm to an edge opened since.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/gloo_payload.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <gloo/transport/unbound_buffer.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/gloo_context.h"

namespace gossamer::dist {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::uint64_t mix(std::uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

std::chrono::milliseconds left(SteadyClock::time_point until) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()), std::chrono::milliseconds(1));
}

}  // namespace

struct GlooPayload::Impl {
  struct Job {
    int peer;
    std::uint64_t session;
    std::span<const float> send;
    std::span<float> receive;
    SteadyClock::time_point until;
  };
  struct Edge {
    std::shared_ptr<GlooContext> context;
    std::uint64_t opened = 0;  // in which session: its name, the same on both sides
    bool stale = false;        // the peer closed its end
  };

  AsioLink& link;
  std::shared_ptr<gloo::transport::Device> device;
  std::mutex mutex;  // guards all below
  std::map<int, Edge> edges;
  std::map<int, std::uint64_t> given_up;  // the last session that each peer reported as failed
  std::condition_variable wanted;
  std::optional<Job> job;               // from exchange() until its event is posted
  std::shared_ptr<GlooContext> active;  // the context that the job uses
  std::atomic<bool> stop{false};        // the job shall end
  bool closing = false;
  std::thread thread;

  Impl(AsioLink& l, std::shared_ptr<gloo::transport::Device> d) : link(l), device(std::move(d)), thread([this] { run(); }) {}

  void run() {
    NoSigpipe quiet;
    std::unique_lock lock(mutex);
    for (;;) {
      wanted.wait(lock, [this] { return closing || job; });
      if (closing) return;
      const Job now = *job;
      lock.unlock();
      Event done;
      done.kind = Event::Kind::exchanged;
      done.peer = now.peer;
      try {
        transfer(now);
        done.ok = true;
      } catch (const std::exception& e) {
        done.why = e.what();
        link.reset_edge(now.peer, now.session, drop(now.peer).value_or(now.session));
      }
      lock.lock();
      job.reset();
      active.reset();
      link.post(done);
      wanted.notify_all();                                // settle()
    }
  }

  // Closes our end and returns the edge's name, if there is one.
  std::optional<std::uint64_t> drop(int peer) {
    Edge old;
    {
      std::lock_guard lock(mutex);
      const auto found = edges.find(peer);
      if (found == edges.end()) return std::nullopt;
      old = std::move(found->second);
      edges.erase(found);
    }
    old.context->abort();
    return old.opened;
  }

  // The context of the edge, if it can still be used.
  std::shared_ptr<GlooContext> find(int peer) {
    {
      std::lock_guard lock(mutex);
      const auto found = edges.find(peer);
      if (found == edges.end()) return nullptr;
      if (!found->second.stale) return found->second.context;
    }
    drop(peer);
    return nullptr;
  }

  void transfer(const Job& now) {
    if (!link.alive(now.peer)) fail<DistError>("worker ", now.peer, " is gone: ", link.why_dead(now.peer));
    std::shared_ptr<GlooContext> context = find(now.peer);
    if (!context) context = open(now);
    begin(now, context);

    // A different length gets a different slot: Gloo would end the process if more arrived than fits.
    const std::uint64_t slot = mix(now.session * 2 + 1) ^ mix(now.send.size());
    const int other = now.peer < link.rank() ? 0 : 1;
    const auto receive = context->createUnboundBuffer(now.receive.data(), now.receive.size_bytes());
    const auto send = context->createUnboundBuffer(const_cast<float*>(now.send.data()), now.send.size_bytes());
    receive->recv(other, slot, 0, now.receive.size_bytes());
    send->send(other, slot, 0, now.send.size_bytes());
    receive->waitRecv(left(now.until));
    send->waitSend(left(now.until));
  }

  std::shared_ptr<GlooContext> open(const Job& now) {
    const bool first = link.rank() < now.peer;
    const auto context = std::make_shared<GlooContext>(device, first ? 0 : 1, 2, left(now.until));
    {
      std::lock_guard lock(mutex);
      active = context;
      if (stop) fail<DistError>("given up");
    }
    const int other = first ? 1 : 0;
    const std::uint64_t key = mix(now.session ^ 0x65646765);  // "edge"
    link.put(now.peer, key, context->address(other));
    const auto address = link.take(now.peer, key, now.until, stop);
    if (!address) {
      if (!link.alive(now.peer)) fail<DistError>("worker ", now.peer, " is gone: ", link.why_dead(now.peer));
      fail<DistError>(stop ? "given up" : "no answer", " while opening the payload edge to worker ", now.peer);
    }
    context->connect(other, *address);
    return context;
  }

  void begin(const Job& now, const std::shared_ptr<GlooContext>& context) {
    std::lock_guard lock(mutex);
    if (stop) fail<DistError>("given up");
    active = context;
    edges.try_emplace(now.peer, Edge{context, now.session, false});
  }

  // The peer's exchange of this session failed, and it closed its end of the edge. True: that ends an exchange of ours.
  bool reset(int peer, std::uint64_t session, std::uint64_t opened) {
    std::lock_guard lock(mutex);
    given_up[peer] = session;
    const auto found = edges.find(peer);
    const bool ours = found != edges.end() && found->second.opened == opened;
    if (ours) found->second.stale = true;
    if (!job || job->peer != peer || (!ours && job->session != session)) return false;
    abort_locked();
    return true;
  }

  void abort_locked() {
    stop = true;
    if (active) active->abort();
  }
};

GlooPayload::GlooPayload(AsioLink& link, std::shared_ptr<gloo::transport::Device> device)
    : impl_(std::make_unique<Impl>(link, std::move(device))) {}

GlooPayload::~GlooPayload() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->closing = true;
    impl_->abort_locked();
  }
  impl_->link.interrupt();
  impl_->wanted.notify_all();
  impl_->thread.join();
}

void GlooPayload::exchange(int peer, std::uint64_t session, std::span<const float> send, std::span<float> receive,
                           Seconds deadline) {
  check<DistError>(send.size() == receive.size() && !send.empty(), "exchange with worker ", peer, ": sends ", send.size(),
                   " values and receives ", receive.size(), "; both must be equal and not 0");
  check<DistError>(peer != impl_->link.rank(), "exchange of worker ", peer, " with itself");
  (void)impl_->link.alive(peer);  // throws for a rank that does not exist
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->job)
      fail<DistError>("exchange with worker ", peer, ": the one with worker ", impl_->job->peer, " is not finished");
    const auto failed = impl_->given_up.find(peer);
    impl_->stop = failed != impl_->given_up.end() && failed->second == session;
    impl_->job =
        Impl::Job{peer, session, send, receive, SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(deadline)};
  }
  impl_->wanted.notify_all();
}

void GlooPayload::abort(int peer) {
  {
    std::lock_guard lock(impl_->mutex);
    const bool all = peer == impl_->link.rank();  // this worker was given up itself
    if (!impl_->job || (impl_->job->peer != peer && !all)) return;
    impl_->abort_locked();
  }
  impl_->link.interrupt();
}

void GlooPayload::settle(Seconds limit) {
  std::unique_lock lock(impl_->mutex);
  const bool free = impl_->wanted.wait_for(lock, limit, [this] { return !impl_->job; });
  check<DistError>(free, "worker ", impl_->link.rank(), ": an exchange did not end within ", limit.count(), " s of being given up");
}

void GlooPayload::peer_failed(int peer, std::uint64_t session, std::uint64_t opened) {
  if (impl_->reset(peer, session, opened)) impl_->link.interrupt();
}

}  // namespace gossamer::dist
#endif
