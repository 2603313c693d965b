// A network of simulated machines: messages with latencies, transfers that take time, workers of
// different speed. What GossipMethod, Exchanger and Transfer do with threads, this does with a
// queue of events; the same PartnerPolicy chooses partners.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "gossamer/dist/consensus_estimate.h"
#include "gossamer/dist/gossip/equal_weight.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/simulation/liars.h"
#include "gossamer/dist/simulation/queue.h"
#include "gossamer/dist/simulation/simulated_worker.h"
#include "gossamer/dist/simulation/simulator.h"
#include "gossamer/dist/time.h"
#include "gossamer/dist/usual_distance.h"

namespace gossamer::dist {

// What one simulated worker has done so far.
struct WorkerTally {
  i64 gradients = 0, exchanges = 0;
  // exchanges with the partner of the time before; waits in vain
  i64 repeats = 0, dropped = 0;
  i64 refused = 0;  // exchanges whose distance was too far (usual_distance.h)
  double compute_s = 0, waited_s = 0, transfer_s = 0;
  // exchanges with each neighbour, in the order of Graph::neighbours
  std::vector<i64> with;
};

class NetworkSimulation final : public Simulation {
 public:
  NetworkSimulation(const SimulationPlan&, const Problem*, std::uint64_t seed);
  void run_until(double t) override { run_until_seconds(t * plan_.options.machines.compute_s); }
  void run_until_seconds(double t);
  const WorkerTally& tally(int worker) const { return at(worker).tally; }
  // what the worker would log: Xi, by its own estimate; 0 without a problem
  double estimated_distance(int worker) const { return at(worker).estimate.distance(workers_); }
  const std::vector<int>& neighbours(int worker) const { return at(worker).neighbours; }

 protected:
  void present(int worker, std::span<double> x) override;

 private:
  // turn: something may be due by the clock
  enum class What : std::uint8_t { message, turn, gradient_done, waited_enough, exchange_done };
  struct Due {  // what happens at a planned time
    What what;
    // other: the sender of a message, the partner of an exchange
    int who, other;
    i64 tag;  // of a wait: is it still the same one?
    Message message;
  };
  struct Worker {
    Worker(std::vector<double> x, bool twin, bool tracks, const ConsensusEstimate& distance)
        : state(std::move(x), twin, tracks), estimate(distance) {}
    SimulatedWorker state;
    std::unique_ptr<PartnerPolicy> policy;
    // the policy's names of workers are places in this list; empty: the names are the same
    std::vector<int> known;
    GradientClock clock;
    RateTracker rate;
    StepTime step_time;
    std::vector<int> neighbours;  // ascending
    // messages of one link do not overtake each other: the last arrival at each other worker
    std::map<int, double> newest;
    std::vector<double> momentum, gradient;  // the gradient under way
    std::vector<double> own, received;       // snapshots of the exchange under way
    int partner = -1, last_partner = -1;     // partner: of the exchange under way
    std::uint64_t session = 0;
    bool arrived = false, waiting = false;
    UsualDistance usual;
    ConsensusEstimate estimate;
    double limit = 0, their_limit = 0;  // of the exchange under way
    i64 waits = 0;
    A2cid2::Mark mark;
    double exchange_began_s = 0, gradient_s = 0, wait_began_s = 0;
    double next_turn_s = INFINITY;
    WorkerTally tally;
  };
  // with the rates of their edges
  using Neighbours = std::vector<std::pair<int, double>>;
  void give_policy(int i, const Neighbours&, MethodOptions);
  static int outside(const Worker& w, int name) {
    return w.known.empty() ? name : w.known[static_cast<std::size_t>(name)];
  }
  static int inside(const Worker& w, int worker);
  const Worker& at(int i) const { return all_[static_cast<std::size_t>(i)]; }
  Worker& at(int i) { return all_[static_cast<std::size_t>(i)]; }

  void handle(const Due&);
  void turn(int i);  // whatever the worker has to say or to begin now
  void send(int i);
  void send_sketch(int i);
  PairSketch sketch(const Worker&, std::uint64_t stream) const;
  void plan_next_turn(int i);
  void begin_gradient(int i);
  void end_gradient(int i);
  double weight_of_step(int i);
  void end_wait(int i);
  void begin_exchange(int i, const Meeting&);
  void hear(int i, int from);  // what `from` says of the snapshot that it sent
  void end_exchange(int i);
  bool refuses(Worker&);
  int share(int i, int j, int change);
  void watch(const char* kind, int i, int j, double own, std::span<const double> update = {}) const;
  Now now(const Worker& w) const { return {now_, w.clock.now(now_), w.clock.mean()}; }

  const SimulationPlan& plan_;
  const Problem* problem_;
  const PairLies lies_;
  Rng random_, noise_;
  std::vector<Worker> all_;
  // With equal weight; what one says all know at once.
  std::optional<StepTimes> step_times_;
  SimulationQueue<Due> queue_;
  std::vector<int> crossing_;  // transfers under way between each node and others
  double now_ = 0;             // seconds
  double eta_at_rate_1_ = 0;
};

}  // namespace gossamer::dist
