// Runtime of synchronous and asynchronous methods on the same simulated machines.
#include "gossamer/dist/simulation/timeline.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/network.h"

namespace gossamer::dist {
namespace {

constexpr double kForward = 1.0 / 3;  // of the computation of a step

struct Clocks {  // of one worker, seconds
  double now = 0, computed = 0, waited = 0, exposed = 0;
};

class Synchronous {
 public:
  explicit Synchronous(const SimulationPlan& plan)
      : plan_(plan),
        m_(plan.options.machines),
        random_(plan.options.seed, 1),
        workers_(static_cast<std::size_t>(plan.options.workers)),
        began_(workers_.size()),
        ended_(workers_.size()) {}

  void step(i64 k) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const double took =
          m_.compute_s * m_.slowness(static_cast<int>(i)) * m_.compute.draw(random_);
      began_[i] = workers_[i].now;
      ended_[i] = began_[i] + took;
      workers_[i].computed += took;
    }
    const std::string& method = plan_.options.method;
    if (method == "allreduce") return all_reduce(m_.buckets);
    if (method == "local-sgd") return (k + 1) % plan_.options.period == 0 ? all_reduce(1) : go_on();
    mix(k, method == "dpsgd" ? began_ : ended_);
  }
  const std::vector<Clocks>& workers() const { return workers_; }

 private:
  void go_on() {
    for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i].now = ended_[i];
  }

  // Bucket b of the gradients is ready when its part of backward is done on all workers.
  void all_reduce(int buckets) {
    const auto n = static_cast<double>(workers_.size());
    const double took =
        2 * (n - 1) * m_.latency_s + 2 * (n - 1) / n * m_.bytes / buckets / m_.bandwidth;
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
      workers_[i].now = done;
    }
  }

  // Worker i needs the models that its neighbours in round k had at their `ready` time.
  void mix(i64 k, const std::vector<double>& ready) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const Round round = plan_.rounds->round(static_cast<int>(i), k);
      std::vector<double> at;
      for (const Neighbour& j : round.in) at.push_back(ready[static_cast<std::size_t>(j.worker)]);
      std::ranges::sort(at);
      // The wire is free when this worker has begun to listen: a transfer begins when both are
      // ready and the one before is over.
      double here = ready[i], busy = 0;
      for (const double there : at) {
        const double took = m_.transfer_s() * m_.link.draw(random_), begins = std::max(here, there);
        here = begins + took;
        busy += std::max(0.0, here - std::max(begins, ended_[i]));
      }
      const double late = std::max(0.0, here - ended_[i]);
      workers_[i].exposed += busy;
      workers_[i].waited += std::max(0.0, late - busy);
      workers_[i].now = ended_[i] + late;
    }
  }

  const SimulationPlan& plan_;
  const Machines& m_;
  Rng random_;
  std::vector<Clocks> workers_;
  std::vector<double> began_, ended_;
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
      plan.options.method != "consensus-control",
      "simulate timeline: how often consensus-control gossips depends on how far apart ",
      "the workers are, and a time line has no parameters; quadratic and logreg have them");
  check<ConfigError>(is_synchronous(plan.options.method) || !is_ideal(plan.options.pairing),
                     "simulate timeline: with pairing ", plan.options.pairing,
                     " an exchange takes no time; a time line is of handshake, schedule or rounds");
  TimelineResult out;
  out.seconds = seconds;
  if (is_synchronous(plan.options.method)) {
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
