// See workers.h.
#include "gossamer/apps/capi/workers.h"

#include <sstream>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/net/token.h"

namespace gossamer::capi {

// A worker that ends early, or before it has begun, is one that died.
Workers::~Workers() {
  if (cluster_ && !finished_) cluster_->kill(rank_);
}

void Workers::check_new() const {
  check<ConfigError>(!begun_, "this group has begun a training before; make another group");
}

namespace {

dist::MethodOptions method_options(const gsm_gossip_options& o, const std::string& method) {
  check_numbers("gsm_gossip_options", {{"total_steps", o.total_steps},
                                       {"rate", o.rate},
                                       {"period", o.period},
                                       {"min_workers", o.min_workers},
                                       {"exchange_timeout_s", o.exchange_timeout_s},
                                       {"finish_timeout_s", o.finish_timeout_s}});
  dist::MethodOptions options;
  options.total_samples = o.total_steps;
  options.seed = o.seed;
  if (o.rate > 0) options.rate = o.rate;
  constexpr const char* kPeriod = "period";  // 0 means 1 here, as the header says
  for (const NamedSetting& each : dist::method_settings(method))
    if (each.setting.name == kPeriod) options.settings.set(kPeriod, std::max(1, o.period));
  check_settings<dist::GossipOptions>(options, "gsm_gossip_options");
  Settings gossip = Settings().set_all<dist::GossipOptions>(options);
  const Settings given = read_settings(o.settings, "gsm_gossip_options.settings");
  for (const auto& [name, value] : given.values())
    (gossip.find(name) ? gossip : options.settings).set(name, value);
  static_cast<dist::GossipOptions&>(options) =
      gossip.as<dist::GossipOptions>("gsm_gossip_options.settings");
  if (o.min_workers > 0) options.min_workers = o.min_workers;
  if (o.exchange_timeout_s > 0) options.exchange_timeout_s = o.exchange_timeout_s;
  if (o.finish_timeout_s > 0) options.finish_timeout_s = o.finish_timeout_s;
  if (o.record) options.record = o.record;
  if (o.replay) options.replay = o.replay;
  if (o.on_fault)
    options.on_fault = [f = o.on_fault, user = o.user](const std::string& what, int peer) {
      f(what.c_str(), peer, user);
    };
  return options;
}

// Rounds that no graph has (one-peer-exp …) may pair any two workers.
dist::Graph graph_of(const std::string& name, bool in_rounds, int workers) {
  check<ConfigError>(in_rounds || dist::known_graph(name) || !dist::known_rounds(name), "graph \"",
                     name, "\" is rounds only, for methods whose workers step together; ",
                     dist::methods_that([](const dist::MethodTraits& m) { return !m.synchronous; }),
                     " take a graph, as ring or exponential");
  return dist::make_graph(in_rounds && !dist::known_graph(name) ? "complete" : name, workers);
}

dist::LaunchInfo launch_info(const gsm_join_options& o) {
  if (o.join) return dist::outside_info();
  if (!o.host) {
    dist::LaunchInfo info = dist::launch_info();
    if (o.places > 0) info.places = o.places;
    return info;
  }
  check<ArgumentError>(o.size >= 1 && o.rank >= 0 && o.rank < o.size, "worker ", o.rank, " of ",
                       o.size, "; ranks are 0 to size - 1");
  check<ArgumentError>(o.port >= 1 && o.port <= 65535, "port ", o.port, "; wanted 1 to 65535");
  check<ArgumentError>(o.places == 0 || o.places >= o.size, "places ", o.places, " for ", o.size,
                       " workers; wanted at least as many, or 0");
  dist::LaunchInfo info;
  info.places = o.places;
  info.rank = info.local_rank = o.rank;
  info.size = info.local_size = o.size;
  info.host = o.host;
  info.port = o.port;
  info.job = info.host + ":" + std::to_string(o.port);
  info.source = "gsm_group_join";
  info.local = info.host == "127.0.0.1" || info.host == "localhost" || info.host == "::1";
  return info;
}

std::unique_ptr<dist::Group> join_later(const dist::LaunchInfo& with,
                                        const std::vector<std::string>& seeds,
                                        const dist::JoinOptions& options) {
  for (;;) try {
      return dist::join(dist::enter(with, seeds, options).place, options);
    } catch (const dist::PlaceTaken& e) {  // until none is free, which is another error
      log_line(std::string(e.what()) + "; another one is asked for");
    }
}

gsm_group* join(const gsm_join_options& o) {
  check_numbers("gsm_join_options", {{"join_timeout_s", o.join_timeout_s},
                                     {"collective_timeout_s", o.collective_timeout_s},
                                     {"dead_after_s", o.dead_after_s}});
  dist::LaunchInfo info = launch_info(o);
  check<ArgumentError>(!o.token || !o.token_file,
                       "token and token_file are both given; give one of them");
  if (o.token) {
    check<ArgumentError>(*o.token || (o.size == 1 && !o.join),
                         "the token is empty; give all workers one secret");
    info.token = o.token;
  }
  if (o.token_file) info.token = dist::token_of_file("token_file", o.token_file);
  if (o.network) info.interface = o.network;
  if (o.restarted) info.rejoin = true;
  check<ArgumentError>(!o.restarted || !o.host || o.rank != 0 || o.join,
                       "worker 0 can't be the one that is started again, because the others are "
                       "found through it; start all again");
  dist::JoinOptions options;
  options.on_wait = options.on_refused = log_line;
  options.open = o.open != 0;
  if (o.tls) options.tls = o.tls;
  if (o.join_timeout_s > 0) options.connect_timeout_s = o.join_timeout_s;
  if (o.collective_timeout_s > 0) options.collective_timeout_s = o.collective_timeout_s;
  if (o.dead_after_s > 0) options.dead_after_s = o.dead_after_s;
  std::vector<std::string> seeds;
  std::istringstream list(o.join ? o.join : "");
  for (std::string seed; std::getline(list, seed, ',');) seeds.push_back(seed);
  const bool joins = o.join != nullptr;
  const auto met = std::make_shared<std::shared_ptr<Workers>>();
  run_until_left([info, options, seeds, joins, met](const std::atomic<bool>& left) {
    const CancelScope scope(left);  // nobody waits for others on behalf of a caller that has left
    *met = joins ? std::make_shared<Workers>(join_later(info, seeds, options), true)
                 : std::make_shared<Workers>(dist::join(info, options), info.rejoin);
  });
  return static_cast<gsm_group*>(add_object(std::move(*met)));
}

// Takes the state that the plan goes on from into its options.
void go_on(TrainingPlan& plan, const dist::Group& group) {
  check<ConfigError>(plan.from.has_value(),
                     "there is no method's state to go on from; restore one that was saved while a "
                     "method went on, or leave resume 0");
  check<ConfigError>(!plan.options.rejoin,
                     "a worker that is started again takes its state from another one; leave "
                     "resume 0, or start all workers again");
  const MethodState& s = *plan.from;
  check<ConfigError>(s.method == plan.method, "the state is of ", s.method, ", not ", plan.method,
                     "; go on with the same method, or leave resume 0 to begin anew");
  check<ConfigError>(s.rank == group.rank() && s.workers == group.size(), "the state is of worker ",
                     s.rank, " of ", s.workers, ", and this is worker ", group.rank(), " of ",
                     group.size(), "; each goes on from its own, or leave resume 0 to begin anew");
  plan.options.start_samples = s.samples;
  plan.options.restore = [saved = s.tensors](const std::vector<NamedTensor>& state) {
    take(saved, state);
  };
}

}  // namespace

TrainingPlan plan_of(const char* method, const char* graph, const gsm_gossip_options& given,
                     double clip_norm) {
  check<ConfigError>(
      !given.state,
      "gsm_gossip_options.state is for gsm_gossip_new; restore it into the trainer or "
      "the optimizer, and set resume");
  TrainingPlan plan{method, graph, method_options(given, method), given.resume != 0, {}};
  plan.options.clip_norm = clip_norm;
  return plan;
}

Training::Training(std::shared_ptr<Workers> workers, FlatParams& params, Optimizer& optimizer,
                   TrainingPlan plan)
    : workers_(std::move(workers)) {
  dist::Group& group = workers_->group();
  plan.options.rejoin = workers_->restarted();
  const auto& [method, graph, options, resume, from] = plan;
  const bool in_rounds = dist::method_traits(method).synchronous;  // ConfigError: unknown
  if (in_rounds) plan.options.rounds = graph;
  const dist::Graph edges = graph_of(graph, in_rounds, group.size());
  workers_->check_new();
  if (resume) go_on(plan, group);
  dist::check_method(method, optimizer.name(), group, edges, options);
  workers_->begin();
  method_ = dist::make_method(method, params, optimizer, group, edges, options);
}

void Training::check_on() const {
  check<ConfigError>(!finished_, "a step after the training has finished");
}

void Training::step(double learning_rate) {
  check_on();
  method_->step(learning_rate);
  ++steps_;
}

void Training::finish() {
  check<ConfigError>(!finished_, "the training has finished before");
  method_->finish();
  finished_ = true;
  workers_->finished();
}

MethodState Training::state(double samples) const {
  const dist::Group& group = workers_->group();
  MethodState state{method_->name(), group.rank(), group.size(), samples, {}};
  for (const auto& [name, tensor] : method_->state())
    state.tensors.push_back(
        {name, tensor.device().is_cpu() ? tensor.clone() : tensor.to(Device::cpu())});
  return state;
}

nn::TrainSnapshot snapshot(const nn::TrainState& state, i64 step, const nn::Header& model,
                           const nn::Header& more, Training* method) {
  nn::TrainSnapshot copy;
  const double samples = method ? method->samples_seen() : static_cast<double>(step);
  const auto take = [&] {
    copy = nn::snapshot(state, {.samples = samples, .epoch = 0, .step = step}, model, more);
    if (method) add_method(method->state(samples), copy);
  };
  method ? method->quiet(take) : take();
  try {
    nn::check_finite(copy);
  } catch (const Error& e) {
    fail<ArgumentError>(e.what(), "; load an earlier state, or weights");
  }
  return copy;
}

nn::Position restore(const nn::TrainState& state, const SafeTensors& file,
                     const std::string& name) {
  for (const NamedTensor& t : nn::windows_of(state)) {
    const Tensor* const given = file.find(t.name);
    check<IoError>(
        given && given->shape() == t.tensor.shape() && given->dtype() == t.tensor.dtype(), name,
        ": has no \"", t.name, "\" of ", t.tensor.dtype(), t.tensor.shape(),
        "; was it saved with other options? Nothing has changed");
  }
  return nn::load_state(file, name, state);
}

gsm_gossip_stats_t Training::stats() const {
  const dist::MethodStats s = method_->stats();
  return {sizeof(gsm_gossip_stats_t), steps_, s.exchanges, s.failed, s.consensus_distance,
          method_->samples_seen(),    s.alive};
}

}  // namespace gossamer::capi

