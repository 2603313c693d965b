// Method: how workers train together. The user's loop computes gradients; the method decides what
// is exchanged and when.
//   auto graph = dist::make_graph("ring", group->size());
//   auto method = dist::make_method("a2cid2", params, optimizer, *group, graph, options);
//   while (!method->done()) {
//     …; loss.backward();
//     method->step(schedule(method->samples_seen()));
//   }
//   method->finish();
// Threads: one at a time for a Method. Its own threads call on_fault and on_exchange and write
// values() between its calls, for which quiesce() and read_model() are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/setting.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// Options of methods whose workers average with one neighbour at a time, beside the computation.
// ConfigError of make_method() names one that is out of range.
struct GossipOptions {
  double rate = 1;
  std::string pairing = "handshake";
  std::string quota = "poisson";

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.rate, Setting{.name = "rate",
                         .about = "exchanges of each worker per own gradient",
                         .range = Range::from_to(0, 1000)});  // beyond it would do nothing else
    f(self.pairing, Setting{.name = "pairing",
                            .about = "gossip: handshake | schedule (drawn from the seed) | rounds "
                                     "(fixed matchings)",
                            .choices = {"handshake", "schedule", "rounds"}});
    f(self.quota, Setting{.name = "quota",
                          .about = "handshake: number of exchanges per gradient: poisson | exact "
                                   "(evenly spaced)",
                          .choices = {"poisson", "exact"}});
  }
};

// One exchange with one peer, as this worker saw it.
struct ExchangeRecord {
  int peer = -1;
  std::uint64_t session = 0;
  double time = 0;       // of the snapshot, on the gradient clock
  double distance = 0;   // |x_i - x_j| of the two snapshots
  double seconds = 0;    // from snapshot to arrival
  i64 staleness = 0;     // own gradients between snapshot and jump
  bool ok = true;        // false: nothing was applied
  bool refused = false;  // not ok, because the two models were too far apart to be true
};

// What a caller may say of a run, whatever the method. `settings` has the values that belong to one
// method, by name: options.settings.set("period", 8). method_settings(name) lists them with
// meaning, range and default.
struct MethodOptions : GossipOptions {  // rate 0: no exchanges
  Settings settings{};
  i64 batch = 1;  // samples of one gradient
  // Samples of a step of all workers together, however many there are: of its batches each worker
  // computes its share (Method::sharing()). In FlatParams it leaves the mean of their gradients,
  // or, where gradients are summed (MethodTraits), their sum divided by all batches of the step. A
  // multiple of batch, of which each worker gets one or more. 0: each computes one batch
  i64 global_batch = 0;
  // The same, where others can join: what one that trains tells who comes, before sharing() has the
  // change, and what that does with it; such as where the order of the samples stands
  std::function<std::vector<double>()> tell{};
  std::function<void(const std::vector<double>&)> told{};
  double total_samples = 0;  // of all workers together: done() after that; 0: never
  std::uint64_t seed = 0;
  // folders: events-RANK.jsonl is written, or followed so that a run repeats bit for bit
  std::string record{}, replay{};
  // seconds after which an exchange is given up: learned from those before it on the same edge, and
  // between these two
  double exchange_least_s = 1, exchange_timeout_s = 20;
  // seconds that finish() waits for workers that still train; then it is a DistError. The methods
  // in rounds wait for as long as a collective does, if that is longer
  double finish_timeout_s = 600;
  double clip_norm = 0;  // 0: no clipping
  // Resume: samples seen so far by all. Workers that step together have one number; others may have
  // an estimate each, and all go on from the mean.
  double start_samples = 0;
  // Resume: loads what was saved: Method::state(), which it gets, and whatever else an exchange
  // reads, such as the parameters. make_method() calls it once, before anything is exchanged: a
  // worker that loads slowly must not give away what it has not loaded.
  std::function<void(const std::vector<NamedTensor>& state)> restore{};
  int min_workers = 1;  // fewer alive: DistError
  // Methods in rounds: who mixes with whom, a name of the table in dist/README.md; empty: the
  // graph's neighbours, with Metropolis weights
  std::string rounds{};
  // rounds "aer" without a number: how many workers a node has; their ranks follow one another
  int workers_per_node = 1;
  // How parameters travel between CPUs: f32 | bf16 | int8 (a quarter of the bytes)
  std::string payload = "f32";
  // Gossip between GPUs: the type of the snapshots that travel, f32 or f16 (half the bytes)
  DType wire = DType::f32;
  // this worker was started again while the others went on, or joins them in a place that was free:
  // it takes its state from a neighbour
  bool rejoin = false;
  // what else all must have alike: name and value, as many and in the same order on all
  std::vector<std::pair<std::string, std::string>> agree{};
  // "dead", "left", "joined", "exchange failed", "exchange refused": the two models were too far
  // apart to be true; "quarantined": several refused its models, and the others go on without it;
  // or "left out": its values were not finite, and a sum of all was made without them. From the
  // communication thread
  std::function<void(const std::string& what, int peer)> on_fault{};
  // every exchange, failed ones too; from the thread that did it
  std::function<void(const ExchangeRecord&)> on_exchange{};
};

