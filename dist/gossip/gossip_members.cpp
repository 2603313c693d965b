// Who takes part: deaths, returns, and the common end.
//
// A worker that comes back (Event{joined}) is a member from its `back` on. Two kinds: one that was
// started again has taken over a neighbour's state (rejoin.h); one that was frozen or cut off has
// kept its own and goes on with it, and for it we are the ones that come back. Both sides say
// `back`, until they have heard the other's.
#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/exchanger.h"

namespace gossamer::dist {
namespace {

// seconds that others may go on training after this worker is done
constexpr double kStopLimit = 600;
// seconds for all to count the same workers as alive, when all have stopped
constexpr double kAgreeLimit = 10;
constexpr double kRepeat = 1;  // seconds; what everyone must hear is said again
// seconds for a state on its way to let go of its buffer
constexpr double kSettleLimit = 30;

// `epoch` of back.
constexpr std::uint32_t kFresh = 1;        // started again, with a neighbour's state
constexpr std::uint32_t kMissesYours = 2;  // the sender has not heard the addressee's

std::uint32_t name_of(const std::vector<bool>& dead) {
  std::uint32_t hash = 2166136261u;
  for (const bool gone : dead) hash = (hash ^ (gone ? 1u : 2u)) * 16777619u;
  return hash;
}

}  // namespace

std::vector<bool> Exchanger::dead() const {
  std::vector<bool> out;
  for (const Peer& p : peers_) out.push_back(p.dead);
  return out;
}

// Who is connected now is a member; another one that is being started again as well may have come
// since this worker began to.
void Exchanger::come_back(const std::vector<Event>& early) {
  early_.assign(early.begin(), early.end());
  int alive = 1;
  const std::scoped_lock lock(state_.mutex);
  for (int p = 0; p < base_.n; ++p) {
    if (p == group_.rank()) continue;
    peer(p).dead = !link_.alive(p);
    // as the giver had it; who died since then took about as much along as it has now
    double& share = account(p).share;
    share = !peer(p).dead ? -1 : share < 0 ? state_.progress : share;
    if (peer(p).dead) {
      policy_->gone(p);
    } else {
      membership_.joined(p);
      ++alive;
    }
  }
  state_.set_alive(alive, state_.gradients_of_all());
}

// Whoever is gone takes part in nothing any more; its neighbours are joined, and the constants
// follow the new graph.
void Exchanger::bury(int rank, const std::string& what) {
  Peer& p = peer(rank);
  p.returning = false;
  p.waiting.reset();
  if (state_.giver) {
    const std::scoped_lock lock(state_.mutex);
    state_.giver->gone(rank);
  }
  if (std::exchange(p.dead, true)) return;
  p.stopped.reset();
  if (transfer_.peer() == rank) transfer_.abort();
  policy_->gone(rank);
  adopt_graph();
  int alive = 0;
  {
    const std::scoped_lock lock(state_.mutex);
    state_.record({.kind = RecordedEvent::Kind::gone, .peer = rank});
    account(rank).share = state_.progress;  // about as large as ours
    alive = state_.alive - 1;
    state_.set_alive(alive, state_.gradients_of_all());
  }
  if (options_.on_fault) options_.on_fault(what, rank);
  check<DistError>(alive >= options_.min_workers, "worker ", group_.rank(), ": only ", alive,
                   " of ", base_.n, " workers are alive, at least ", options_.min_workers,
                   " are wanted; resume from the last checkpoint");
}

void Exchanger::greet(int rank, bool fresh) {
  Message back{.type = MessageType::back};
  back.epoch = (fresh ? kFresh : 0) | (peer(rank).dead ? kMissesYours : 0);
  {
    const std::scoped_lock lock(state_.mutex);
    back.progress = state_.progress;
    back.value = account(group_.rank()).leap;
  }
  link_.send(rank, back);
  peer(rank).said_back_at = wall_seconds();
}

void Exchanger::returned(int rank, const Message& back) {
  Peer& p = peer(rank);
  bool busy = false;
  if (state_.giver) {
    const std::scoped_lock lock(state_.mutex);
    busy = state_.giver->sending_to(rank);
  }
  if (busy) {  // it has all it needs, our payload does not know yet
    const std::uint32_t said = p.waiting ? p.waiting->epoch : 0;
    p.waiting = back;
    p.waiting->epoch |= said & kFresh;  // said once
    return;
  }
  const bool misses_us = back.epoch & kMissesYours;
  if (p.dead) {
    welcome(rank, back);
  } else {
    {
      const std::scoped_lock lock(state_.mutex);
      account(rank).leap = back.value;
    }
    if (misses_us) meet_again(rank);  // it has lost us, not we it
  }
  p.returning = false;
  if (misses_us) greet(rank);
}

// The estimate of what all have done stays as it was, plus what the other did while it was away:
// what its progress has grown by, without that which it took over when it was started again. The
// last was done by its neighbour, who tells it himself.
void Exchanger::welcome(int rank, const Message& back) {
  Peer& p = peer(rank);
  p.dead = false;
  p.stopped.reset();
  membership_.joined(rank);
  {
    const std::scoped_lock lock(state_.mutex);
    if (state_.giver) state_.giver->back(rank);
    Account& a = account(rank);
    const double leapt = std::exchange(a.leap, back.value);
    const double share = std::exchange(a.share, -1);
    const double meanwhile = back.epoch & kFresh ? 0 : back.progress - share - (back.value - leapt);
    state_.set_alive(state_.alive + 1, state_.gradients_of_all() + meanwhile);
  }
  policy_->joined(rank);
  adopt_graph();
  if (options_.on_fault) options_.on_fault("joined", rank);
}

void Exchanger::meet_again(int rank) {
  if (transfer_.peer() == rank) transfer_.abort();
  policy_->gone(rank);
  policy_->joined(rank);
  adopt_graph();
}

void Exchanger::adopt_graph() {
  const std::vector<bool> gone = dead();
  const Graph g = heal(base_, gone);
  policy_->adopt(g, gone);
  double total = 0;
  int alive = 0;
  for (const bool each : gone) alive += each ? 0 : 1;
  for (const Edge& e : g.edges) total += e.rate;
  const GraphConstants k = constants(g);
  // exchanges of a worker per unit of time, as the graph is scaled
  const double mean_rate = 2 * total / alive;
  members_ = name_of(gone);
  const std::scoped_lock lock(state_.mutex);
  state_.members = members_;
  state_.eta_at_rate_1 = state_.worker.has_twin() && mean_rate > 0 ? k.eta / mean_rate : 0;
  state_.worker.gossip.alpha_tilde = k.alpha_tilde;
  state_.worker.longest_gap = options_.rate > 0 ? 2 / options_.rate : 1;
}

// Says that this worker trains no more, and whom it counts as alive; again when that has changed,
// or might not have been heard. Who is taking over our state is waited for: it would come back to
// nobody.
void Exchanger::say_stopped() {
  const double now = wall_seconds();
  if (!said_stop_) {
    if (!policy_->may_stop()) return;
    if (state_.giver) {
      const std::scoped_lock lock(state_.mutex);
      if (state_.giver->wanted()) state_.give();  // no step comes any more that would do it
      if (state_.giver->busy()) return;
    }
    policy_->stop();
    stop_since_ = now;
  }
  if (said_stop_ && members_ == said_members_ && now - said_stop_at_ < kRepeat) return;
  said_stop_ = true;
  said_stop_at_ = now;
  said_members_ = members_;
  for (int p = 0; p < base_.n; ++p)
    if (p != group_.rank() && !peer(p).dead)
      link_.send(p, {.type = MessageType::stopped, .epoch = members_});
}

std::string Exchanger::missing() const {
  std::string late;
  for (int p = 0; p < base_.n; ++p)
    if (const Peer& other = peers_[static_cast<std::size_t>(p)];
        p != group_.rank() && !other.dead && !other.stopped)
      late += (late.empty() ? "" : ", ") + std::to_string(p);
  return late;
}

// Everyone ends with the same set, so that all meet in the same collectives: a return that only
// some have noticed is waited for.
bool Exchanger::agreed() {
  const double now = wall_seconds();
  const std::string late = missing();
  check<DistError>(late.empty() || now - stop_since_ < kStopLimit, "worker ", group_.rank(),
                   ": done, but worker(s) ", late, " did not stop within ", kStopLimit,
                   " s; do all workers have the same total_samples?");
  bool same = true;
  for (int p = 0; p < base_.n; ++p)
    same &= p == group_.rank() || peer(p).dead || peer(p).stopped == members_;
  if (!late.empty() || same)
    differ_since_ = -1;
  else if (differ_since_ < 0)
    differ_since_ = now;
  return late.empty() && (same || now - differ_since_ > kAgreeLimit);
}

void Exchanger::settle_giver() {
  bool sending = false;
  if (state_.giver) {
    const std::scoped_lock lock(state_.mutex);
    for (int p = 0; p < base_.n; ++p) state_.giver->gone(p);
    sending = state_.giver->sending();
  }
  if (sending) group_.payload().settle(Seconds(kSettleLimit));
}

}  // namespace gossamer::dist
