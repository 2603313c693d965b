// The communication thread. It sleeps in ControlLink::next() and does one thing per event.
#include "gossamer/dist/gossip_exchanger.h"

#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"

namespace gossamer::dist {
namespace {

constexpr double kProposalLimit = 0.2;       // seconds without an answer (host-communication: 200 ms)
constexpr double kStopLimit = 600;           // seconds that others may go on training after this worker is done
constexpr double kSettleLimit = 30;          // seconds for an exchange that was given up to let go of its buffers
constexpr int kProgressFloats = 2;           // one double

std::map<int, double> rates_of(const Graph& g, int self) {
  std::map<int, double> rates;
  for (int peer = 0; peer < g.n; ++peer)
    if (peer != self) rates[peer] = g.rate(self, peer);
  return rates;
}

std::size_t choose(Rng& random, std::span<const double> rates) {
  double total = 0;
  for (const double rate : rates) total += rate;
  double ticket = random.uniform53() * total;
  for (std::size_t i = 0; i + 1 < rates.size(); ++i)
    if ((ticket -= rates[i]) < 0) return i;
  return rates.size() - 1;
}

std::uint64_t arrow(int a, int b, std::uint32_t session) {
  return static_cast<std::uint64_t>(std::min(a, b)) << 48 | static_cast<std::uint64_t>(std::max(a, b)) << 32 | session;
}

}  // namespace

Exchanger::Exchanger(GossipState& state, Group& group, Membership& membership, const Graph& graph, const MethodOptions& options)
    : state_(state), group_(group), membership_(membership), base_(graph), options_(options), link_(group.control()),
      random_(options.seed, 0x70616972u + static_cast<std::uint64_t>(group.rank())),
      pairing_(group.rank(), rates_of(graph, group.rank()), [this](std::span<const double> rates) { return choose(random_, rates); }),
      dead_(static_cast<std::size_t>(graph.n)), stopped_(static_cast<std::size_t>(graph.n)) {
  const i64 size = state.worker.x().numel();
  send_ = Tensor::zeros({size + kProgressFloats});
  receive_ = Tensor::zeros({size + kProgressFloats});
  own_ = send_.slice(0, size);
  theirs_ = receive_.slice(0, size);
  adopt_graph();
  if (state_.starts_per_gradient > 0) state_.draw_next_start();
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
  }
  if (exchanging_) {                         // an error in mid-exchange: the payload must let go of our buffers before they are freed
    group_.payload().abort(pairing_.partner());
    group_.payload().settle(Seconds(kSettleLimit));
  }
  // The last word to everyone: whoever still waits for an answer of ours has it now. epoch 1: training ended as planned.
  const std::scoped_lock lock(state_.mutex);
  Message bye{.type = MessageType::bye};
  bye.epoch = abandoned_ || state_.error ? 0 : 1;
  for (int peer = 0; peer < base_.n; ++peer)
    if (peer != group_.rank()) link_.send(peer, bye);
  state_.owed = 0;
  state_.changed.notify_all();
}

void Exchanger::loop() {
  pairing_.open();
  for (;;) {
    if (pairing_.state() == Pairing::State::exchanging && !exchanging_) begin_exchange();
    follow_clock();
    flush();
    if (finished()) return;
    handle(link_.next(pause()));
    flush();
    if (pairing_.state() == Pairing::State::proposing && wall_seconds() - proposed_at_ > kProposalLimit) pairing_.time_out();
  }
}

bool Exchanger::finished() const {
  if (exchanging_) return false;             // the payload still holds our buffers
  if (abandoned_) return true;
  const auto now = pairing_.state();
  if (!said_stop_ || (now != Pairing::State::available && now != Pairing::State::idle)) return false;
  std::string late;
  for (int peer = 0; peer < base_.n; ++peer)
    if (const auto p = static_cast<std::size_t>(peer); peer != group_.rank() && !dead_[p] && !stopped_[p])
      late += (late.empty() ? "" : ", ") + std::to_string(peer);
  check<DistError>(late.empty() || wall_seconds() - stop_since_ < kStopLimit, "worker ", group_.rank(), ": done, but worker(s) ", late,
                   " did not stop within ", kStopLimit, " s; do all workers have the same total_samples?");
  return late.empty();
}

void Exchanger::follow_clock() {
  if (abandoned_ && exchanging_) return group_.payload().abort(pairing_.partner());
  if (stopping_ && !said_stop_) {
    pairing_.stop_wanting();
    for (int peer = 0; peer < base_.n; ++peer)
      if (peer != group_.rank()) link_.send(peer, {.type = MessageType::stopped});
    said_stop_ = true;
    stop_since_ = wall_seconds();
  }
  if (said_stop_ || pairing_.wanting()) return;
  const std::scoped_lock lock(state_.mutex);
  state_.collect_due(state_.clock.now(wall_seconds()));
  if (state_.owed > 0) pairing_.due();
}

Seconds Exchanger::pause() const {
  double until = wall_seconds() + 1;
  const double now = until - 1;
  if (pairing_.state() == Pairing::State::proposing) until = std::min(until, proposed_at_ + kProposalLimit);
  if (!pairing_.wanting() && !said_stop_) {
    const std::scoped_lock lock(state_.mutex);
    if (state_.starts_per_gradient > 0) until = std::min(until, state_.clock.wall_at(state_.next_start));
  }
  return Seconds(std::max(0.0, until - now));
}

// Sends what the pairing has to say, and notes when a proposal went out.
void Exchanger::flush() {
  for (auto& [peer, message] : pairing_.take_messages()) link_.send(peer, message);
  if (pairing_.state() == Pairing::State::proposing && proposal_ != pairing_.session()) {
    proposal_ = pairing_.session();
    proposed_at_ = wall_seconds();
  }
}

