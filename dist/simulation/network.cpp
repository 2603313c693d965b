// Workers, messages and transfers as events in simulated time.
#include "gossamer/dist/simulation/network.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

// seconds until a worker looks at its clock again: times are rounded
constexpr double kShortestWait = 1e-9;

double norm(std::span<const double> x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

double mean_rate(const Graph& g) {  // exchanges of a worker per unit of time
  double total = 0;
  for (const Edge& e : g.edges) total += e.rate;
  return 2 * total / g.n;
}

}  // namespace

NetworkSimulation::NetworkSimulation(const SimulationPlan& plan, const Problem* problem,
                                     std::uint64_t seed)
    : Simulation(plan.options.workers, problem ? problem->dims() : plan.options.dims),
      plan_(plan),
      problem_(problem),
      lies_(plan),
      random_(seed, 1),
      noise_(seed, 2),
      crossing_(static_cast<std::size_t>(workers_)) {
  const bool twin = plan.row->gossip.accelerated;
  if (plan.options.settings.as<EqualWeightOptions>(plan.options.method).equal_weight)
    step_times_.emplace(workers_);
  const double rate = mean_rate(plan.graph);
  if (twin) eta_at_rate_1_ = plan.options.eta_scale * plan.constants.eta / rate;
  MethodOptions options;
  options.rate = rate;
  options.seed = seed;
  options.pairing = plan.options.pairing;
  std::vector<Neighbours> neighbours(static_cast<std::size_t>(workers_));
  for (const Edge& e : plan.graph.edges) {
    neighbours[static_cast<std::size_t>(e.a)].emplace_back(e.b, e.rate);
    neighbours[static_cast<std::size_t>(e.b)].emplace_back(e.a, e.rate);
  }
  all_.reserve(static_cast<std::size_t>(workers_));
  for (int i = 0; i < workers_; ++i) {
    Worker& w = all_.emplace_back(simulated_start(plan, problem, seed, i), twin,
                                  plan.row->gossip.tracks, ConsensusEstimate(i, seed));
    if (twin) w.state.numbers.alpha_tilde = plan.constants.alpha_tilde;
    w.state.numbers.longest_gap = 2 / rate;
    Neighbours& own = neighbours[static_cast<std::size_t>(i)];
    std::ranges::sort(own);
    for (const auto& [j, edge_rate] : own) w.neighbours.push_back(j);
    w.tally.with.assign(w.neighbours.size(), 0);
    if (problem) w.momentum.assign(w.state.x.size(), 0.0), w.gradient = w.momentum;
    give_policy(i, own, options);
  }
  for (int i = 0; i < workers_; ++i) {
    begin_gradient(i);
    turn(i);
  }
}

// A worker of the handshake speaks with its neighbours only (nobody dies here), so its policy is
// told of no others: its cost is that of a small network. Names keep their order, which is what the
// protocol goes by. The other policies need the whole graph.
void NetworkSimulation::give_policy(int i, const Neighbours& neighbours, MethodOptions options) {
  Worker& w = at(i);
  if (options.pairing != "handshake") {
    w.policy = make_partner_policy(options, plan_.graph, i);
    w.policy->adopt(plan_.graph, std::vector<bool>(static_cast<std::size_t>(workers_)));
    return;
  }
  w.known = w.neighbours;
  w.known.insert(std::ranges::lower_bound(w.known, i), i);
  const int self = inside(w, i);
  Graph star{plan_.graph.name, static_cast<int>(w.known.size()), {}};
  double share = 0;
  for (const auto& [j, rate] : neighbours) {
    const int other = inside(w, j);
    star.edges.push_back({std::min(self, other), std::max(self, other), rate});
    share += rate;
  }
  // of the star: then this worker's share is what it is in the whole graph
  options.rate = 2 * share / star.n;
  // its place in the star is no name of its own
  options.seed = options.seed * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(i);
  w.policy = make_partner_policy(options, star, self);
  w.policy->adopt(star, std::vector<bool>(w.known.size()));
}

int NetworkSimulation::inside(const Worker& w, int worker) {
  return w.known.empty()
             ? worker
             : static_cast<int>(std::ranges::lower_bound(w.known, worker) - w.known.begin());
}

void NetworkSimulation::run_until_seconds(double t) {
  while (!queue_.empty() && queue_.next_time() <= t) {
    now_ = queue_.next_time();
    handle(queue_.pop());
  }
  now_ = std::max(now_, t);
}

void NetworkSimulation::present(int worker, std::span<double> x) {
  const Worker& w = at(worker);
  w.state.look(w.clock.now(now_), x);
}

