// For tests of deaths and returns: a cluster that trains while the test disturbs it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "dist/workers.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

// A cluster in which every worker trains to the end; tests disturb it meanwhile.
class Training {
 public:
  // started: 0: all of the n; else the other places are free until restart()
  Training(int n, double gradients_each, const char* method = "a2cid2", const char* graph = "ring",
           Seconds dead_after = Seconds(.3), int started = 0)
      : cluster(n, dead_after, Seconds(30), started),
        n_(n),
        started_(started == 0 ? n : started),
        method_(method),
        graph_(graph),
        workers_(static_cast<std::size_t>(n)) {
    options.total_samples = started_ * gradients_each;
    options.seed = 5;
    options.exchange_timeout_s = 5;
  }
  ~Training() { join(); }

  void start() {
    for (int rank = 0; rank < started_; ++rank) start(rank, false);
  }
  void kill(int rank) {
    cluster.kill(rank);
    worker(rank).thread.join();
  }
  void restart(int rank) {
    cluster.revive(rank);
    start(rank, true);
  }
  // It takes leave after its step, and the others go on.
  void leave(int rank) {
    worker(rank).leaves = true;
    worker(rank).thread.join();
    worker(rank).leaves = false;
    cluster.kill(rank);
  }
  void join() {
    for (Worker& w : workers_)
      if (w.thread.joinable()) w.thread.join();
  }
  // All join; the first error of a worker that was not killed is thrown.
  void finish() {
    join();
    for (Worker& w : workers_)
      if (w.error) std::rethrow_exception(w.error);
  }
  double seen() const { return seen_; }
  template <class F>
  bool until(F f, double limit = 60) {
    for (const double end = wall_seconds() + limit; wall_seconds() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      if (f()) return true;
    return false;
  }
  bool reaches(double fraction) {
    return until([&] { return seen_ >= fraction * options.total_samples; });
  }
  int count(const std::string& what, int peer) {
    const std::scoped_lock lock(mutex_);
    return static_cast<int>(std::ranges::count(faults_, std::pair(what, peer)));
  }

  struct Worker {
    std::thread thread;
    std::exception_ptr error;
    std::vector<float> x, at_start;
    MethodStats stats;
    double mean_at_start = 0, samples_at_start = 0;
    float momentum_at_start = 0;
    std::atomic<double> seen{0};    // its estimate of what all have done, in samples
    std::atomic<i64> steps{0};      // of all its lives
    std::vector<double> gradients;  // of each of its lives
    std::atomic<int> step_us{300};
    std::atomic<bool> frozen{false};  // its training stands still
    std::atomic<bool> leaves{false};
  };
  Worker& worker(int rank) { return workers_.at(static_cast<std::size_t>(rank)); }
  int places() const { return static_cast<int>(workers_.size()); }
  // Of all workers in all their lives, as counted on the way.
  double steps() {
    double all = 0;
    for (Worker& w : workers_) all += static_cast<double>(w.steps);
    return all;
  }
  // Waits until each has done so many more.
  bool each_steps(i64 more) {
    std::vector<i64> wanted;
    for (Worker& w : workers_) wanted.push_back(w.steps + more);
    return until([&] {
      return std::ranges::equal(workers_, wanted,
                                [](const Worker& w, i64 least) { return w.steps >= least; });
    });
  }
  double gradients() {
    double all = 0;
    for (Worker& w : workers_)
      for (const double g : w.gradients) all += g;
    return all;
  }

  LocalCluster cluster;
  MethodOptions options;
  float noise = .01f;  // of gradients
  float momentum = 0;
  std::function<Group&(int rank, Group&)> around = [](int, Group& group) -> Group& {
    return group;
  };
  // What a test does beside the training of a worker, in its thread: one for each of its lives.
  struct Beside {
    virtual ~Beside() = default;
    virtual void options(MethodOptions&) {}
    virtual void begins(const Method&) {}
    virtual void before_step() {}
    virtual void after_step() {}
  };
  std::function<std::unique_ptr<Beside>(int rank)> beside = [](int) {
    return std::make_unique<Beside>();
  };

 private:
  void start(int rank, bool again) {
    Group& group = cluster.group(rank);
    worker(rank).thread = std::thread([this, rank, again, &group] {
      Worker& me = worker(rank);
      Quadratic q(rank, 40, momentum);
      me.gradients.push_back(0);
      try {
        train(me, rank, around(rank, group), again, q);
      } catch (...) {
        if (group.control().alive(rank)) me.error = std::current_exception();
        cluster.kill(rank);
      }
    });
  }

  void train(Worker& me, int rank, Group& group, bool again, Quadratic& q) {
    MethodOptions mine = options;
    mine.rejoin = again;
    mine.on_fault = [this](const std::string& what, int peer) {
      const std::scoped_lock lock(mutex_);
      faults_.emplace_back(what, peer);
    };
    const std::unique_ptr<Beside> more = beside(rank);
    more->options(mine);
    auto method = make_method(method_, q.params, q.sgd, group, make_graph(graph_, n_), mine);
    // values() may be in an exchange already
    const auto copy = q.params.compute_f32().span<float>();
    me.at_start.assign(copy.begin(), copy.end());
    me.mean_at_start = q.mean.span<float>()[0];
    me.samples_at_start = method->samples_seen();
    for (const NamedTensor& each : q.sgd.state())
      if (each.name == "momentum") me.momentum_at_start = *each.tensor.as<float>();
    more->begins(*method);
    while (!method->done()) {
      if (!group.control().alive(rank) || me.leaves) return;
      while (me.frozen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      more->before_step();
      q.gradient(noise);
      std::this_thread::sleep_for(std::chrono::microseconds(me.step_us));
      method->step(.05);
      more->after_step();
      me.gradients.back() += 1;
      ++me.steps;
      me.seen = method->samples_seen();
      seen_ = std::max(seen_.load(), me.seen.load());
    }
    method->finish();
    const auto x = q.params.values().span<float>();
    me.x.assign(x.begin(), x.end());
    me.stats = method->stats();
  }

  int n_, started_;
  std::string method_, graph_;
  std::vector<Worker> workers_;
  std::atomic<double> seen_ = 0;
  std::mutex mutex_;
  std::vector<std::pair<std::string, int>> faults_;
};

}  // namespace gossamer::dist