using namespace gossamer;
using namespace gossamer::capi;

gsm_status gsm_group_join_env(gsm_group** group) {
  return guarded([&] {
    check_given("group", group);
    *group = join({});
  });
}

gsm_status gsm_group_join_with(const gsm_join_options* options, gsm_group** group) {
  return guarded([&] {
    check_given("group", group);
    *group = join(options_of(options, "gsm_join_options"));
  });
}

gsm_status gsm_group_join(int32_t rank, int32_t size, const char* host, int32_t port,
                          const char* token, gsm_group** group) {
  return guarded([&] {
    check_given("host, token or group", host, token, group);
    gsm_join_options options{};
    options.rank = rank;
    options.size = size;
    options.host = host;
    options.port = port;
    options.token = token;
    *group = join(options);
  });
}

gsm_status gsm_group_local(int32_t n, gsm_group** groups) {
  return guarded([&] {
    check_given("groups", groups);
    check<ArgumentError>(n >= 1 && n <= 1024, n, " workers; wanted 1 to 1024");
    const auto cluster = std::make_shared<dist::LocalCluster>(n);
    for (int rank = 0; rank < n; ++rank)
      groups[rank] = static_cast<gsm_group*>(add_object(std::make_shared<Workers>(cluster, rank)));
  });
}

gsm_status gsm_group_rank(gsm_group* group, int32_t* rank, int32_t* size) {
  return guarded([&] {
    const Shared<Workers> w(group);
    check_given("rank or size", rank, size);
    *rank = w->group().rank();
    *size = w->group().started();
  });
}

gsm_status gsm_group_free(gsm_group* group) {
  return guarded([&] { free_object<Workers>(group); });
}