void NetworkSimulation::handle(const Due& h) {
  Worker& w = at(h.who);
  switch (h.what) {
    case What::message:
      if (h.message.type == MessageType::sketch) {
        if (w.estimate.receive(h.other, h.message)) w.estimate.own(sketch(w, w.estimate.stream()));
        return;
      }
      w.policy->receive(inside(w, h.other), h.message);
      return turn(h.who);
    case What::turn:
      if (now_ >= w.next_turn_s) w.next_turn_s = INFINITY;
      return turn(h.who);
    case What::gradient_done:
      return end_gradient(h.who);
    case What::waited_enough:
      if (!w.waiting || w.waits != h.tag) return;
      ++w.tally.dropped;
      w.policy->drop_due(static_cast<double>(w.clock.count()));
      end_wait(h.who);
      return turn(h.who);
    case What::exchange_done: {
      Worker& other = at(h.other);
      share(h.who, h.other, -1);
      hear(h.who, h.other);
      hear(h.other, h.who);
      w.their_limit = other.limit;
      other.their_limit = w.limit;
      w.arrived = other.arrived = true;
      turn(h.who);
      return turn(h.other);
    }
  }
}

void NetworkSimulation::turn(int i) {
  Worker& w = at(i);
  for (bool again = true; again;) {
    again = false;
    w.policy->advance(now(w));
    if (w.arrived) end_exchange(i), again = true;
    send(i);
    if (const auto meeting = w.policy->meeting(); meeting && w.partner < 0) {
      begin_exchange(i, *meeting);
      w.policy->begun();
      again = true;
    }
  }
  if (w.waiting && static_cast<double>(w.clock.count()) < w.policy->hold().at) end_wait(i);
  if (problem_ && w.clock.now(now_) >= w.estimate.next()) send_sketch(i);
  plan_next_turn(i);
}

void NetworkSimulation::send(int i) {
  Worker& w = at(i);
  for (const auto& [name, message] : w.policy->take_messages()) {
    const int to = outside(w, name);
    double& newest = w.newest[to];
    newest = std::max(newest, now_ + plan_.options.machines.message_s(i, to) *
                                         plan_.options.machines.link.draw(random_));
    queue_.push(newest, {What::message, to, i, 0, message});
  }
}

void NetworkSimulation::send_sketch(int i) {
  Worker& w = at(i);
  std::vector<int> others;
  for (int j = 0; j < workers_; ++j)
    if (j != i) others.push_back(j);
  const auto [to, stream] = w.estimate.choose(others);
  w.estimate.skip(w.clock.now(now_));
  for (const Message& m : w.estimate.messages(sketch(w, stream)))
    queue_.push(now_ + plan_.options.machines.message_s(i, to), {What::message, to, i, 0, m});
}

PairSketch NetworkSimulation::sketch(const Worker& w, std::uint64_t stream) const {
  std::vector<double> x(w.state.x.size());
  w.state.look(w.clock.now(now_), x);
  Tensor as_f32 = Tensor::empty({static_cast<i64>(x.size())});
  for (std::size_t k = 0; k < x.size(); ++k) as_f32.span<float>()[k] = static_cast<float>(x[k]);
  PairSketch out{};
  add_sketch(as_f32, 1, stream, out);
  return out;
}

void NetworkSimulation::plan_next_turn(int i) {
  Worker& w = at(i);
  const Wake wake = w.policy->wake();
  const double t = problem_ ? std::min(wake.t, w.estimate.next()) : wake.t;
  const double next = std::max(now_ + kShortestWait, std::min(wake.wall, w.clock.wall_at(t)));
  if (next >= w.next_turn_s) return;
  w.next_turn_s = next;
  queue_.push(next, {What::turn, i, -1, 0, {}});
}

// The gradient is of the copy that training computes with: x as it is now. What is exchanged
// meanwhile does not change it.
void NetworkSimulation::begin_gradient(int i) {
  Worker& w = at(i);
  const Machines& m = plan_.options.machines;
  w.clock.resume(now_);
  if (problem_) problem_->gradient(i, w.state.x, noise_, w.gradient);
  w.gradient_s = m.compute_s * m.slowness(i) * m.compute.draw(random_);
  queue_.push(now_ + w.gradient_s, {What::gradient_done, i, -1, 0, {}});
}

void NetworkSimulation::end_gradient(int i) {
  Worker& w = at(i);
  ++gradients_;
  ++w.tally.gradients;
  w.tally.compute_s += w.gradient_s;
  w.clock.tick(now_);
  w.rate.gradient();
  if (w.state.has_twin())
    w.state.numbers.eta = RateTracker::kSafety * eta_at_rate_1_ * w.rate.rate();
  w.state.drift(static_cast<double>(w.clock.count()));
  const double learning_rate = weight_of_step(i) * plan_.options.learning_rate;
  if (problem_)
    for (std::size_t k = 0; k < w.gradient.size(); ++k) {
      double& u = w.gradient[k];
      u = learning_rate * sgd_direction(plan_.options.momentum, 0.0, false, w.state.x[k],
                                        w.state.tracked(k, u), w.momentum[k]);
      w.state.update(k, u);
    }
  watch("gradient", i, -1, static_cast<double>(w.clock.count()), w.gradient);
  w.waiting = true;
  w.wait_began_s = now_;
  ++w.waits;
  // begins the next gradient unless the policy holds training
  turn(i);
  if (w.waiting)
    queue_.push(now_ + w.policy->hold().seconds, {What::waited_enough, i, -1, w.waits, {}});
}

