// Runtime of synchronous and asynchronous methods on the same simulated machines.
#include "gossamer/dist/simulation/timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/dist/rounds/step.h"
#include "gossamer/dist/simulation/network.h"

namespace gossamer::dist {
namespace {

constexpr double kForward = 1.0 / 3;  // of the computation of a step

struct Clocks {  // of one worker, seconds
  double now = 0, computed = 0, waited = 0, exposed = 0;
};

// Who meets whom in one round, and for how long.
struct TimedRound {
  struct Meeting {
    int worker;
    double seconds;
  };
  // Of each worker: transfers, one after the other, or (all == true) one all-reduce with these.
  struct Met {
    std::vector<Meeting> with;
    bool all = false;
  };
  std::vector<Met> of;
};

// Workers that take the uniform mean of the same four or more meet in an all-reduce (Decent-DP's
// groups); others exchange models.
TimedRound timed_round(const Rounds& rounds, i64 k, const Machines& m) {
  const int n = rounds.workers();
  std::vector<std::vector<int>> groups;  // of each worker: who meets, itself too; ascending
  for (int i = 0; i < n; ++i) {
    const Round round = rounds.round(i, k);
    std::vector<int> group{i};
    bool even = round.in.size() >= 3;
    for (const Neighbour& j : round.in) {
      group.push_back(j.worker);
      even = even && std::abs(j.weight - round.own) < 1e-12;
    }
    std::ranges::sort(group);
    groups.push_back(std::move(group));
    if (!even) groups.back().insert(groups.back().begin(), -1);
  }
  std::vector<std::size_t> names;  // equal for equal groups
  for (const std::vector<int>& g : groups) {
    std::size_t name = g.size();
    for (const int j : g) name = name * 1'000'003 + static_cast<std::size_t>(j + 1);
    names.push_back(name);
  }
  const auto is_all = [&](int i) {
    const std::vector<int>& g = groups[static_cast<std::size_t>(i)];
    const std::size_t name = names[static_cast<std::size_t>(i)];
    return g[0] >= 0 && std::ranges::all_of(
                            g, [&](int j) { return names[static_cast<std::size_t>(j)] == name; });
  };
  // transfers on the link of each node: a group counts once, of others each worker that sends out
  std::vector<int> crossing(static_cast<std::size_t>(m.node_of(n - 1)) + 1);
  TimedRound out;
  out.of.resize(groups.size());
  for (int i = 0; i < n; ++i) {
    std::vector<int>& g = groups[static_cast<std::size_t>(i)];
    const bool all = out.of[static_cast<std::size_t>(i)].all = is_all(i);
    const bool out_of_node =
        std::ranges::any_of(g, [&](int j) { return j >= 0 && !m.together(i, j); });
    const bool first_here =
        !all || std::ranges::none_of(g, [&](int j) { return j < i && m.together(i, j); });
    crossing[static_cast<std::size_t>(m.node_of(i))] += out_of_node && first_here;
  }
  for (int i = 0; i < n; ++i) {
    std::vector<int> g = groups[static_cast<std::size_t>(i)];
    if (g[0] < 0) g.erase(g.begin());
    TimedRound::Met& met = out.of[static_cast<std::size_t>(i)];
    const auto sharing = [&](int j) {
      return std::max({1, crossing[static_cast<std::size_t>(m.node_of(i))],
                       crossing[static_cast<std::size_t>(m.node_of(j))]});
    };
    int most = 1;
    for (const int j : g) most = std::max(most, sharing(j));
    const double together = met.all ? m.all_reduce_s(g, m.bytes, most) : 0;
    for (const int j : g)
      if (j != i) met.with.push_back({j, met.all ? together : m.transfer_s(i, j, sharing(j))});
  }
  return out;
}

class Synchronous final : private RoundWorker {
 public:
  explicit Synchronous(const SimulationPlan& plan)
      : plan_(plan),
        m_(machines_of(plan)),
        random_(plan.options.seed, 1),
        workers_(static_cast<std::size_t>(plan.options.workers)),
        began_(workers_.size()),
        ended_(workers_.size()),
        everyone_(workers_.size()) {
    std::iota(everyone_.begin(), everyone_.end(), 0);
  }

  void step(i64 k) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const double took =
          m_.compute_s * m_.slowness(static_cast<int>(i)) * m_.compute.draw(random_);
      began_[i] = workers_[i].now;
      ended_[i] = began_[i] + took;
      workers_[i].computed += took;
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i].now = ended_[i];
    plan_.formula->step(*this, k);
  }
  const std::vector<Clocks>& workers() const { return workers_; }

 private:
  // A message has several vectors, or a part of one.
  static Machines machines_of(const SimulationPlan& plan) {
    Machines out = plan.options.machines;
    out.bytes *= static_cast<double>(1 + plan.formula->sends_beside().size());
    if (const Compressor* by = plan.formula->compressor())
      out.bytes =
          static_cast<double>(by->bytes<float>(static_cast<i64>(out.bytes / sizeof(float))));
    return out;
  }
  // --- what takes time in a step
  void average_gradients() override { all_reduce(m_.buckets, m_.bytes); }
  void average() override { all_reduce(1, m_.bytes); }
  // All get n - 1 messages: as many bytes as a ring's sum of n/2 of them.
  void average_compressed(Vector, MeanOver) override {
    all_reduce(1, m_.bytes * static_cast<double>(workers_.size()) / 2);
  }
  // of a copy: a worker that has mixed ends later
  void mix() override {
    const std::vector<double> ended = ended_;
    mix_with(ended);
  }
  void mix_ahead() override { mix_with(began_); }
  void mix_alone(Vector) override { mix(); }
  void relay() override { mix(); }
  void begin_replicas() override {}
  void exchange_replicas() override { mix(); }
  void receive_replicas() override { mix_ahead(); }
  void mix_replicas(double) override {}
  void update() override {}
  void outer_step(const OuterStep&) override {}
  void blend(Vector, double, double, Vector) override {}
  double learning_rate() const override { return plan_.options.learning_rate; }

