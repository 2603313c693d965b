// Networks of workers in simulated time. What is simulated is the machines; the algorithm is the
// one that trains: A2cid2, Pairing, GradientClock, RateTracker, Graph, Rounds and
// ConsensusController are the very same classes. One thread, no clock, the same numbers for the
// same seed.
//
// Time is counted in mean gradient durations. Three kinds of network, by what they idealise:
//   events   exchanges are instantaneous, at Poisson times (what the theory describes) or in
//            matching rounds
//   network  the pairing protocol with message latencies, transfers that take time, and workers of
//            different speed
//   rounds   synchronous methods: everyone mixes in round k
// Threads: any, also with one plan; one at a time for a Simulation.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/simulation/machines.h"

namespace gossamer::dist {

class ConsensusController;
struct MethodRow;
class RoundFormula;

struct SimulationOptions {
  std::string graph = "ring";
  int workers = 64;
  // one of simulated_methods(). Methods named after an optimizer take Adam's directions (betas .9,
  // .999)
  std::string method = default_method();
  Settings settings{};  // of the method: values for simulated_settings()
  // Of asynchronous methods. Ideal: poisson, or matching (by rounds of pairs, at whole times); with
  // latencies, as in training: handshake, schedule, rounds (policy.h).
  std::string pairing = "poisson";
  // of synchronous methods and of matching, see rounds.h; empty: what fits graph and method
  std::string rounds;
  // exchanges per worker and gradient: on average, or at most (rate_is_limit)
  double rate = 1;
  // no worker does more than `rate`: the hub of a star then slows down the network
  bool rate_is_limit = false;
  // of the whole run: what phases of consensus control are fractions of; 0: it has no end
  double steps = 0;
  int dims = 16;
  std::uint64_t seed = 0;
  // to see A2CiD2 diverge: eta times this; exchanges at this part of the rate only
  double eta_scale = 1, realised_rate = 1;
  // of published: x is sent as a gradient wrote it at most so long before; INFINITY: as the last
  // exchange left it, however long ago
  double staleness = INFINITY;
  double learning_rate = 0.05, momentum = 0;
  // Attacks, as dist.inject has them (faults/inject.h): of methods in which workers mix models
  // (liars.h).
  std::string inject;
  Machines machines;  // of pairing that is not ideal, and of time lines
};

// What the workers minimise together: the mean over workers of f_i.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual int dims() const = 0;
  virtual std::vector<double> start() const = 0;  // of all workers
  // with noise
  virtual void gradient(int worker, std::span<const double> x, Rng&, std::span<double> g) const = 0;
  // mean of f_i, above its minimum
  virtual double loss(std::span<const double> x) const = 0;
};

// Something that happened to a worker of an asynchronous method, in order. Spans live as long as
// the call; those without a twin (AD-PSGD) or update are empty.
struct SimulatedEvent {
  // gradient; exchange, which takes no time; with latencies instead: snapshot (x is sent to worker
  // j), arrival (the difference of the two snapshots is applied)
  const char* kind;
  double t;                                     // of the network, in mean gradient durations
  double own;                                   // of worker i; not the same with latencies
  int i = 0, j = -1;                            // j: the partner
  double eta = 0;                               // of worker i, from now on
  std::span<const double> update;               // gradient: what was subtracted from both copies
  std::span<const double> x, twin;              // of i, afterwards
  std::span<const double> other_x, other_twin;  // exchange: of j, afterwards
};

// What all seeds have in common. ConfigError: whatever can't be simulated, and what could be
// instead.
struct SimulationPlan {
  SimulationOptions options;
  const MethodRow* row = nullptr;
  std::shared_ptr<const RoundFormula> formula;  // of synchronous methods
  Graph graph;
  GraphConstants constants;
  std::shared_ptr<const Rounds> rounds;  // synchronous methods and matching
  const MethodTraits& traits() const { return method_traits(options.method); }
  // [workers, dims]: to agree from here; empty: independent normal values
  std::vector<double> start;
  // of asynchronous methods: called after each event
  std::function<void(const SimulatedEvent&)> watch{};
};
SimulationPlan plan_simulation(const SimulationOptions&);
// Those of make_method(), and variants that are there for teaching; first those without rounds.
std::vector<std::string> simulated_methods();
// Which settings of the method, or of any, the simulator follows.
std::vector<NamedSetting> simulated_settings(const std::string& method, const Settings& given = {});
std::vector<NamedSetting> simulated_settings();
// whose exchanges take no time: poisson, matching
bool is_ideal(const std::string& pairing);

class Simulation {
 public:
  virtual ~Simulation() = default;
  virtual void run_until(double t) = 0;  // in mean gradient durations
  // Mean over workers and coordinates of (x - mean)^2, all workers at the present.
  double distance();
  std::vector<double> mean();
  // pairwise; a message in one direction is half
  i64 exchanges() const { return exchanges_; }
  i64 gradients() const { return gradients_; }
  // Of pairs with latencies: how often a worker met the partner of the time before. Both sides
  // count, so all exchanges could be 2 * exchanges() repeats.
  i64 repeats() const { return repeats_; }
  // Of consensus control; and how many of the exchanges are its own.
  virtual const ConsensusController* controller() const { return nullptr; }
  virtual i64 control_exchanges() const { return 0; }

 protected:
  Simulation(int workers, int dims) : workers_(workers), dims_(dims) {}
  virtual void present(int worker, std::span<double> x) = 0;
  const int workers_, dims_;
  i64 exchanges_ = 0, gradients_ = 0, repeats_ = 0;

 private:
  void gather();
  std::vector<double> all_, mean_;  // [workers, dims], [dims]
};

// Without a problem the workers only agree. `plan` and `problem` must live as long.
std::unique_ptr<Simulation> make_simulation(const SimulationPlan&, const Problem*,
                                            std::uint64_t seed);

// --- the three kinds, one file each

std::unique_ptr<Simulation> make_event_simulation(const SimulationPlan&, const Problem*,
                                                  std::uint64_t seed);
std::unique_ptr<Simulation> make_round_simulation(const SimulationPlan&, const Problem*,
                                                  std::uint64_t seed);
std::unique_ptr<Simulation> make_network_simulation(const SimulationPlan&, const Problem*,
                                                    std::uint64_t seed);
std::vector<double> simulated_start(const SimulationPlan&, const Problem*, std::uint64_t seed,
                                    int worker);

}  // namespace gossamer::dist