double NetworkSimulation::weight_of_step(int i) {
  if (!step_times_) return 1;
  StepTime& own = at(i).step_time;
  own.step(now_);
  if (own.is_news()) step_times_->said(i, own.said());
  return step_times_->weight(own.seconds());
}

void NetworkSimulation::end_wait(int i) {
  Worker& w = at(i);
  w.waiting = false;
  w.tally.waited_s += now_ - w.wait_began_s;
  begin_gradient(i);
}

// Counts a transfer on the links of both nodes; returns how many share the fuller of the two. One
// that begins later does not slow it down.
int NetworkSimulation::share(int i, int j, int change) {
  const Machines& m = plan_.options.machines;
  if (m.together(i, j)) return 1;
  int& a = crossing_[static_cast<std::size_t>(m.node_of(i))];
  int& b = crossing_[static_cast<std::size_t>(m.node_of(j))];
  return std::max(a += change, b += change);
}

// The transfer begins when both sides have taken their snapshots.
void NetworkSimulation::begin_exchange(int i, const Meeting& meeting) {
  Worker& w = at(i);
  const int peer = outside(w, meeting.peer);
  check<Error>(w.partner < 0, "worker ", i, " began an exchange with ", peer, " while in one with ",
               w.partner);
  w.partner = peer;
  w.session = meeting.session;
  w.exchange_began_s = now_;
  const double own = meeting.t.value_or(w.clock.now(now_));
  w.mark = w.state.snapshot(own, w.own);
  if (w.usual.wants_norm()) w.usual.norm(norm(w.own));
  w.limit = w.usual.limit();
  watch("snapshot", i, peer, own);
  const Worker& other = at(peer);
  if (other.partner != i || other.session != w.session) return;
  const Machines& m = plan_.options.machines;
  const double took = m.transfer_s(i, peer, share(i, peer, 1)) * m.link.draw(random_);
  queue_.push(now_ + took, {What::exchange_done, i, peer, 0, {}});
  ++exchanges_;
}

void NetworkSimulation::hear(int i, int from) {
  Worker& w = at(i);
  const auto look = [&](int worker, std::span<double> out) { present(worker, out); };
  std::vector<double> lie;
  const auto said = lies_.said(from, i, at(from).tally.gradients, at(from).own, w.own, look, lie);
  w.received.assign(said.begin(), said.end());
}

// Workers that only agree start anywhere: there is no distance that is usual.
bool NetworkSimulation::refuses(Worker& w) {
  if (!problem_) return false;
  std::vector<double> gap = w.own;
  for (std::size_t k = 0; k < gap.size(); ++k) gap[k] -= w.received[k];
  const double distance = norm(gap);
  const bool refused = too_far(distance, w.limit, w.their_limit);
  refused ? w.usual.refused() : w.usual.accepted(distance);
  return refused;
}

void NetworkSimulation::end_exchange(int i) {
  Worker& w = at(i);
  if (refuses(w)) {
    ++w.tally.refused;
  } else {
    w.state.apply(w.mark, w.own, w.received);
    watch("arrival", i, w.partner, w.clock.now(now_));
    w.rate.exchange();
    ++w.tally.exchanges;
  }
  w.tally.transfer_s += now_ - w.exchange_began_s;
  const bool repeats = w.partner == w.last_partner;
  w.tally.repeats += repeats, repeats_ += repeats;
  const auto place = std::ranges::lower_bound(w.neighbours, w.partner);
  if (place != w.neighbours.end() && *place == w.partner)
    ++w.tally.with[static_cast<std::size_t>(place - w.neighbours.begin())];
  w.last_partner = w.partner;
  w.partner = -1;
  w.arrived = false;
  w.policy->ended();
}

void NetworkSimulation::watch(const char* kind, int i, int j, double own,
                              std::span<const double> update) const {
  const SimulatedWorker& s = at(i).state;
  if (plan_.watch)
    plan_.watch({kind,
                 now_ / plan_.options.machines.compute_s,
                 own,
                 i,
                 j,
                 s.numbers.eta,
                 update,
                 s.x,
                 s.twin,
                 {},
                 {}});
}

std::unique_ptr<Simulation> make_network_simulation(const SimulationPlan& plan,
                                                    const Problem* problem, std::uint64_t seed) {
  return std::make_unique<NetworkSimulation>(plan, problem, seed);
}

}  // namespace gossamer::dist
