// See workers.h.
#include "gossamer/apps/capi/workers.h"

#include "gossamer/dist/net/launch.h"

namespace gossamer::capi {

// A worker that ends early is one that died.
Workers::~Workers() {
  if (cluster_ && begun_ && !finished_) cluster_->kill(rank_);
}

void Workers::begin() {
  check<ConfigError>(!begun_, "this group has trained already; make another one");
  begun_ = true;
}

namespace {

dist::MethodOptions method_options(const gsm_gossip_options& o) {
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
  if (o.period > 0) options.period = o.period;
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

dist::JoinOptions join_options() {
  dist::JoinOptions options;
  options.on_wait = options.on_refused = log_line;
  return options;
}

}  // namespace

Training::Training(std::shared_ptr<Workers> workers, FlatParams& params, Optimizer& optimizer,
                   const char* method, const char* graph, const gsm_gossip_options& given)
    : workers_(std::move(workers)) {
  dist::Group& group = workers_->group();
  const dist::Graph edges = dist::make_graph(graph, group.size());
  const dist::MethodOptions options = method_options(given);
  (void)dist::method_optimizer(method);  // ConfigError: unknown
  workers_->begin();
  method_ = dist::make_method(method, params, optimizer, group, edges, options);
}

void Training::step(double learning_rate) {
  check<ConfigError>(!finished_, "a step after the training has finished");
  method_->step(learning_rate);
}

void Training::finish() {
  check<ConfigError>(!finished_, "the training has finished before");
  method_->finish();
  finished_ = true;
  workers_->finished();
}

gsm_gossip_stats_t Training::stats() const {
  const dist::MethodStats s = method_->stats();
  return {sizeof(gsm_gossip_stats_t), s.gradients, s.exchanges, s.failed, s.consensus_distance,
          method_->samples_seen(),    s.alive};
}

}  // namespace gossamer::capi

using namespace gossamer;
using namespace gossamer::capi;

gsm_status gsm_group_join_env(gsm_group** group) {
  return guarded([&] {
    check_given("group", group);
    *group = static_cast<gsm_group*>(
        add_object(std::make_shared<Workers>(dist::join(dist::launch_info(), join_options()))));
  });
}

gsm_status gsm_group_join(int32_t rank, int32_t size, const char* host, int32_t port,
                          const char* token, gsm_group** group) {
  return guarded([&] {
    check_given("host, token or group", host, token, group);
    check<ArgumentError>(size >= 1 && rank >= 0 && rank < size, "worker ", rank, " of ", size,
                         "; ranks are 0 to size - 1");
    check<ArgumentError>(port >= 1 && port <= 65535, "port ", port, "; wanted 1 to 65535");
    check<ArgumentError>(*token || size == 1, "the token is empty; give all workers one secret");
    dist::LaunchInfo info;
    info.rank = info.local_rank = rank;
    info.size = info.local_size = size;
    info.host = host;
    info.port = port;
    info.token = token;
    info.source = "gsm_group_join";
    info.local = info.host == "127.0.0.1" || info.host == "localhost" || info.host == "::1";
    *group = static_cast<gsm_group*>(
        add_object(std::make_shared<Workers>(dist::join(info, join_options()))));
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
    *size = w->group().size();
  });
}

gsm_status gsm_group_free(gsm_group* group) {
  return guarded([&] { free_object<Workers>(group); });
}
