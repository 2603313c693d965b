// For the tests of pairing: a network of real PartnerPolicy objects in virtual time, with random
// compute times, message delays that keep the order of each link, transfers that take time,
// stragglers, and deaths.
#pragma once

#include <functional>
#include <map>
#include <queue>

#include "gossamer/core/random.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

class VirtualNetwork {
 public:
  using Make = std::function<std::unique_ptr<PartnerPolicy>(int self)>;

  struct Worker {
    std::unique_ptr<PartnerPolicy> policy;
    GradientClock clock;
    double speed = 1;  // seconds a gradient
    bool dead = false, holding = false, busy = false, pausing = false;
    double held_since = 0, waited = 0, longest_wait = 0;
    Meeting meeting;
    double began = 0;
    int last = -1;
    i64 exchanges = 0, failed = 0, repeats = 0, poke = 0;
    std::map<i64, int> per_gradient;  // own gradient count -> exchanges begun in it
  };

  // jitter: of compute times, relative.
  VirtualNetwork(const Graph& graph, const Make& make, std::vector<double> speed, double exchange_s,
                 std::uint64_t seed, double jitter = .02)
      : graph_(graph),
        exchange_s_(exchange_s),
        jitter_(jitter),
        random_(seed),
        gone_(static_cast<std::size_t>(graph.n)) {
    w.resize(static_cast<std::size_t>(graph.n));
    together.assign(w.size(), std::vector<i64>(w.size(), 0));
    for (int i = 0; i < graph.n; ++i) {
      Worker& me = at(i);
      me.policy = make(i);
      me.speed = speed[static_cast<std::size_t>(i)];
      me.policy->adopt(graph_, gone_);
      me.clock.resume(0);
      compute(i);
      process(i);
    }
  }

  void run(double until) {
    while (!events_.empty() && events_.top().t < until) {
      const What e = events_.top();
      events_.pop();
      now = e.t;
      if (at(e.who).dead) continue;
      // SIGSTOP: all its events wait
      if (at(e.who).pausing && e.kind != Kind::go_on && e.kind != Kind::death)
        late_[e.who].push_back(e);
      else
        happen(e);
    }
    now = until;
  }
  void kill(int i, double when) { events_.push({when, ++serial_, Kind::death, i, -1, {}, 0}); }
  void pause(int i, double when, double seconds) {
    events_.push({when, ++serial_, Kind::pause, i, -1, {}, 0});
    events_.push({when + seconds, ++serial_, Kind::go_on, i, -1, {}, 0});
  }

