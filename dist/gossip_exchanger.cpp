// The communication thread. It sleeps in ControlLink::next() and does one thing per event.
#include "gossamer/dist/gossip_exchanger.h"

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"

namespace gossamer::dist {
namespace {

constexpr double kStopLimit = 600;           // seconds that others may go on training after this worker is done
constexpr double kLongestPause = 1;          // seconds

}  // namespace

Exchanger::Exchanger(GossipState& state, Group& group, Membership& membership, const Graph& graph, const MethodOptions& options)
    : state_(state), group_(group), membership_(membership), base_(graph), options_(options), link_(group.control()),
      policy_(state.replay ? std::make_unique<ReplayPolicy>(*state.replay) : make_partner_policy(options, graph, group.rank())),
      transfer_(state, group, options_),
      dead_(static_cast<std::size_t>(graph.n)), stopped_(static_cast<std::size_t>(graph.n)) {
  adopt_graph();
  thread_ = std::thread([this] { run(); });
}

Exchanger::~Exchanger() {
  abandoned_ = true;
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
}

void Exchanger::wake() { link_.post({.kind = Event::Kind::woken, .peer = -1, .message = {}, .ok = false, .session = 0, .why = {}}); }

void Exchanger::finish() {
  stopping_ = true;
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
}

void Exchanger::run() {
  trace::name_thread("gossip");
  set_compute_threads(1);                    // a pool of its own would spin on the cores that train
  try {
    loop();
  } catch (...) {
    const std::scoped_lock lock(state_.mutex);
    state_.error = std::current_exception();
    if (state_.replay) state_.replay->give_up();
  }
  transfer_.abort();                         // an error in mid-exchange: the payload must let go of our buffers before they are freed
  transfer_.settle();
  // The last word to everyone: whoever still waits for an answer of ours has it now. epoch 1: training ended as planned.
  const std::scoped_lock lock(state_.mutex);
  Message bye{.type = MessageType::bye};
  bye.epoch = abandoned_ || state_.error ? 0 : 1;
  for (int peer = 0; peer < base_.n; ++peer)
    if (peer != group_.rank()) link_.send(peer, bye);
  state_.hold = {};
  state_.changed.notify_all();
}

void Exchanger::loop() {
  for (;;) {
    turn();
    if (finished()) return;
    handle(link_.next(pause()));
    flush();
  }
}

void Exchanger::turn() {
  if (abandoned_) transfer_.abort();
  else if (stopping_ && !said_stop_ && policy_->may_stop()) stop();
  policy_->advance(now());
  if (arrived_ && (abandoned_ || policy_->may_end())) {
    end_transfer();
    policy_->advance(now());
  }
  flush();
  if (const auto meeting = policy_->meeting(); meeting && !transfer_.under_way() && !abandoned_) {
    transfer_.begin(*meeting);
    policy_->begun();
  }
  const std::scoped_lock lock(state_.mutex);
  state_.hold = policy_->hold();
  state_.changed.notify_all();
}

void Exchanger::stop() {
  policy_->stop();
  for (int peer = 0; peer < base_.n; ++peer)
    if (peer != group_.rank()) link_.send(peer, {.type = MessageType::stopped});
  said_stop_ = true;
  stop_since_ = wall_seconds();
}

// Time as the policy sees it; what training has waited for in vain is dropped first.
Now Exchanger::now() {
  double in_vain = -1;
  Now out;
  {
    const std::scoped_lock lock(state_.mutex);
    std::swap(in_vain, state_.waited_in_vain);
    out.wall = wall_seconds();
    out.t = state_.clock.now(out.wall);
    out.gradient_s = state_.clock.mean();
  }
  if (in_vain >= 0) policy_->drop_due(in_vain);
  return out;
}

bool Exchanger::finished() const {
  if (transfer_.under_way()) return false;             // the payload still holds our buffers
  if (abandoned_) return true;
  if (!said_stop_ || policy_->meeting() || !policy_->resting()) return false;
  std::string late;
  for (int peer = 0; peer < base_.n; ++peer)
    if (const auto p = static_cast<std::size_t>(peer); peer != group_.rank() && !dead_[p] && !stopped_[p])
      late += (late.empty() ? "" : ", ") + std::to_string(peer);
  check<DistError>(late.empty() || wall_seconds() - stop_since_ < kStopLimit, "worker ", group_.rank(), ": done, but worker(s) ", late,
                   " did not stop within ", kStopLimit, " s; do all workers have the same total_samples?");
  return late.empty();
}

Seconds Exchanger::pause() {
  const Wake wake = policy_->wake();
  const double wall = wall_seconds();
  double until = std::min(wall + kLongestPause, wake.wall);
  if (std::isfinite(wake.t)) {
    const std::scoped_lock lock(state_.mutex);
    until = std::min(until, state_.clock.wall_at(wake.t));
  }
  return Seconds(std::max(0.0, until - wall));
}

void Exchanger::flush() {
  for (auto& [peer, message] : policy_->take_messages()) link_.send(peer, message);
}

void Exchanger::handle(const Event& e) {
  switch (e.kind) {
    case Event::Kind::message:
      if (e.message.type == MessageType::stopped) stopped_.at(static_cast<std::size_t>(e.peer)) = true, policy_->stopped(e.peer);
      else if (e.message.type == MessageType::bye && e.message.epoch == 1) policy_->gone(e.peer);      // for pairing only
      else if (e.message.type == MessageType::bye) membership_.left(e.peer), bury(e.peer, "left");
      else policy_->receive(e.peer, e.message);
      return;
    case Event::Kind::exchanged:
      if (transfer_.under_way() && e.peer == transfer_.peer()) arrived_ = e.ok;
      return;
    case Event::Kind::dead: return bury(e.peer, "dead");
    case Event::Kind::joined:
    case Event::Kind::woken:
    case Event::Kind::none: return;
  }
}

void Exchanger::end_transfer() {
  const int peer = transfer_.peer();
  const bool ok = transfer_.end(!abandoned_ && policy_->accepts(*arrived_));
  arrived_.reset();
  policy_->ended();
  if (!ok && !abandoned_ && options_.on_fault) options_.on_fault("exchange failed", peer);
}

// Whoever is gone takes part in nothing any more; its neighbours are joined, and the constants follow the new graph.
void Exchanger::bury(int peer, const std::string& what) {
  const auto p = static_cast<std::size_t>(peer);
  if (dead_.at(p)) return;
  dead_[p] = true;
  if (transfer_.peer() == peer) transfer_.abort();
  policy_->gone(peer);
  adopt_graph();
  int alive = 0;
  {
    const std::scoped_lock lock(state_.mutex);
    state_.record({.kind = RecordedEvent::Kind::gone, .peer = peer});
    state_.progress_of_dead += state_.progress;
    alive = --state_.alive;
    state_.stats.alive = alive;
  }
  if (options_.on_fault) options_.on_fault(what, peer);
  check<DistError>(alive >= options_.min_workers, "worker ", group_.rank(), ": only ", alive, " of ", base_.n, " workers are alive, at least ",
                   options_.min_workers, " are wanted; resume from the last checkpoint");
}

void Exchanger::adopt_graph() {
  const Graph g = heal(base_, dead_);
  policy_->adopt(g, dead_);
  double total = 0;
  int alive = 0;
  for (const bool dead : dead_) alive += dead ? 0 : 1;
  for (const Edge& e : g.edges) total += e.rate;
  const GraphConstants k = constants(g);
  const double mean_rate = 2 * total / alive;              // exchanges of a worker per unit of time, as the graph is scaled
  const std::scoped_lock lock(state_.mutex);
  state_.eta_at_rate_1 = state_.worker.has_twin() && mean_rate > 0 ? k.eta / mean_rate : 0;
  state_.worker.gossip.alpha_tilde = k.alpha_tilde;
  state_.worker.longest_gap = options_.rate > 0 ? 2 / options_.rate : 1;
}

}  // namespace gossamer::dist
