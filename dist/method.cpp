// make_method: the registry, and the checks that all workers are about to do the same thing.
#include "gossamer/dist/method.h"

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/gossip/replay.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/rounds/allreduce.h"
#include "gossamer/dist/rounds/consensus_control.h"
#include "gossamer/dist/rounds/diloco.h"
#include "gossamer/dist/rounds/dpsgd.h"
#include "gossamer/dist/rounds/local_sgd.h"
#include "gossamer/dist/rounds/sgp.h"

namespace gossamer::dist {
namespace {

using Maker = std::function<std::unique_ptr<Method>(FlatParams&, Optimizer&, Group&, const Graph&,
                                                    const MethodOptions&)>;

struct Entry {
  bool synchronous;
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

std::unique_ptr<Method> consensus_control(FlatParams& p, Optimizer& o, Group& g, const Graph& graph,
                                          const MethodOptions& options) {
  const std::string& inner = options.control.method;
  std::unique_ptr<SynchronousMethod> method;
  if (inner == "dpsgd")
    method = std::make_unique<DpsgdMethod>(inner, p, o, g, graph, options);
  else if (inner == "sgp")
    method = std::make_unique<SgpMethod>(p, o, g, graph, options);
  else if (inner == "local-sgd")
    method = std::make_unique<LocalSgdMethod>(p, o, g, graph, options);
  else
    fail<ConfigError>("consensus-control: method \"", inner,
                      "\" is not one it can control; it can: dpsgd, sgp, local-sgd");
  return std::make_unique<ConsensusControl>(std::move(method), options.control);
}

Maker diloco(DilocoMethod::With with) {
  return [with](auto& p, auto& o, auto& g, auto& graph, auto& options) {
    return std::make_unique<DilocoMethod>(with, p, o, g, graph, options);
  };
}

const std::map<std::string, Entry>& registry() {
  static const std::map<std::string, Entry> table = {
      {"a2cid2", {false, "", gossip(true)}},
      {"adpsgd", {false, "", gossip(false)}},
      {"allreduce",
       {true, "",
        [](auto& p, auto& o, auto& g, auto&, auto& options) {
          return std::make_unique<AllReduceMethod>(p, o, g, options);
        }}},
      {"dpsgd", {true, "", dpsgd("dpsgd")}},
      {"dadam", {true, "adam", dpsgd("dadam")}},
      {"accum-adam", {true, "accum-adam", dpsgd("accum-adam")}},
      {"sgp", {true, "", maker<SgpMethod>()}},
      {"local-sgd", {true, "", maker<LocalSgdMethod>()}},
      {"diloco", {true, "", diloco(DilocoMethod::With::all)}},
      {"noloco", {true, "", diloco(DilocoMethod::With::neighbours)}},
      {"consensus-control", {true, "", consensus_control}}};
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

// 32 bits of a hash: exact in a double, so that it can travel through a sum.
double digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return static_cast<double>(static_cast<std::uint32_t>(hash ^ hash >> 32));
}

using Fact = std::pair<const char*, double>;

// What all workers must have alike.
std::vector<Fact> facts_of(const std::string& name, const FlatParams& params, const Graph& graph,
                           const MethodOptions& options) {
  std::ostringstream edges;
  edges << graph.n;
  for (const Edge& e : graph.edges) edges << ';' << e.a << '-' << e.b << ':' << e.rate;
  const ConsensusControlOptions& c = options.control;
  std::ostringstream control;
  control << c.method << ':' << c.target << ':' << c.measure << ':' << c.factor << ':' << c.most;
  for (const double p : c.phases) control << ";p" << p;
  for (const double f : c.fractions) control << ";f" << f;
  return {
      {"model (names or shapes of the parameters)", digest(std::to_string(params.fingerprint()))},
      {"method", digest(name)},
      {"graph", digest(edges.str())},
      {"rate", options.rate},
      {"rounds", digest(options.rounds + ":" + std::to_string(options.workers_per_node))},
      {"way to exchange (overlap, bucket_bytes, consensus_factor, period, fragments, outer "
       "optimizer, payload)",
       digest(std::to_string(options.overlap) + ":" + std::to_string(options.bucket_bytes) + ":" +
              std::to_string(options.consensus_factor) + ":" + std::to_string(options.period) +
              ":" + std::to_string(options.fragments) + ":" + std::to_string(options.outer_rate) +
              ":" + std::to_string(options.outer_momentum.value_or(-1)) + ":" +
              std::to_string(options.outer_delay) + ":" + options.payload)},
      // they decide alike, or wait for each other in vain
      {"consensus control", digest(control.str())},
      {"pairing or quota", digest(options.pairing + ":" + options.quota)},
      {"seed, from which all draw the same schedule",
       options.pairing == "schedule" ? digest(std::to_string(options.seed)) : 0},
      {"batch size", static_cast<double>(options.batch)},
      {"total_samples", options.total_samples},
      {"start_samples", options.start_samples}};
}

struct Disagreement {  // not a DistError: those who are left must not begin by themselves
  int one, other;
  const char* on;
};

// Of the rows of all members.
std::optional<Disagreement> disagreement(const std::vector<Fact>& facts,
                                         const std::vector<double>& table,
                                         const std::vector<int>& members) {
  const auto value = [&](int of, std::size_t f) {
    return table[static_cast<std::size_t>(of) * facts.size() + f];
  };
  for (const int rank : members)
    for (std::size_t f = 0; f < facts.size(); ++f)
      if (value(rank, f) != value(members.front(), f))
        return Disagreement{members.front(), rank, facts[f].first};
  return std::nullopt;
}

// All check that they are about to do the same, and begin at the mean of their values, except after
// a resume, where each goes on from its own. Who dies meanwhile is left out, as later.
void begin_together(const std::vector<Fact>& facts, FlatParams& params, Group& group,
                    const MethodOptions& options) {
  Membership membership(group, options.min_workers, Membership::Lost::is_out);
  Tensor mean;
  try {
    membership.run([&](Collectives& all) {
      // Each fills its own row of a table of zeros; the sum shows everyone what the others have.
      std::vector<double> table(static_cast<std::size_t>(group.size()) * facts.size(), 0.0);
      const std::size_t own = static_cast<std::size_t>(group.rank()) * facts.size();
      for (std::size_t f = 0; f < facts.size(); ++f) table[own + f] = facts[f].second;
      all.all_reduce_sum(table);
      if (const auto found = disagreement(facts, table, membership.members())) {
        try {
          all.barrier();  // who ends before all have the table looks like a death to the others
        } catch (const DistError&) {  // one has ended: it had the table, so all have
        }
        throw *found;
      }
      if (options.start_samples == 0) {
        mean = params.values().clone();
        all.all_reduce_sum(mean);
        scale(mean, 1.0f / static_cast<float>(all.members()));
      }
      all.barrier();  // nobody goes on while another may have to do this again
    });
  } catch (const Disagreement& d) {
    fail<DistError>("workers ", d.one, " and ", d.other, " do not agree on the ", d.on,
                    "; start all with the same command and config");
  }
  if (mean.defined()) Tensor(params.values()).copy_from(mean);
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry()) names.push_back(name);
  return names;
}

bool method_is_synchronous(const std::string& name) { return find(name).synchronous; }
std::string method_optimizer(const std::string& name) {
  const std::string named = find(name).optimizer;
  return named.empty() ? "sgd" : named;
}

bool method_takes(const std::string& name, const std::string& optimizer) {
  const std::string named = find(name).optimizer;
  return named.empty() || optimizer == named || optimizer == named + "w";
}

std::unique_ptr<Method> make_method(const std::string& name, FlatParams& params,
                                    Optimizer& optimizer, Group& group, const Graph& graph,
                                    const MethodOptions& options) {
  const Entry& entry = find(name);
  check<ConfigError>(options.rate >= 0 && std::isfinite(options.rate), "method ", name, ": rate ",
                     options.rate, "; it must be 0 or more");
  check<ConfigError>(options.batch > 0, "method ", name, ": batch ", options.batch,
                     "; it must be at least 1");
  check<ConfigError>(method_takes(name, optimizer.name()), "method ", name,
                     " is dpsgd with the optimizer ", entry.optimizer, ", this one is ",
                     optimizer.name(), "; take dpsgd to go with it");
  check<ConfigError>(graph.n == group.size(), "method ", name, ": the graph is for ", graph.n,
                     " workers, there are ", group.size());
  check<ConfigError>(!entry.synchronous || (options.record.empty() && options.replay.empty()),
                     "method ", name, ": record and replay are for a2cid2 and adpsgd");
  check<ConfigError>(!options.rejoin || options.replay.empty(), "method ", name,
                     ": a worker that was started again can't replay a record");
  check<DeviceError>(params.values().device().is_cpu() || group.size() < 2 || group.device_port(),
                     "method ", name, ": the parameters are on ", params.values().device(),
                     ", and this group moves tensors of the CPU; wrap it with gpu_group() "
                     "(dist/gpu/group.h)");
  check<ConfigError>(
      coding_of(options.payload) == Coding::f32 ||
          (name != "allreduce" && name != "local-sgd" && params.values().device().is_cpu()),
      "method ", name, ": payload ", options.payload, "; it must be f32 for ",
      "allreduce and local-sgd, and between GPUs");
  validate(graph);
  check<ConfigError>(!options.rejoin || !entry.synchronous, "method ", name,
                     ": its workers step together, none can be started again by itself; ",
                     "a2cid2 and adpsgd can");
  // a worker that rejoins gets all of this from a neighbour
  if (group.size() > 1 && !options.rejoin)
    begin_together(facts_of(name, params, graph, options), params, group, options);
  params.refresh();
  return entry.make(params, optimizer, group, graph, options);
}

}  // namespace gossamer::dist
