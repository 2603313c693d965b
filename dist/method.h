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
#include "gossamer/dist/control_options.h"
#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/gossip_options.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// What a caller may say of a run, whatever the method. Values that belong to a method are its
// settings: local_sgd.h, diloco.h … in methods/.
struct MethodOptions : GossipOptions {  // rate 0: no exchanges
  Settings settings{};                  // of the method, by name: {"period", 8}
  i64 batch = 1;                        // samples of one gradient
  double total_samples = 0;             // of all workers together: done() after that; 0: never
  std::uint64_t seed = 0;
  // folders: events-RANK.jsonl is written, or followed so that a run repeats bit for bit
  // (recorder.h)
  std::string record{}, replay{};
  // the longest; an exchange is given as long as those before it took (deadline.h)
  double exchange_timeout_s = 20;
  double exchange_least_s = 1;  // … but this long at least
  // seconds that finish() waits for workers that still train; then it is a DistError. The methods
  // in rounds wait for as long as a collective does, if that is longer
  double finish_timeout_s = 600;
  double clip_norm = 0;      // 0: no clipping
  double start_samples = 0;  // resume: samples seen so far by all
  int min_workers = 1;       // fewer alive: DistError
  // Methods in rounds: who mixes with whom, a name of rounds.h; empty: the graph's neighbours,
  // Metropolis weights
  std::string rounds{};
  // of rounds "aer" without a number; those of a node follow one another
  int workers_per_node = 1;
  // How parameters travel between CPUs: f32 | bf16 | int8 (coding.h)
  std::string payload = "f32";
  // Gossip: type of the snapshots that travel. f16: half the bytes; between GPUs only
  DType wire = DType::f32;
  // this worker was started again while the others went on: it takes its state from a neighbour
  bool rejoin = false;
  // what else all must have alike: name and value, as many and in the same order on all
  std::vector<std::pair<std::string, std::string>> agree{};
  // "dead", "left", "joined", "exchange failed", "exchange refused" (usual_distance.h); from the
  // communication thread
  std::function<void(const std::string& what, int peer)> on_fault{};
  // every exchange, failed ones too; from the thread that did it
  std::function<void(const ExchangeRecord&)> on_exchange{};
};

struct MethodStats {
  // of this worker. refused: the models were too far apart (usual_distance.h); not among the failed
  i64 gradients = 0, exchanges = 0, failed = 0, refused = 0;
  // running estimate of sqrt(mean |x_i - mean|^2) from exchanged differences; exact after finish()
  double consensus_distance = 0;
  double exposed_s = 0;   // time the training thread waited for communication
  double transfer_s = 0;  // time spent in exchanges, beside the computation
  // by this worker; of a collective of n workers, what a ring sends: 2 (n - 1)/n of the tensor
  double bytes_sent = 0;
  double eta = 0;  // in use now (rate tracking)
  int alive = 1;
  // after finish(): workers whose models are not in the mean, for it would be ruined (finish.h)
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

// Of Method::state(): what the coding of the payload has taken and not sent yet (coding.h).
inline constexpr const char* kPayloadError = "payload.error";

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
  // Workers meet in rounds (synchronous.h), and the graph may be any name of rounds.h; otherwise
  // each exchanges with one neighbour at a time, at its own pace.
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

// ConfigError lists the known names.
const MethodTraits& method_traits(const std::string& name);
// The first of the registry: what is taken where none is named.
const std::string& default_method();
// Of methods that train, in alphabetical order.
std::vector<std::string> method_names();
// The names of those with this trait in the order of the registry: "a2cid2 and adpsgd". last_word:
// what stands before the last; "|" or ",": between all.
std::string methods_that(const std::function<bool(const MethodTraits&)>&,
                         const std::string& last_word = "and");
// The settings of one method, or of all: each once, in the order of the registry, with defaults
// where nothing is given. Of a name without a dot programs make a key "train.NAME".
std::vector<NamedSetting> method_settings(const std::string& name, const Settings& given = {});
std::vector<NamedSetting> method_settings(const Settings& given = {});
// Whose steps are done with these settings: of consensus control, the method under control.
std::string stepping_method(const std::string& name, const Settings&);

// Makes values() the mean of the workers' first, and checks that all have the same model
// (fingerprint), method, graph and options: DistError names two workers, the option that differs
// and both values. ConfigError: as check_method().
std::unique_ptr<Method> make_method(const std::string& name, FlatParams&, Optimizer&, Group&,
                                    const Graph&, const MethodOptions& = {});
// Throws what make_method() would throw before anything is sent, so that another try is possible.
// optimizer: its name. ConfigError; IoError if there is no record to replay, or none can be
// written.
void check_method(const std::string& name, const std::string& optimizer, const Group&, const Graph&,
                  const MethodOptions&);

}  // namespace gossamer::dist
