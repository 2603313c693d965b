// The communication thread. It sleeps in ControlLink::next() and does one thing per event.
#include "gossamer/dist/gossip/exchanger.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"

namespace gossamer::dist {
namespace {

constexpr double kLongestPause = 1;  // seconds
// seconds for a state on its way to let go of its buffer
constexpr double kDrainLimit = 30;

}  // namespace

Exchanger::Exchanger(GossipState& state, Group& group, Membership& membership, const Graph& graph,
                     const MethodOptions& options, std::unique_ptr<PartnerPolicy> policy,
                     std::vector<Event> early)
    : state_(state),
      group_(group),
      membership_(membership),
      base_(graph),
      options_(options),
      link_(group.control()),
      policy_(std::move(policy)),
      transfer_(state, group, options_),
      quarantine_(group.rank(), graph.n),
      early_(early.begin(), early.end()) {
  for (int p = 0; p < base_.n; ++p)
    if (!state_.roster.member(p)) policy_->gone(p), state_.step_times.lost(p);
  adopt_graph();
  thread_ = start_thread([this] { run(); });
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
  const auto keep_error = [this] {
    const std::scoped_lock lock(state_.mutex);
    if (!state_.error) state_.error = std::current_exception();
    for (const auto& log : state_.logs) log->failed();
    state_.changed.notify_all();
  };
  try {
    loop();
  } catch (...) {
    keep_error();
  }
  for (int p = 0; p < base_.n; ++p)
    if (!state_.roster.member(p)) membership_.left(p);  // a return from now on is too late
  // an error in mid-exchange: the payload must let go of our buffers before they are freed
  try {
    transfer_.abort();
    transfer_.drain();
    drain_sender();
  } catch (...) {
    keep_error();
  }
  // The last word to everyone: a peer that still waits for an answer of ours has it now. epoch 1:
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
    stop();
  {
    const std::scoped_lock lock(state_.mutex);
    state_.roster.advance(wall_seconds());
  }
  policy_->advance(now());
  if (arrived_) end_transfer();
  flush();
  if (const auto meeting = policy_->meeting(); meeting && !transfer_.under_way() && !abandoned_) {
    transfer_.begin(*meeting);
    policy_->begun();
  }
  const std::scoped_lock lock(state_.mutex);
  send_sketch();
  if (std::exchange(state_.tell_step_time, false))
    for (int p = 0; p < base_.n; ++p)
      if (p != group_.rank()) send_step_time(p);
  state_.sender->turn();
  state_.hold = policy_->hold();
  state_.changed.notify_all();
}

// To a worker drawn at random, so that it learns how far apart all are.
void Exchanger::send_sketch() {
  const double t = state_.clock.now(wall_seconds());
  if (t < state_.estimate.next()) return;
  state_.estimate.skip(t);
  if (stopping_ || abandoned_ || options_.rate <= 0) return;
  std::vector<int> others;
  for (int p = 0; p < base_.n; ++p)
    if (p != group_.rank() && state_.roster.member(p)) others.push_back(p);
  if (others.empty()) return;
  const auto [peer, stream] = state_.estimate.choose(others);
  const PairSketch own = state_.model.sketch(t, stream);
  for (const Message& m : state_.estimate.messages(own)) link_.send(peer, m);
}

void Exchanger::send_step_time(int peer) {
  if (state_.step_time.said() > 0)
    link_.send(peer, {.type = MessageType::step_time, .value = state_.step_time.said()});
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
  if (policy_->meeting() || !policy_->resting()) return false;
  const std::scoped_lock lock(state_.mutex);
  return state_.roster.ended(wall_seconds());
}

Seconds Exchanger::pause() {
  const Wake wake = policy_->wake();
  const double wall = wall_seconds();
  double until = std::min(wall + kLongestPause, wake.wall);
  const std::scoped_lock lock(state_.mutex);
  until = std::min(until, state_.clock.wall_at(std::min(wake.t, state_.estimate.next())));
  return Seconds(std::max(0.0, until - wall));
}

// The roster's messages first: a peer drops what comes from a worker that is no member.
void Exchanger::flush() {
  std::vector<std::pair<int, Message>> messages;
  {
    const std::scoped_lock lock(state_.mutex);
    messages = state_.roster.take_messages();
  }
  for (const auto& [peer, message] : messages) link_.send(peer, message);
  for (const auto& [peer, message] : policy_->take_messages()) link_.send(peer, message);
}

void Exchanger::handle(const Event& e) {
  std::vector<Roster::Change> changes;
  bool member = true;
  {
    const std::scoped_lock lock(state_.mutex);
    const double now = wall_seconds();
    switch (e.kind) {
      case Event::Kind::message:
        member = state_.roster.member(e.peer);
        handle(e.peer, e.message, now);
        break;
      case Event::Kind::exchanged:
        if (transfer_.under_way() && e.peer == transfer_.peer() && e.session == transfer_.session())
          arrived_ = e;
        if (state_.sender->ended(e))
          for (const Message& back : state_.sender->take_kept())
            state_.roster.receive(e.peer, back, now);
        break;
      case Event::Kind::dead:
        state_.sender->gone(e.peer);
        state_.roster.lost(e.peer, "dead");
        break;
      case Event::Kind::joined:
        state_.roster.joined(e.peer, now);
        break;
      case Event::Kind::woken:
      case Event::Kind::none:
        break;
    }
    changes = state_.roster.take_changes();
  }
  for (const Roster::Change& change : changes) follow(change);
  if (e.kind == Event::Kind::message && e.message.type == MessageType::doubt) return judge();
  if (e.kind == Event::Kind::message && member) policy_->receive(e.peer, e.message);
}

void Exchanger::handle(int from, const Message& m, double now) {
  if (m.type == MessageType::sketch) {
    ConsensusEstimate& estimate = state_.estimate;
    if (state_.roster.member(from) && estimate.receive(from, m))
      estimate.own(state_.model.sketch(state_.clock.now(now), estimate.stream()));
    return;
  }
  if (m.type == MessageType::doubt) {
    if (state_.roster.member(from)) quarantine_.heard(from, m);
    return;
  }
  if (m.type == MessageType::step_time) return state_.step_times.said(from, m.value);
  if (m.type == MessageType::ask_state) return state_.sender->asked(from, m, stopping_);
  if (m.type == MessageType::back && state_.sender->keep(from, m)) return;
  if (m.type == MessageType::bye && m.epoch == 0) state_.sender->gone(from);
  state_.roster.receive(from, m, now);
}

void Exchanger::follow(const Roster::Change& change) {
  using Kind = Roster::Change::Kind;
  const int peer = change.peer;
  switch (change.kind) {
    case Kind::stopped:
      return policy_->stopped(peer);
    case Kind::left:
      return policy_->gone(peer);
    case Kind::reset:
      if (transfer_.peer() == peer) transfer_.abort();
      policy_->gone(peer);
      policy_->joined(peer);
      return adopt_graph();
    case Kind::returned: {
      membership_.joined(peer);
      policy_->joined(peer);
      adopt_graph();
      {
        const std::scoped_lock lock(state_.mutex);
        state_.sender->back(peer);
        state_.step_times.joined(peer);
        send_step_time(peer);
      }
      if (options_.on_fault) options_.on_fault("joined", peer);
      return;
    }
    case Kind::lost:
      break;
  }
  if (change.why != "dead") membership_.left(peer);
  quarantine_.forget(peer);
  if (transfer_.peer() == peer) transfer_.abort();
  policy_->gone(peer);
  adopt_graph();
  int alive = 0;
  {
    const std::scoped_lock lock(state_.mutex);
    state_.happened({.kind = WorkerEvent::Kind::lost, .peer = peer});
    state_.step_times.lost(peer);
    state_.epoch.lost();
    state_.model.restart_tracking();
    alive = state_.roster.alive();
  }
  if (options_.on_fault) options_.on_fault(change.why, peer);
  check<DistError>(alive >= options_.min_workers, "worker ", group_.rank(), ": only ", alive,
                   " of ", base_.n, " workers are alive, at least ", options_.min_workers,
                   " are wanted; if there is a checkpoint, resume from it");
}

void Exchanger::adopt_graph() {
  const std::vector<bool> gone = state_.roster.gone();  // no other thread changes it
  graph_ = group_.started() < base_.n ? graph_of_living(base_, gone, options_.workers_per_node)
                                      : heal(base_, gone);
  policy_->adopt(graph_, gone);
  double total = 0;
  for (const Edge& e : graph_.edges) total += e.rate;
  const GraphConstants k = constants(graph_);
  // exchanges of a worker per unit of time, as the graph is scaled
  const double mean_rate = 2 * total / static_cast<double>(std::ranges::count(gone, false));
  const std::scoped_lock lock(state_.mutex);
  state_.eta_at_rate_1 = state_.model.has_twin() && mean_rate > 0 ? k.eta / mean_rate : 0;
  state_.model.numbers.alpha_tilde = k.alpha_tilde;
  state_.model.numbers.longest_gap = options_.rate > 0 ? 2 / options_.rate : 1;
}

// A worker that is taking over our state is waited for: without us it could not come back.
void Exchanger::stop() {
  const std::scoped_lock lock(state_.mutex);
  if (state_.roster.stopping()) return;
  if (state_.sender->wanted()) state_.fill_sender();  // no step comes any more that would do it
  if (state_.sender->busy()) return;
  policy_->stop();
  state_.roster.stop(wall_seconds());
}

void Exchanger::end_transfer() {
  const auto verdict = abandoned_ ? false : policy_->verdict(arrived_->ok);
  if (!verdict) return;
  const int peer = transfer_.peer();
  const Event end = *std::exchange(arrived_, std::nullopt);
  const Transfer::End how = transfer_.end(*verdict ? &end : nullptr);
  policy_->ended();
  policy_->advance(now());
  if (how != Transfer::End::applied && !abandoned_ && options_.on_fault)
    options_.on_fault(how == Transfer::End::refused ? "exchange refused" : "exchange failed", peer);
  std::optional<Message> said;
  if (how == Transfer::End::applied) said = quarantine_.applied(peer);
  if (how == Transfer::End::refused) said = quarantine_.refused(peer, transfer_.own_is_finite());
  if (!said) return;
  tell_all(*said);
  judge();
}

void Exchanger::tell_all(const Message& m) {
  for (int p = 0; p < base_.n; ++p)
    if (p != group_.rank() && state_.roster.member(p)) link_.send(p, m);
}

void Exchanger::judge() {
  if (abandoned_) return;
  for (int worker = 0; worker < base_.n; ++worker) {
    const std::vector<int> neighbours = graph_.neighbours(worker);
    if (!state_.roster.member(worker) || !quarantine_.is_broken(worker, neighbours)) continue;
    if (worker == group_.rank()) {
      const std::string why = quarantine_.verdict(neighbours);
      tell_all(quarantine_.resigns());
      throw GivenUp(why);
    }
    std::vector<Roster::Change> changes;
    {
      const std::scoped_lock lock(state_.mutex);
      state_.roster.lost(worker, "quarantined");
      changes = state_.roster.take_changes();
    }
    for (const Roster::Change& change : changes) follow(change);
  }
}

void Exchanger::drain_sender() {
  bool sending = false;
  {
    const std::scoped_lock lock(state_.mutex);
    for (int p = 0; p < base_.n; ++p) state_.sender->gone(p);
    sending = state_.sender->sending();
  }
  if (sending) group_.payload().drain(Seconds(kDrainLimit));
}

}  // namespace gossamer::dist