// The sum of all exchanges with one peer.
struct EdgeStats {
  int peer = -1;
  i64 exchanges = 0, failed = 0, refused = 0;  // applied; refused ones are not among the failed
  // over the applied exchanges: as in ExchangeRecord
  i64 staleness_sum = 0, staleness_max = 0;
  i64 repeats = 0;  // of the applied exchanges: the one before was with the same peer
  double distance_sum = 0;
  double seconds = 0;  // over all exchanges, failed ones too
};

// What consensus control has done so far, and what that took. Xi: the consensus distance.
struct ControlTally {
  i64 steps = 0;  // local steps after which there was a target
  // how many of those steps ended with Xi within 20 % of the target. A partial round ends at the
  // target by computation, and counts
  i64 near = 0;
  double ratio_sum = 0;        // the sum of Xi / target at the end of those steps
  double least = 0, most = 0;  // the least and the largest Xi / target
  // rounds, partial ones too, and all-reduces, beyond the method's own
  i64 gossip = 0, exact_averages = 0;
  i64 measurements = 0;  // all-reduces of 8 KB
  double ratio() const { return steps > 0 ? ratio_sum / static_cast<double>(steps) : 0; }
  void count(double distance, double target);
  ControlTally& operator+=(const ControlTally&);
};

struct MethodStats {
  // of this worker. refused: the models were too far apart to be true; not among the failed
  i64 gradients = 0, exchanges = 0, failed = 0, refused = 0;
  // running estimate of sqrt(mean |x_i - mean|^2) from exchanged differences; exact after finish()
  double consensus_distance = 0;
  double exposed_s = 0;   // time the training thread waited for communication
  double transfer_s = 0;  // time spent in exchanges, beside the computation
  // by this worker; of a collective of n workers, what a ring sends: 2 (n - 1)/n of the tensor
  double bytes_sent = 0;
  double eta = 0;  // A2CiD2's, in use now: it follows the measured rate of exchanges
  int alive = 1;
  // after finish(): workers whose models are not in the mean, which they would ruin
  std::vector<int> left_out;
  // after finish() of a replay: events of this worker that were repeated; its parameters are then
  // those of the record
  i64 replayed = 0;
  // consensus-control:
  double target = 0;  // the distance aimed at; 0: none now
  // sqrt(mean |sum_j W_ij x_j - x_i|^2) at the last gossip step;
  // consensus_distance <= theta/(1 - lambda_2)
  double theta = 0;
  ControlTally control;          // what it kept, and what that took
  std::vector<EdgeStats> edges;  // exchanges with each peer, ascending
};

// The name in Method::state() of what coding the payload has rounded away and not sent yet.
inline constexpr const char* kPayloadError = "payload.error";

// Who shares out the batches of a step (MethodOptions::global_batch). In rounds all that share them
// see the same changes. With gossip each worker knows the members in its own time, and there is
// nothing but `workers`.
struct Sharing {
  std::vector<int> workers{};  // ascending
  // The steps since the last change, or since the start, that each of them is known to have done.
  std::vector<i64> known{};
  // Workers came or went, or all began anew: who shared before, and the steps since the change
  // before that they had done, as far as all know. A worker that was lost may have begun more.
  struct Change {
    std::vector<int> workers;
    std::vector<i64> done;
  };
  std::vector<Change> changes{};
  // How many of a step's batches the worker `rank`, one of these, computes now.
  i64 share(i64 batches, int rank) const;
};

