// make_method: the registry, and what can be refused without asking the others.
#include "gossamer/dist/method.h"

#include <cmath>
#include <functional>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/dist/agreement.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/recorder.h"
#include "gossamer/dist/gossip/replay.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/rounds/allreduce.h"
#include "gossamer/dist/rounds/consensus_control.h"
#include "gossamer/dist/rounds/consensus_controller.h"
#include "gossamer/dist/rounds/diloco.h"
#include "gossamer/dist/rounds/dpsgd.h"
#include "gossamer/dist/rounds/local_sgd.h"
#include "gossamer/dist/rounds/sgp.h"

namespace gossamer::dist {
namespace {

using Maker = std::function<std::unique_ptr<Method>(FlatParams&, Optimizer&, Group&, const Graph&,
                                                    const MethodOptions&)>;

struct Entry {
  bool synchronous, graph;
  const char* optimizer;  // that the method is named after
  Maker make;
};

// Method M of the common constructor.
template <class M>
Maker maker() {
  return [](FlatParams& p, Optimizer& o, Group& g, const Graph& graph,
            const MethodOptions& options) { return std::make_unique<M>(p, o, g, graph, options); };
}
Maker gossip(bool accelerated) {
  return [=](auto& p, auto& o, auto& g, auto& graph, auto& options) {
    return make_gossip(accelerated, p, o, g, graph, options);
  };
}
Maker dpsgd(const std::string& name) {
  return [=](auto& p, auto& o, auto& g, auto& graph, auto& options) {
    return std::make_unique<DpsgdMethod>(name, p, o, g, graph, options);
  };
}

void check_controlled(const std::string& name) {
  check<ConfigError>(name == "dpsgd" || name == "sgp" || name == "local-sgd",
                     "consensus-control: method \"", name,
                     "\" is not one it can control; it can: dpsgd, sgp, local-sgd");
}

std::unique_ptr<Method> consensus_control(FlatParams& p, Optimizer& o, Group& g, const Graph& graph,
                                          const MethodOptions& options) {
  const std::string& inner = options.control.method;
  std::unique_ptr<SynchronousMethod> method;
  if (inner == "dpsgd")
    method = std::make_unique<DpsgdMethod>(inner, p, o, g, graph, options);
  else if (inner == "sgp")
    method = std::make_unique<SgpMethod>(p, o, g, graph, options);
  else  // check_controlled() knows no other
    method = std::make_unique<LocalSgdMethod>(p, o, g, graph, options);
  return std::make_unique<ConsensusControl>(std::move(method), options.control);
}

Maker diloco(DilocoMethod::With with) {
  return [with](auto& p, auto& o, auto& g, auto& graph, auto& options) {
    return std::make_unique<DilocoMethod>(with, p, o, g, graph, options);
  };
}

const std::map<std::string, Entry>& registry() {
  static const auto& table = *new std::map<std::string, Entry>{
      {"a2cid2", {false, true, "", gossip(true)}},
      {"adpsgd", {false, true, "", gossip(false)}},
      {"allreduce",
       {true, false, "",
        [](auto& p, auto& o, auto& g, auto&, auto& options) {
          return std::make_unique<AllReduceMethod>(p, o, g, options);
        }}},
      {"dpsgd", {true, true, "", dpsgd("dpsgd")}},
      {"dadam", {true, true, "adam", dpsgd("dadam")}},
      {"accum-adam", {true, true, "accum-adam", dpsgd("accum-adam")}},
      {"sgp", {true, true, "", maker<SgpMethod>()}},
      {"local-sgd", {true, false, "", maker<LocalSgdMethod>()}},
      {"diloco", {true, false, "", diloco(DilocoMethod::With::all)}},
      {"noloco", {true, true, "", diloco(DilocoMethod::With::neighbours)}},
      {"consensus-control", {true, true, "", consensus_control}}};
  return table;
}

const Entry& find(const std::string& name) {
  const auto found = registry().find(name);
  if (found == registry().end()) {
    std::string known;
    for (const std::string& each : method_names()) known += (known.empty() ? "" : ", ") + each;
    fail<ConfigError>("method \"", name, "\" is unknown; known are: ", known);
  }
  return found->second;
}

// The method whose steps are done: of consensus-control the one inside it.
const std::string& inner_method(const std::string& name, const MethodOptions& options) {
  return name == "consensus-control" ? options.control.method : name;
}

// What the constructors of synchronous methods would refuse later.
void check_rounds(const std::string& name, int workers, const MethodOptions& o) {
  const std::string& steps = inner_method(name, o);
  if (name == "consensus-control") {
    check_controlled(steps);
    ConsensusController(o.control);
  }
  check<ConfigError>(o.consensus_factor >= 0 && o.consensus_factor <= 1, name,
                     ": consensus_factor ", o.consensus_factor, "; it must be between 0 and 1");
  check<ConfigError>(o.bucket_bytes > 0, name, ": bucket_bytes ", o.bucket_bytes,
                     "; it must be at least 1");
  const bool outer = steps == "diloco" || steps == "noloco";
  check<ConfigError>(o.period >= 1 || (!outer && steps != "local-sgd"), name, ": period ", o.period,
                     "; it must be at least 1 step");
  if (outer) {
    const double momentum = o.outer_momentum.value_or(0);
    check<ConfigError>(o.fragments >= 1 && o.fragments <= o.period, name, ": ", o.fragments,
                       " fragments in a period of ", o.period,
                       " steps; wanted 1 to as many as it has steps");
    check<ConfigError>(
        o.outer_rate > 0 && std::isfinite(o.outer_rate) && momentum >= 0 && momentum < 1, name,
        ": outer_rate ", o.outer_rate, ", outer_momentum ", momentum,
        "; wanted above 0, and at least 0 and below 1");
    check<ConfigError>(o.outer_delay >= 0 && o.outer_delay < o.period, name, ": outer_delay ",
                       o.outer_delay, " in a period of ", o.period,
                       " steps; wanted 0, or below the period");
  }
  if (o.rounds.empty() || (workers < 2 && known_rounds(o.rounds))) return;
  const auto rounds = make_rounds(o.rounds, workers, o.workers_per_node);
  check<ConfigError>(!rounds->directed() || steps == "sgp" || steps == "allreduce", name,
                     ": rounds \"", o.rounds,
                     "\" are directed, and only sgp keeps the mean on them");
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry()) names.push_back(name);
  return names;
}

bool method_is_synchronous(const std::string& name) { return find(name).synchronous; }
bool method_has_graph(const std::string& name) { return find(name).graph; }
std::string method_optimizer(const std::string& name) {
  const std::string named = find(name).optimizer;
  return named.empty() ? "sgd" : named;
}

// Exchanges per step beyond which a worker would do nothing else.
constexpr double kMostRate = 1000;

bool method_takes(const std::string& name, const std::string& optimizer) {
  const std::string named = find(name).optimizer;
  return named.empty() || optimizer == named || optimizer == named + "w";
}

void check_method(const std::string& name, const std::string& optimizer, const Group& group,
                  const Graph& graph, const MethodOptions& options) {
  const Entry& entry = find(name);
  check<ConfigError>(options.rate >= 0 && options.rate <= kMostRate, "method ", name, ": rate ",
                     options.rate, "; it is exchanges per step, from 0 to ", kMostRate);
  check<ConfigError>(options.batch > 0, "method ", name, ": batch ", options.batch,
                     "; it must be at least 1");
  check<ConfigError>(method_takes(name, optimizer), "method ", name,
                     " is dpsgd with the optimizer ", entry.optimizer, ", this one is ", optimizer,
                     "; take dpsgd to go with it");
  check<ConfigError>(graph.n == group.size(), "method ", name, ": the graph is for ", graph.n,
                     " workers, there are ", group.size());
  validate(graph);
  check<ConfigError>(!entry.synchronous || (options.record.empty() && options.replay.empty()),
                     "method ", name, ": record and replay are for a2cid2 and adpsgd");
  check<ConfigError>(!options.rejoin || !entry.synchronous, "method ", name,
                     ": its workers step together, none can be started again by itself; ",
                     "a2cid2 and adpsgd can");
  check<ConfigError>(!options.rejoin || options.replay.empty(), "method ", name,
                     ": a worker that was started again can't replay a record");
  check<ConfigError>(options.min_workers <= group.size(), "min_workers is ", options.min_workers,
                     ", and the group has ", group.size(), " workers; wanted at most as many");
  check<ConfigError>(
      coding_of(options.payload) == Coding::f32 || (name != "allreduce" && name != "local-sgd"),
      "method ", name, ": payload ", options.payload,
      "; it must be f32 for allreduce and local-sgd, whose sums are made in f32");
  if (entry.synchronous) {
    check_rounds(name, group.size(), options);
  } else if (!options.replay.empty()) {
    check_record(record_path(options.replay, group.rank()));
  } else if (group.size() > 1) {
    make_partner_policy(options, graph, group.rank());
  }
  if (!options.record.empty()) check_can_record(options.record, group.rank());
}

std::unique_ptr<Method> make_method(const std::string& name, FlatParams& params,
                                    Optimizer& optimizer, Group& group, const Graph& graph,
                                    const MethodOptions& options) {
  check_method(name, optimizer.name(), group, graph, options);
  check<DeviceError>(params.values().device().is_cpu() || group.size() < 2 || group.device_port(),
                     "method ", name, ": the parameters are on ", params.values().device(),
                     ", and this group moves tensors of the CPU; wrap it with gpu_group() "
                     "(dist/gpu/group.h)");
  check<ConfigError>(coding_of(options.payload) == Coding::f32 || params.values().device().is_cpu(),
                     "method ", name, ": payload ", options.payload,
                     "; it must be f32 between GPUs");
  // a worker that rejoins gets all of this from a neighbour
  if (group.size() > 1 && !options.rejoin) begin_together(name, params, group, graph, options);
  params.refresh();
  return find(name).make(params, optimizer, group, graph, options);
}

}  // namespace gossamer::dist