void Exchanger::handle(const Event& e) {
  switch (e.kind) {
    case Event::Kind::message:
      if (e.message.type == MessageType::stopped) stopped_.at(static_cast<std::size_t>(e.peer)) = true;
      else if (e.message.type == MessageType::bye && e.message.epoch == 1) pairing_.peer_dead(e.peer);      // for pairing only
      else if (e.message.type == MessageType::bye) membership_.left(e.peer), bury(e.peer, "left");
      else pairing_.receive(e.peer, e.message);
      return;
    case Event::Kind::exchanged:
      if (exchanging_ && e.peer == pairing_.partner()) end_exchange(e.ok);
      return;
    case Event::Kind::dead: return bury(e.peer, "dead");
    case Event::Kind::joined:
    case Event::Kind::woken:
    case Event::Kind::none: return;
  }
}

// First half of the communication event: both snapshots belong to the moment of the COMMIT. Training goes on meanwhile.
void Exchanger::begin_exchange() {
  const int peer = pairing_.partner();
  {
    const trace::Scope scope("snapshot", peer);
    std::unique_lock lock(state_.mutex);
    state_.changed.wait(lock, [&] { return !state_.held; });           // a copy is being taken: short
    mark_ = state_.worker.snapshot(state_.clock.now(wall_seconds()), own_);
    own_progress_ = state_.settled ? NAN : state_.progress;
    state_.in_flight = true;
    if (pairing_.initiated() && state_.owed > 0) --state_.owed;
    state_.changed.notify_all();
    if (peer > group_.rank()) trace::flow("gossip", arrow(peer, group_.rank(), pairing_.session()), true);
  }
  std::memcpy(send_.as<float>() + own_.numel(), &own_progress_, sizeof own_progress_);
  exchanging_ = true;
  began_us_ = trace::enabled() ? trace::now_us() : 0;
  began_ = wall_seconds();
  group_.payload().exchange(peer, pairing_.session(), send_.span<float>(), receive_.span<float>(), Seconds(options_.exchange_timeout_s));
}

// Second half. A snapshot that did not arrive whole, or holds infinities, changes nothing.
void Exchanger::end_exchange(bool arrived) {
  const int peer = pairing_.partner();
  if (trace::enabled()) trace::complete("exchange", began_us_, trace::now_us(), peer);
  const double took = wall_seconds() - began_;
  const double distance = arrived ? squared_distance(own_, theirs_) : 0;
  const bool ok = arrived && std::isfinite(distance);
  {
    const trace::Scope scope("jump", peer);
    const std::scoped_lock lock(state_.mutex);
    if (ok) {
      double theirs = 0;
      std::memcpy(&theirs, receive_.as<float>() + own_.numel(), sizeof theirs);
      state_.worker.apply(mark_, own_, theirs_);
      if (std::isfinite(own_progress_) && std::isfinite(theirs)) state_.progress -= 0.5 * (own_progress_ - theirs);
      state_.rate.exchange();
      ++state_.stats.exchanges;
      state_.squared_distance = state_.squared_distance < 0 ? distance : 0.9 * state_.squared_distance + 0.1 * distance;
    } else {
      ++state_.stats.failed;
    }
    state_.stats.transfer_s += took;
    state_.in_flight = false;
    state_.changed.notify_all();
    if (peer < group_.rank()) trace::flow("gossip", arrow(peer, group_.rank(), pairing_.session()), false);
  }
  exchanging_ = false;
  pairing_.exchange_done();
  pairing_.open();
  if (!ok && !abandoned_ && options_.on_fault) options_.on_fault("exchange failed", peer);
}

// Whoever is gone takes part in nothing any more; its neighbours are joined, and the constants follow the new graph.
void Exchanger::bury(int peer, const std::string& what) {
  const auto p = static_cast<std::size_t>(peer);
  if (dead_.at(p)) return;
  dead_[p] = true;
  if (exchanging_ && pairing_.partner() == peer) group_.payload().abort(peer);
  pairing_.peer_dead(peer);
  adopt_graph();
  int alive = 0;
  {
    const std::scoped_lock lock(state_.mutex);
    state_.progress_of_dead += state_.progress;
    alive = --state_.alive;
    state_.stats.alive = alive;
    if (alive == 1) state_.owed = 0;
    state_.changed.notify_all();
  }
  if (options_.on_fault) options_.on_fault(what, peer);
  check<DistError>(alive >= options_.min_workers, "worker ", group_.rank(), ": only ", alive, " of ", base_.n, " workers are alive, at least ",
                   options_.min_workers, " are wanted; resume from the last checkpoint");
}

void Exchanger::adopt_graph() {
  const Graph g = heal(base_, dead_);
  double total = 0, own = 0;
  int alive = 0;
  for (const bool dead : dead_) alive += dead ? 0 : 1;
  for (const Edge& e : g.edges) total += e.rate;
  for (const auto& [peer, rate] : rates_of(g, group_.rank())) {
    own += rate;
    if (!dead_[static_cast<std::size_t>(peer)]) pairing_.set_rate(peer, rate);
  }
  const GraphConstants k = constants(g);
  const double mean_rate = 2 * total / alive;              // exchanges of a worker per unit of time, as the graph is scaled
  const std::scoped_lock lock(state_.mutex);
  state_.eta_at_rate_1 = state_.worker.has_twin() && mean_rate > 0 ? k.eta / mean_rate : 0;
  state_.worker.gossip.alpha_tilde = k.alpha_tilde;
  state_.worker.longest_gap = options_.rate > 0 ? 2 / options_.rate : 1;
  state_.starts_per_gradient = mean_rate > 0 ? options_.rate * own / mean_rate / 2 : 0;
}

}  // namespace gossamer::dist
