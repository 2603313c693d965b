// The communication thread. It sleeps in ControlLink::next() and does one thing per event.
#include "gossamer/dist/gossip/exchanger.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"

namespace gossamer::dist {
namespace {

constexpr double kLongestPause = 1;  // seconds

}  // namespace

Exchanger::Exchanger(GossipState& state, Group& group, Membership& membership, const Graph& graph,
                     const MethodOptions& options, const std::vector<Event>* early)
    : state_(state),
      group_(group),
      membership_(membership),
      base_(graph),
      options_(options),
      link_(group.control()),
      policy_(state.replay ? std::make_unique<ReplayPolicy>(*state.replay)
                           : make_partner_policy(options, graph, group.rank())),
      transfer_(state, group, options_),
      peers_(static_cast<std::size_t>(graph.n)),
      came_back_(early != nullptr) {
  if (early) come_back(*early);
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

void Exchanger::wake() {
  link_.post({.kind = Event::Kind::woken,
              .peer = -1,
              .message = {},
              .ok = false,
              .session = 0,
              .why = {}});
}

void Exchanger::finish() {
  stopping_ = true;
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
}

void Exchanger::run() {
  trace::name_thread("gossip");
  set_compute_threads(1);  // a pool of its own would spin on the cores that train
  try {
    loop();
  } catch (...) {
    const std::scoped_lock lock(state_.mutex);
    state_.error = std::current_exception();
    if (state_.replay) state_.replay->give_up();
  }
  for (int p = 0; p < base_.n; ++p)
    if (peer(p).dead) membership_.left(p);  // who comes back from now on comes too late
  // an error in mid-exchange: the payload must let go of our buffers before they are freed
  transfer_.abort();
  transfer_.settle();
  settle_giver();
  // The last word to everyone: whoever still waits for an answer of ours has it now. epoch 1:
  // training ended as planned.
  const std::scoped_lock lock(state_.mutex);
  Message bye{.type = MessageType::bye};
  bye.epoch = abandoned_ || state_.error ? 0 : 1;
  for (int peer = 0; peer < base_.n; ++peer)
    if (peer != group_.rank()) link_.send(peer, bye);
  state_.hold = {};
  state_.changed.notify_all();
}

void Exchanger::loop() {
  if (came_back_)
    for (int p = 0; p < base_.n; ++p)
      if (p != group_.rank() && !peer(p).dead) greet(p, true);
  for (;;) {
    turn();
    if (finished()) return;
    if (early_.empty()) {
      handle(link_.next(pause()));
    } else {
      handle(early_.front());
      early_.pop_front();
    }
    flush();
  }
}

void Exchanger::turn() {
  if (abandoned_)
    transfer_.abort();
  else if (stopping_)
    say_stopped();
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
  for (int p = 0; p < base_.n; ++p)
    if (peer(p).returning && wall_seconds() - peer(p).said_back_at > kLongestPause) greet(p);
  const std::scoped_lock lock(state_.mutex);
  if (state_.giver) state_.giver->turn();
  state_.hold = policy_->hold();
  state_.changed.notify_all();
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

bool Exchanger::finished() {
  if (transfer_.under_way()) return false;  // the payload still holds our buffers
  if (abandoned_) return true;
  return said_stop_ && !policy_->meeting() && policy_->resting() && agreed();
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
      return handle(e.peer, e.message);
    case Event::Kind::exchanged: {
      if (transfer_.under_way() && e.peer == transfer_.peer() && e.session == transfer_.session())
        arrived_ = e.ok;
      bool given = false;
      if (state_.giver) {
        const std::scoped_lock lock(state_.mutex);
        given = state_.giver->ended(e);
      }
      if (given && peer(e.peer).waiting)
        returned(e.peer, *std::exchange(peer(e.peer).waiting, std::nullopt));
      return;
    }
    case Event::Kind::dead:
      return bury(e.peer, "dead");
    case Event::Kind::joined:
      peer(e.peer).returning = peer(e.peer).dead;
      return greet(e.peer);
    case Event::Kind::woken:
    case Event::Kind::none:
      return;
  }
}

void Exchanger::handle(int from, const Message& m) {
  switch (m.type) {
    case MessageType::back:
      return returned(from, m);
    case MessageType::ask_state: {
      const std::scoped_lock lock(state_.mutex);
      if (state_.giver) state_.giver->asked(from, m, stopping_);
      return;
    }
    case MessageType::bye:
      if (m.epoch == 1) return policy_->gone(from);  // for pairing only
      membership_.left(from);
      return bury(from, "left");
    default:
      break;
  }
  if (peer(from).dead) return;  // late words
  if (m.type != MessageType::stopped) return policy_->receive(from, m);
  const bool known = peer(from).stopped.has_value();
  peer(from).stopped = m.epoch;
  if (!known) policy_->stopped(from);
}

void Exchanger::end_transfer() {
  const int peer = transfer_.peer();
  const bool ok = transfer_.end(!abandoned_ && policy_->accepts(*arrived_));
  arrived_.reset();
  policy_->ended();
  if (!ok && !abandoned_ && options_.on_fault) options_.on_fault("exchange failed", peer);
}

}  // namespace gossamer::dist
