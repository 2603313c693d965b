// One thread that runs the exchanges of this worker, one after the other.
//
// An edge that failed is closed on both sides before it is used again: who fails tells the other over the control link
// (AsioLink::reset_edge), in order with the messages that arrange the next exchange; so both sides open a new one together.
#ifdef GOSSAMER_HAS_GLOO
#include "gossamer/dist/gloo_payload.h"

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
    std::uint64_t resets = 0;                           // of the peer, when it was opened
  };

  AsioLink& link;
  std::shared_ptr<gloo::transport::Device> device;
  std::map<int, Edge> edges;                            // payload thread only
  std::mutex mutex;
  std::condition_variable wanted;
  std::optional<Job> job;                               // from exchange() until its event is posted
  std::shared_ptr<GlooContext> active;                  // the context that the job uses
  std::atomic<bool> stop{false};                        // the job shall end
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
        drop(now.peer);
        link.reset_edge(now.peer, now.session);
      }
      lock.lock();
      job.reset();
      active.reset();
      link.post(done);
    }
  }

  void drop(int peer) {
    const auto found = edges.find(peer);
    if (found == edges.end()) return;
    found->second.context->abort();
    edges.erase(found);
  }

  void transfer(const Job& now) {
    if (!link.alive(now.peer)) fail<DistError>("worker ", now.peer, " is gone: ", link.why_dead(now.peer));
    if (now.session != 0 && link.last_reset(now.peer) == now.session) fail<DistError>("worker ", now.peer, " gave this exchange up already");
    const auto found = edges.find(now.peer);
    if (found != edges.end() && found->second.resets != link.resets(now.peer)) drop(now.peer);
    if (edges.count(now.peer) == 0) open(now);
    const std::shared_ptr<GlooContext> context = edges[now.peer].context;
    set_active(context);

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

  void open(const Job& now) {
    const bool first = link.rank() < now.peer;
    Edge edge;
    edge.resets = link.resets(now.peer);
    edge.context = std::make_shared<GlooContext>(device, first ? 0 : 1, 2, left(now.until));
    set_active(edge.context);
    const int other = first ? 1 : 0;
    const std::uint64_t key = mix(now.session ^ 0x65646765);            // "edge"
    link.put(now.peer, key, edge.context->address(other));
    const auto address = link.take(now.peer, key, now.until, stop);
    if (!address) {
      if (!link.alive(now.peer)) fail<DistError>("worker ", now.peer, " is gone: ", link.why_dead(now.peer));
      fail<DistError>(stop ? "given up" : "no answer", " while opening the payload edge to worker ", now.peer);
    }
    edge.context->connect(other, *address);
    edges[now.peer] = std::move(edge);
  }

  void set_active(const std::shared_ptr<GlooContext>& context) {
    std::lock_guard lock(mutex);
    active = context;
    if (stop) fail<DistError>("given up");
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

void GlooPayload::exchange(int peer, std::uint64_t session, std::span<const float> send, std::span<float> receive, Seconds deadline) {
  check<DistError>(send.size() == receive.size() && !send.empty(), "exchange with worker ", peer, ": sends ", send.size(), " values and receives ",
                   receive.size(), "; both must be equal and not 0");
  (void)impl_->link.alive(peer);                        // throws for a rank that does not exist
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->job) fail<DistError>("exchange with worker ", peer, ": the one with worker ", impl_->job->peer, " is not finished");
    impl_->stop = false;
    impl_->job = Impl::Job{peer, session, send, receive, SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(deadline)};
  }
  impl_->wanted.notify_all();
}

void GlooPayload::abort(int peer) {
  {
    std::lock_guard lock(impl_->mutex);
    const bool all = peer == impl_->link.rank();         // this worker was given up itself
    if (!impl_->job || (impl_->job->peer != peer && !all)) return;
    impl_->abort_locked();
  }
  impl_->link.interrupt();
}

}  // namespace gossamer::dist
#endif