  // Bucket b of the gradients is ready when its part of backward is done on all workers.
  void all_reduce(int buckets, double bytes) {
    const double took = m_.all_reduce_s(everyone_, bytes / buckets);
    double done = 0;
    for (int b = 1; b <= buckets; ++b) {
      const double part = kForward + (1 - kForward) * b / buckets;
      double ready = 0;
      for (std::size_t i = 0; i < workers_.size(); ++i)
        ready = std::max(ready, began_[i] + part * (ended_[i] - began_[i]));
      done = std::max(done, ready) + took * m_.link.draw(random_);
    }
    const double all_there = *std::ranges::max_element(ended_);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].waited += all_there - ended_[i];
      workers_[i].exposed += done - all_there;
      workers_[i].now = ended_[i] = done;
    }
  }

  // Worker i needs the models that its neighbours in this round had at their `ready` time.
  void mix_with(const std::vector<double>& ready) {
    const TimedRound& round = timed(messages_++ / plan_.formula->messages_per_round());
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const TimedRound::Met& met = round.of[i];
      std::vector<std::pair<double, double>> at;  // when it is there, how long the transfer takes
      for (const auto& [j, seconds] : met.with)
        at.emplace_back(ready[static_cast<std::size_t>(j)], seconds);
      std::ranges::sort(at);
      if (met.all) at.erase(at.begin(), at.end() - 1);  // it begins when the last is there
      // The wire is free when this worker has begun to listen: a transfer begins when both are
      // ready and the one before is over.
      double here = ready[i], busy = 0;
      for (const auto& [there, seconds] : at) {
        const double begins = std::max(here, there);
        here = begins + seconds * m_.link.draw(random_);
        busy += std::max(0.0, here - std::max(begins, ended_[i]));
      }
      const double late = std::max(0.0, here - ended_[i]);
      workers_[i].exposed += busy;
      workers_[i].waited += std::max(0.0, late - busy);
      workers_[i].now = ended_[i] += late;
    }
  }

  const TimedRound& timed(i64 k) {
    constexpr i64 kMostKept = 64;
    const i64 period = plan_.rounds->period(), place = k % period;
    if (period > kMostKept) return anew_ = timed_round(*plan_.rounds, place, m_);
    while (static_cast<i64>(kept_.size()) <= place)
      kept_.push_back(timed_round(*plan_.rounds, static_cast<i64>(kept_.size()), m_));
    return kept_[static_cast<std::size_t>(place)];
  }

  const SimulationPlan& plan_;
  const Machines m_;
  Rng random_;
  std::vector<Clocks> workers_;
  std::vector<double> began_, ended_;
  std::vector<int> everyone_;
  i64 messages_ = 0;
  std::vector<TimedRound> kept_;
  TimedRound anew_;
};

void finish(TimelineResult& out) {
  for (const WorkerTimeline& w : out.workers) {
    out.steps_per_s += w.steps_per_s;
    if (w.computing > 0) out.perfect_steps_per_s += w.steps_per_s / w.computing;
  }
  out.efficiency = out.steps_per_s / out.perfect_steps_per_s;
}

}  // namespace

TimelineResult simulate_timeline(const SimulationPlan& plan, double seconds) {
  check<ConfigError>(seconds > 0 && std::isfinite(seconds), "simulate timeline: ", seconds,
                     " seconds; it must be above 0");
  check<ConfigError>(
      !plan.traits().controls, "simulate timeline: how often ", plan.options.method,
      " gossips depends on how far apart ",
      "the workers are, and a time line has no parameters; quadratic and logreg have them");
  check<ConfigError>(plan.formula || !is_ideal(plan.options.pairing),
                     "simulate timeline: with pairing ", plan.options.pairing,
                     " an exchange takes no time; a time line is of handshake, schedule or rounds");
  TimelineResult out;
  out.seconds = seconds;
  if (plan.formula) {
    Synchronous run(plan);
    i64 steps = 0;
    for (; run.workers()[0].now < seconds; ++steps) run.step(steps);
    for (const Clocks& w : run.workers())
      out.workers.push_back({static_cast<double>(steps) / w.now, 0, w.computed / w.now,
                             w.waited / w.now, w.exposed / w.now});
  } else {
    SimulationPlan network = plan;
    network.options.dims = 1;
    NetworkSimulation run(network, nullptr, plan.options.seed);
    run.run_until_seconds(seconds);
    for (int i = 0; i < plan.options.workers; ++i) {
      const WorkerTally& t = run.tally(i);
      if (t.gradients == 0) {  // so slow that it has not ended its first
        out.workers.push_back({0, 0, 1, 0, 0});
        continue;
      }
      const double all = t.compute_s + t.waited_s, steps = static_cast<double>(t.gradients);
      out.workers.push_back({steps / all, static_cast<double>(t.exchanges) / steps,
                             t.compute_s / all, 0, t.waited_s / all});
    }
  }
  finish(out);
  return out;
}

}  // namespace gossamer::dist