  Worker& at(int i) { return w[static_cast<std::size_t>(i)]; }
  // as counted by a
  i64 edge(int a, int b) const {
    return together[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  }
  // A worker that has been alone in an exchange for long.
  std::string one_sided() const {
    for (int i = 0; i < graph_.n; ++i)
      if (const Worker& me = w[static_cast<std::size_t>(i)];
          !me.dead && me.busy && now - me.began > 5 + 2 * exchange_s_)
        return "worker " + std::to_string(i) + " with " + std::to_string(me.meeting.peer);
    return "";
  }

  std::vector<Worker> w;
  std::vector<std::vector<i64>> together;
  double now = 0;

 private:
  enum class Kind { message, gradient, give_up, transfer, poke, death, notice, pause, go_on };
  struct What {
    double t;
    i64 serial;
    Kind kind;
    int who, peer;
    Message message;
    i64 tag;
  };
  struct Later {
    bool operator()(const What& a, const What& b) const {
      return a.t != b.t ? a.t > b.t : a.serial > b.serial;
    }
  };

  void push(double t, Kind kind, int who, int peer = -1, i64 tag = 0) {
    events_.push({t, ++serial_, kind, who, peer, {}, tag});
  }
  void compute(int i) {
    push(now + at(i).speed * std::max(.2, 1 + jitter_ * random_.normal()), Kind::gradient, i);
  }

  void happen(const What& e) {
    Worker& me = at(e.who);
    switch (e.kind) {
      case Kind::message:
        me.policy->receive(e.peer, e.message);
        break;
      case Kind::gradient:
        me.clock.tick(now);
        me.holding = true;
        me.held_since = now;
        advance(e.who);
        if (const Hold hold = me.policy->hold(); static_cast<double>(me.clock.count()) >= hold.at)
          push(now + hold.seconds, Kind::give_up, e.who, -1, me.clock.count());
        break;
      case Kind::give_up:
        if (!me.holding || e.tag != me.clock.count()) return;
        me.policy->drop_due(static_cast<double>(me.clock.count()));
        go_on(e.who);
        break;
      case Kind::transfer:
        if (!me.busy || e.tag != static_cast<i64>(me.meeting.session)) return;
        me.busy = false;
        me.failed += e.peer < 0;
        me.policy->ended();
        break;
      case Kind::poke:
        if (e.tag != me.poke) return;
        break;
      case Kind::death:
        me.dead = true;
        for (int i = 0; i < graph_.n; ++i)
          if (i != e.who) push(now + .05 + .1 * random_.uniform53(), Kind::notice, i, e.who);
        return;
      case Kind::notice:
        if (me.busy && me.meeting.peer == e.peer)
          push(now, Kind::transfer, e.who, -1, static_cast<i64>(me.meeting.session));
        gone_[static_cast<std::size_t>(e.peer)] = true;
        me.policy->gone(e.peer);
        me.policy->adopt(heal(graph_, gone_), gone_);
        break;
      case Kind::pause:
        me.pausing = true;
        return;
      case Kind::go_on:
        me.pausing = false;
        for (const What& late : std::exchange(late_[e.who], {})) happen(late);
        break;
    }
    process(e.who);
  }

  void go_on(int i) {
    Worker& me = at(i);
    me.holding = false;
    const double waited = now - me.held_since;
    me.waited += waited;
    me.longest_wait = std::max(me.longest_wait, waited);
    me.clock.resume(now);
    compute(i);
  }
  void advance(int i) { at(i).policy->advance({now, at(i).clock.now(now), at(i).clock.mean()}); }

  void process(int i) {
    Worker& me = at(i);
    advance(i);
    if (const auto meeting = me.policy->meeting(); meeting && !me.busy) begin(i, *meeting);
    for (auto& [to, message] : me.policy->take_messages()) {
      double& newest = arrival_[{i, to}];
      newest = std::max(newest + 1e-9, now + 1e-3 * (1 + random_.uniform53()));
      events_.push({newest, ++serial_, Kind::message, to, i, message, 0});
    }
    if (me.holding && static_cast<double>(me.clock.count()) < me.policy->hold().at) go_on(i);
    const Wake wake = me.policy->wake();
    const double next =
        std::min({wake.wall, std::isfinite(wake.t) ? me.clock.wall_at(wake.t) : INFINITY, now + 1});
    push(std::max(next, now + 1e-6), Kind::poke, i, -1, ++me.poke);
  }

  void begin(int i, const Meeting& meeting) {
    Worker& me = at(i);
    me.busy = true;
    me.meeting = meeting;
    me.began = now;
    ++me.exchanges;
    ++me.per_gradient[me.clock.count()];
    ++together[static_cast<std::size_t>(i)][static_cast<std::size_t>(meeting.peer)];
    me.repeats += me.last == meeting.peer;
    me.last = meeting.peer;
    me.policy->begun();
    const Worker& other = at(meeting.peer);
    if (other.dead || !other.busy || other.meeting.peer != i ||
        other.meeting.session != meeting.session)
      return;
    push(now + exchange_s_, Kind::transfer, i, meeting.peer, static_cast<i64>(meeting.session));
    push(now + exchange_s_ * (1 + .1 * random_.uniform53()), Kind::transfer, meeting.peer, i,
         static_cast<i64>(meeting.session));
  }

  const Graph graph_;
  const double exchange_s_, jitter_;
  Rng random_;
  std::vector<bool> gone_;
  std::map<std::pair<int, int>, double> arrival_;
  std::map<int, std::vector<What>> late_;
  std::priority_queue<What, std::vector<What>, Later> events_;
  i64 serial_ = 0;
};

}  // namespace gossamer::dist
