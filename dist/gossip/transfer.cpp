// One exchange in three parts: snapshot, payload, difference.
#include "gossamer/dist/gossip/transfer.h"

#include <cmath>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/exchange_trace.h"

namespace gossamer::dist {
namespace {

// seconds for an exchange that was given up to let go of its buffers; a GPU's own limit
// (gpu/edge.h) comes first and says more
constexpr double kDrainLimit = 40;

}  // namespace

Transfer::Note Transfer::note_in(const Event& e) {
  Note theirs;
  check<DistError>(e.note.size() == sizeof theirs, "a note of ", e.note.size(),
                   " bytes came with exchange ", e.session, "; wanted ", sizeof theirs);
  std::memcpy(static_cast<void*>(&theirs), e.note.data(), sizeof theirs);
  return theirs;
}

Transfer::Transfer(GossipState& state, Group& group, const MethodOptions& options)
    : state_(state), group_(group), options_(options) {}

void Transfer::begin(const Meeting& meeting) {
  peer_ = meeting.peer;
  session_ = meeting.session;
  {
    const trace::Scope scope("snapshot", peer_);
    std::unique_lock lock(state_.mutex);
    // a copy is being taken: short
    state_.changed.wait(lock, [&] { return !state_.held; });
    time_ = meeting.t.value_or(state_.clock.now(wall_seconds()));
    state_.model.snapshot(time_);
    own_note_.progress = state_.roster.progress();
    own_note_.tracking = state_.epoch.stamp(peer_);
    gradients_ = state_.stats.gradients;
    state_.happened(
        {.kind = WorkerEvent::Kind::snapshot, .peer = peer_, .session = session_, .t = time_});
    state_.in_flight = true;
    trace_departure(group_.rank(), peer_, session_);
  }
  state_.model.pack();
  if (usual_.wants_norm()) usual_.norm(state_.model.snapshot_norm());
  // a replay does as recorded, and its record does not tell a refusal from a failure
  own_note_.limit = options_.replay.empty() ? usual_.limit() : INFINITY;
  limit_ = limit(peer_);
  began_us_ = transfer_begins();
  began_ = wall_seconds();
  group_.payload().exchange(peer_, session_, state_.model.outgoing(), state_.model.incoming(),
                            {reinterpret_cast<const char*>(&own_note_), sizeof own_note_},
                            Seconds(limit_));
}

// A partner that is frozen is noticed soon where transfers are quick, and a slow edge has the time
// it needs.
double Transfer::limit(int peer) {
  const double least = std::min(options_.exchange_least_s, options_.exchange_timeout_s);
  return limits_.try_emplace(peer, least, options_.exchange_timeout_s).first->second.limit();
}

Transfer::End Transfer::end(const Event* arrived) {
  trace_transfer(peer_, began_us_);
  const double squared = arrived ? state_.model.unpack(arrived->squared_distance) : 0;
  const double distance = std::sqrt(squared);
  Note theirs;
  if (arrived) theirs = note_in(*arrived);
  const bool refused = arrived && too_far(distance, own_note_.limit, theirs.limit);
  ExchangeRecord done{.peer = peer_,
                      .session = session_,
                      .time = time_,
                      .distance = std::sqrt(state_.model.part_of_parameters(squared)),
                      .seconds = wall_seconds() - began_,
                      .staleness = 0,
                      .ok = arrived && !refused,
                      .refused = refused};
  {
    const trace::Scope scope("difference", peer_);
    const std::scoped_lock lock(state_.mutex);
    done.staleness = state_.stats.gradients - gradients_;
    if (done.ok) {
      using Then = TrackingEpoch::Then;
      const Then then = state_.epoch.exchanged(peer_, own_note_.tracking, theirs.tracking);
      state_.model.arrived(then == Then::average);
      if (then == Then::restart) state_.model.restart_tracking();
      state_.roster.average(own_note_.progress, theirs.progress);
      state_.rate.exchange();
      ++state_.stats.exchanges;
    } else {
      ++(refused ? state_.stats.refused : state_.stats.failed);
    }
    state_.happened({.kind = done.ok ? WorkerEvent::Kind::applied : WorkerEvent::Kind::failed,
                     .peer = peer_,
                     .session = session_});
    state_.edges.add(done);
    state_.stats.transfer_s += done.seconds;
    state_.stats.bytes_sent += static_cast<double>(state_.model.outgoing().bytes());
    state_.in_flight = false;
    state_.changed.notify_all();
    if (done.ok) trace_arrival(group_.rank(), peer_, session_);
  }
  if (const auto found = limits_.find(peer_); found != limits_.end()) {
    if (arrived)
      found->second.took(done.seconds);
    else if (done.seconds >= 0.9 * limit_)
      found->second.missed();
  }
  if (done.ok) usual_.accepted(distance);
  if (refused) usual_.refused();
  peer_ = -1;
  if (options_.on_exchange) options_.on_exchange(done);
  return done.ok ? End::applied : refused ? End::refused : End::failed;
}

void Transfer::abort() {
  if (under_way()) group_.payload().abort(peer_);
}

void Transfer::drain() {
  if (under_way()) group_.payload().drain(Seconds(kDrainLimit));
}

}  // namespace gossamer::dist