class Method {
 public:
  virtual ~Method() = default;
  // Optional, before the backward pass that completes a gradient: says with which learning rate
  // step() will be called. Methods that can then update and exchange parts of the parameters while
  // backward still runs.
  virtual void prepare(double learning_rate) { (void)learning_rate; }
  // a gradient event: FlatParams::grads() holds a fresh gradient
  virtual void step(double learning_rate) = 0;
  // of all workers together (estimate from the progress scalar; exact for allreduce)
  virtual double samples_seen() const = 0;
  virtual bool done() const = 0;
  // Ends exchanges, waits until all living workers have stopped, makes values() their mean, merges
  // batch-norm statistics (variance = mean(v + m^2) - mean(m)^2), refreshes the compute copy.
  // Afterwards all workers hold the same model.
  virtual void finish() = 0;
  // After finish(): the workers whose models were averaged, ascending. A worker that came back too
  // late for that may live, but is not among them. Empty: not known; take those that the Group
  // calls alive.
  virtual std::vector<int> members() const { return {}; }
  // With MethodOptions::global_batch. It changes in step() only.
  virtual const Sharing& sharing() const;
  // Blocks while it is false that this worker's state may be read, e.g. for a checkpoint: runs f
  // between two events.
  virtual void quiesce(const std::function<void()>& f) = 0;
  // Runs f while nothing writes this worker's values, without waiting for an exchange that is under
  // way: for a look at the model after every step.
  virtual void read_model(const std::function<void()>& f) { quiesce(f); }
  // What a checkpoint holds beyond parameters and optimizer: {"acid.tilde", …}. If another number
  // of workers goes on from it, what is shaped like values() starts as a copy of the model, and the
  // rest as make_method() made it. A checkpoint of a run with another payload has no kPayloadError,
  // which then starts as 0.
  virtual std::vector<NamedTensor> state() = 0;
  virtual MethodStats stats() const = 0;
  virtual const char* name() const = 0;
};

// What programs may ask about a method, so that they need to know none by name.
struct MethodTraits {
  std::string name;
  // Workers meet in rounds, whose name MethodOptions::rounds may give; otherwise each exchanges
  // with one neighbour at a time, at its own pace.
  bool synchronous = true;
  bool graph = true;  // false: it averages over all workers, whatever the graph
  // Directed rounds are right for it too: its mean does not depend on them, or push-sum keeps it.
  bool directed = false;
  bool coded = true;            // parameters may travel coded; false: it sums them in f32
  bool sums_gradients = false;  // instead of mixing models: all workers always hold the same one
  bool controllable = false;    // consensus control may gossip on after its steps
  bool controls = false;        // it is consensus control: of the method that its settings name
  bool records = false;         // its order of events can be recorded and replayed
  bool restarts = false;        // a worker that died can be started again by itself
  bool joins = false;           // more workers can join it (Group::started())
  bool simulated_only = false;  // a variant that is there for teaching and comparison
  std::string variant_of{};     // the method that it is but for its optimizer or its order
  // it is named after this optimizer (or its variant with decoupled weight decay); empty: any
  std::string optimizer{};

  bool takes(const std::string& optimizer_name) const {
    return optimizer.empty() || optimizer_name == optimizer || optimizer_name == optimizer + "w";
  }
  // "sgd" where any goes
  std::string usual_optimizer() const { return optimizer.empty() ? "sgd" : optimizer; }
};

// ConfigError for an unknown name lists the known ones.
const MethodTraits& method_traits(const std::string& name);
// The method that programs take where none is named.
const std::string& default_method();
// All names that make_method() takes, in alphabetical order.
std::vector<std::string> method_names();
// A sentence part with the methods that have a trait: "a2cid2 and adpsgd". last_word stands before
// the last name; "|" or "," stands between all.
std::string methods_that(const std::function<bool(const MethodTraits&)>&,
                         const std::string& last_word = "and");
// The settings of one method, or each setting of all methods once, with defaults where nothing is
// given. A program may make a key "train.NAME" of a name without a dot.
std::vector<NamedSetting> method_settings(const std::string& name, const Settings& given = {});
std::vector<NamedSetting> method_settings(const Settings& given = {});
// The method whose steps are done with these settings: under consensus control, the controlled one.
std::string stepping_method(const std::string& name, const Settings&);

// Makes values() the mean of the workers' first, except after a resume, where each goes on from its
// own, and checks that all have the same model (fingerprint), method, graph and options: DistError
// names two workers, the option that differs and both values. ConfigError: as check_method().
// What restore() throws only this worker learns, and the others as its death.
std::unique_ptr<Method> make_method(const std::string& name, FlatParams&, Optimizer&, Group&,
                                    const Graph&, const MethodOptions& = {});
// Throws what make_method() would throw before anything is sent, so that another try is possible.
// optimizer: its name. ConfigError; IoError if there is no record to replay, or none can be
// written.
void check_method(const std::string& name, const std::string& optimizer, const Group&, const Graph&,
                  const MethodOptions&);

}  // namespace gossamer::dist
