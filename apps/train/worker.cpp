// Sets a worker up: data, model, group, method, and on --resume the state of its checkpoint.
#include "gossamer/apps/train/worker.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/rank_table.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/loader_options.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/backend_cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/unequal.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/models/registry.h"

namespace gossamer::apps {
namespace {

constexpr int kDryRunSteps = 20;

bool unequal(const Config& c) { return c.data.shard.starts_with("dirichlet"); }

std::vector<std::vector<i64>> parts_of(const Config& c, const data::Dataset& set, int workers) {
  return data::dirichlet_parts(set, data::parse_dirichlet(c.data.shard), workers,
                               static_cast<std::uint64_t>(c.train.seed));
}

nn::Schedule make_run_schedule(const Config& c, int workers, double total, double epoch) {
  const int batch = static_cast<int>(c.train.batch);
  const double peak = c.optim.scaling == "linear"
                          ? nn::linear_scaling(c.optim.learning_rate, workers, batch)
                          : c.optim.learning_rate;
  return nn::make_schedule({.kind = c.optim.schedule,
                            .peak = peak,
                            .total = total,
                            .warmup = std::min(c.optim.warmup_epochs * epoch, 0.5 * total),
                            .warmup_from = c.optim.warmup_from,
                            .final = c.optim.final,
                            .milestones = c.optim.milestones,
                            .gamma = c.optim.gamma});
}

// accum-adam's period: half the workers, as in Decent-DP's recipes.
std::unique_ptr<Optimizer> make_run_optimizer(const Config& c, FlatParams& params, int workers) {
  const std::string name =
      c.optim.name == "auto" ? dist::method_optimizer(c.train.method) : c.optim.name;
  return nn::make_optimizer(
      name, params,
      {.momentum = c.optim.momentum,
       .weight_decay = c.optim.weight_decay,
       .nesterov = c.optim.nesterov && c.optim.momentum > 0,
       .beta1 = c.optim.beta1,
       .beta2 = c.optim.beta2,
       .epsilon = c.optim.epsilon,
       .period = c.optim.accumulate.value ? c.optim.accumulate.value : std::max(1, workers / 2)});
}

// What make_method is told. Rounds take the graph's name, which may be one that only synchronous
// methods know.
dist::MethodOptions method_options(const Config& c, int per_machine) {
  dist::MethodOptions o;
  // machines may hold different numbers: else nobody must agree on it
  if (c.train.graph == "aer") o.workers_per_node = per_machine;
  o.rate = c.train.rate;
  o.batch = c.train.batch;
  o.pairing = c.train.pairing;
  o.quota = c.train.quota;
  o.record = c.run.record;
  o.replay = c.run.replay;
  o.seed = static_cast<std::uint64_t>(c.train.seed);
  o.exchange_timeout_s = c.dist.exchange_timeout_s;
  o.clip_norm = c.optim.clip_norm;
  o.min_workers = static_cast<int>(c.dist.min_workers);
  o.overlap = c.train.overlap;
  o.bucket_bytes = std::max<i64>(1, static_cast<i64>(c.train.bucket_mb * (1 << 20)));
  o.consensus_factor = c.train.consensus_factor;
  o.period = static_cast<int>(c.train.period);
  o.control = {.method = c.control.method,
               .target = c.control.target,
               .phases = c.control.phases,
               .fractions = c.control.fractions,
               .measure = c.control.measure,
               .factor = c.control.factor,
               .most = static_cast<int>(c.control.most)};
  if (dist::method_is_synchronous(c.train.method)) o.rounds = c.train.graph;
  return o;
}

// The GPU of this worker, or the CPU. What this device can't do is said before anything is set up.
Device device_for(const Config& c, const dist::LaunchInfo& place) {
  const Device device = device_of(c.train.device, place.local_rank);
  check<ConfigError>(
      c.train.cuda_graph != "on" || !device.is_cpu(),
      "train.cuda_graph=on is for a GPU, and this worker computes on the CPU; use auto");
  check<ConfigError>(
      !c.train.tf32 || !device.is_cpu(),
      "train.tf32=true is for a GPU, and this worker computes on the CPU; leave it out");
  if (device.is_cpu()) return device;
  check<ConfigError>(c.run.record.empty() && c.run.replay.empty(),
                     "run.record and run.replay are for CPUs; use train.device=cpu");
  configure_cuda({.tf32 = c.train.tf32, .plan_file = plan_file(c.train.plans)});
  return device;
}

std::string joined(const std::vector<std::string>& list) {
  return list.size() == 1 ? list[0] : fmt::format("{} (+{} more)", list[0], list.size() - 1);
}

}  // namespace

DataSets open_data(const Config& c, int workers) {
  const auto open = [&](const std::vector<std::string>& paths, data::Part part) {
    try {
      return data::open(paths, part, data::parse_label_base(c.data.label_base));
    } catch (const DataError& e) {
      // The default data set is drawn by this program: say how.
      if (!paths[0].starts_with("data-cache/shapes10")) throw;
      fail<DataError>(
          e.what(),
          ". The default data set is made with: gossamer data make-shapes data-cache/shapes10");
    }
  };
  DataSets sets{open(c.data.train, data::Part::train), open(c.data.val, data::Part::val)};
  data::check_same_classes(*sets.train, *sets.val);
  const auto have = static_cast<i64>(sets.train->classes().size());
  check<DataError>(c.classes_or(have) == have, data::code::other_classes, "the data has ", have,
                   " classes, model.classes = ", c.model.classes.value, "; use model.classes=auto");
  check<DataError>(sets.train->size() >= c.train.batch, joined(c.data.train), " has ",
                   sets.train->size(),
                   " images, fewer than one batch (train.batch = ", c.train.batch,
                   "); use a smaller train.batch");
  check<DataError>(!shares_epochs(c) || sets.train->size() / workers >= c.train.batch,
                   "a worker's share of ", joined(c.data.train), " is ",
                   sets.train->size() / workers,
                   " images, fewer than one batch (train.batch = ", c.train.batch,
                   "); use a smaller train.batch, fewer workers or data.shard=false");
  if (unequal(c)) {
    const auto parts = parts_of(c, *sets.train, workers);
    const auto least = std::ranges::min_element(parts, {}, &std::vector<i64>::size);
    check<DataError>(
        static_cast<i64>(least->size()) >= c.train.batch, "data.shard = ", c.data.shard,
        " gives worker ", least - parts.begin(), " ", least->size(), " of ", sets.train->size(),
        " images, fewer than one batch (train.batch = ", c.train.batch,
        "); use a larger alpha, another train.seed, a smaller train.batch or fewer workers");
  }
  return sets;
}

Worker::Worker(Config given, const TrainCommand& how, const dist::LaunchInfo& where,
               const std::optional<ResumePoint>& resume)
    : config(std::move(given)),
      command(how),
      place(where),
      device(device_for(config, where)),
      folder(how.dry_run ? "" : config.run_folder(), where.rank),
      board(config.run.tensorboard ? folder.path() : ""),
      progress(how.json ? stderr : stdout, where.rank != 0) {
  set_compute_threads(compute_threads_for(config, place.local_size));
  trace::name_thread("train");
  if (config.run.trace && config.run.trace_steps.empty()) start_trace();
  const DataSets sets = open_data(config, place.size);
  train_set = sets.train;
  val_set = sets.val;
  for (const auto& set : {train_set, val_set}) {
    for (const std::string& line : set->notes()) progress.note("data     " + line);
    const std::vector<std::string> left_out = set->left_out();
    if (left_out.empty()) continue;
    progress.note(
        fmt::format("data     {} images are damaged beyond their label and left out, the first: {}",
                    left_out.size(), left_out[0]));
    if (place.rank == 0) folder.add_bad_images(left_out);
  }
  if (config.data.cache_gb > 0) {
    cache = std::make_shared<data::Cache>(static_cast<std::size_t>(1e9 * config.data.cache_gb));
    train_set = data::cached(train_set, cache);
    val_set = data::cached(val_set, cache);
    progress.note(fmt::format("data     up to {:g} GB of encoded files are kept in memory{}",
                              config.data.cache_gb, place.size > 1 ? ", by each worker" : ""));
  }
  prepare = pictures(config);
  prepare.device = device;
  prepare.pairs = by_passes(device) && models::takes_pairs(config.model.name) &&
                  config.train.mixup == 0 && config.train.cutmix == 0;
  const auto epoch = static_cast<double>(train_set->size());
  total_samples = command.dry_run
                      ? static_cast<double>(kDryRunSteps * config.train.batch * place.size)
                      : config.train.epochs * epoch;
  schedule = make_run_schedule(config, place.size, config.train.epochs * epoch, epoch);

  const auto seed = static_cast<std::uint64_t>(config.train.seed);
  const int classes = config.classes_or(static_cast<i64>(train_set->classes().size()));
  net = models::make(config.model.name, {.classes = classes, .seed = seed});
  net->to(device);
  // Exchanges beside the computation change the master values at any moment: the layers then need a
  // copy of their own.
  const bool beside = place.size > 1 && dist::method_needs_frozen_compute(config.train.method);
  params = std::make_unique<FlatParams>(
      net->parameters(), net->buffers(),
      FlatOptions{.compute = prepare.dtype, .frozen = beside, .loss_scale = config.loss_scale()});
  optimizer = make_run_optimizer(config, *params, place.size);

  group = dist::join(place, {.connect_timeout_s = config.dist.connect_timeout_s,
                             .heartbeat_s = config.dist.heartbeat_s,
                             .dead_after_s = config.dist.dead_after_s,
                             .collective_timeout_s = config.dist.collective_timeout_s,
                             .on_wait = [this](const std::string& text) { progress.note(text); },
                             .on_refused =
                                 [this](const std::string& text) {
                                   folder.log("refused", JsonObject().add("what", text));
                                   progress.note("refused  " + text);
                                 }});
  inject();
  if (place.size > 1 && !device.is_cpu()) use_gpu_group();
  // Rounds that are no graph (one-peer-exp …) lead everywhere.
  const std::string graph_name =
      dist::known_graph(config.train.graph) ? config.train.graph : "complete";
  if (place.size > 1)
    graph = dist::make_graph(graph_name, place.size, config.train.rate > 0 ? config.train.rate : 1,
                             place.local_size);
  if (resume) start_samples = resume->samples;
  dist::MethodOptions options = method_options(config, place.local_size);
  options.total_samples = total_samples;
  options.start_samples = start_samples;
  options.rejoin = place.rejoin;
  if (!device.is_cpu() && config.dist.wire == "f16") options.wire = DType::f16;
  options.on_fault = [this](const std::string& what, int peer) { fault(what, peer); };
  if (config.run.log_exchanges)
    options.on_exchange = [this](const dist::ExchangeRecord& e) { log_exchange(e); };
  method = dist::make_method(config.train.method, *params, *optimizer, *group, graph, options);
  check(!method->needs_frozen_compute() || params->options().frozen,
        "train.method=", config.train.method, " needs a compute copy of its own");
  const auto own =
      unequal(config)
          ? data::part_of(train_set, parts_of(config, *train_set,
                                              place.size)[static_cast<std::size_t>(place.rank)])
          : train_set;
  const data::LoaderOptions loading = loader_options(config, prepare, place, device);
  if (loading.boxes)
    progress.note(
        "data     pictures to train on are cropped, resized and flipped where the network "
        "computes");
  loader = std::make_unique<data::Loader>(own, loading);
  if (place.rejoin)
    at = {method->samples_seen(), static_cast<i64>(method->samples_seen() / epoch) + 1, 0};
  order = image_order(*own, loading);
  if (resume && !place.rejoin) {
    const Continuation on = load_checkpoint(*resume, place.rank, place.size, state(), order);
    at = on.at;
    if (!on.note.empty()) progress.note("resumed  " + on.note);
  }
  if (loader->steps() > 0 && at.step >= loader->steps()) at = {at.samples, at.epoch + 1, 0};
  loader->set_size(picture_size());
  loader->seek(at.epoch, at.step);
  // Nobody exchanges before everybody has its state.
  if (place.size > 1 && !place.rejoin) group->collectives().barrier();
  std::vector<std::string> table;
  if (place.size > 1 && !place.rejoin)
    table =
        rank_table(*group, place, compute_threads(), data_threads_for(config, place.local_size));
  if (injector) injector->start();

  progress.note(fmt::format("data     {}: {} images to train, {} to validate, {} classes, {}x{}",
                            joined(config.data.train), train_set->size(), val_set->size(),
                            train_set->classes().size(), prepare.train_size, prepare.train_size));
  progress.note(fmt::format(
      "model    {}: {} parameters, {}{}", config.model.name, params->parameter_count(),
      config.train.dtype,
      params->loss_scale() == 1 ? "" : fmt::format(", loss scale {:.0f}", params->loss_scale())));
  if (!device.is_cpu())
    progress.note(fmt::format("device   cuda:{}, {}", device.index, cuda::properties(device).name));
  if (place.size > 1) {
    const dist::GraphConstants k = dist::constants(graph);
    progress.note(
        fmt::format("workers  {} ({}), {} on {} at rate {:.3g}: chi1 {:.4g} chi2 {:.4g} eta {:.4g} "
                    "alpha~ {:.4g}, {} compute thread(s) each",
                    place.size, place.source, config.train.method, config.train.graph,
                    config.train.rate, k.chi1, k.chi2, k.eta, k.alpha_tilde, compute_threads()));
    if (!command.json)
      for (const std::string& line : table) progress.note(line);
    if (place.derived_token && !place.local)
      progress.note(
          fmt::format("token    derived from what {} gives, which others may know; on a shared "
                      "network set GOSSAMER_TOKEN_FILE to a file of mode 600",
                      place.source));
  } else {
    progress.note(fmt::format("workers  1, {} compute thread(s)", compute_threads()));
  }
  progress.note(
      fmt::format("budget   {:.0f} images = {:.4g} epochs, batch {} x {}{}", total_samples,
                  total_samples / epoch, place.size, config.train.batch,
                  start_samples > 0 ? fmt::format(", resumed at {:.0f}", start_samples) : ""));
  if (resume && !resume->own_state(place.size)) {
    const std::string which = resume->whole()
                                  ? fmt::format("{} workers wrote them", resume->world)
                                  : fmt::format("of {}, the others are missing", resume->world);
    progress.note(fmt::format("resumed  from the mean of {} models ({}), momentum starts afresh",
                              resume->files.size(), which));
  }
}

int Worker::picture_size(double coming) const {
  const double progress = total_samples > 0 ? (method->samples_seen() + coming) / total_samples : 1;
  for (std::size_t i = 0; i < config.data.sizes.size(); ++i)
    if (progress < config.data.size_milestones[i]) return static_cast<int>(config.data.sizes[i]);
  return prepare.train_size;
}

void Worker::inject() {
  if (config.dist.inject.empty()) return;
  const auto say = [this](const std::string& what) {
    folder.log("inject", JsonObject().add("what", what));
    progress.note("inject   worker " + std::to_string(place.rank) + ": " + what);
  };
  injector = std::make_unique<dist::Injector>(dist::parse_injections(config.dist.inject),
                                              place.rank, dist::process_actions(say), place.rejoin);
  if (place.size == 1 || !injector->disturbs_links()) return;
  undisturbed = std::move(group);
  group = dist::disturbed(*undisturbed, *injector, static_cast<std::uint64_t>(config.train.seed),
                          dist::Seconds(config.dist.dead_after_s));
}

void Worker::use_gpu_group() {
  const char* hostid = std::getenv("NCCL_HOSTID");
  const bool rounds = dist::method_is_synchronous(config.train.method);
  on_host = std::move(group);
  group = dist::gpu_group(
      *on_host, device,
      {.traffic = config.train.method == "allreduce" ? dist::GpuTraffic::all_reduce
                  : rounds                           ? dist::GpuTraffic::rounds
                                                     : dist::GpuTraffic::gossip,
       .transport = config.dist.transport,
       .wire = config.dist.wire,
       .nccl_hostid = hostid ? hostid : "",
       .ctas = static_cast<int>(config.dist.nccl_ctas),
       .collective_timeout_s = config.dist.collective_timeout_s,
       .log = [this](const std::string& line) { progress.note("gpu      " + line); }});
}

void Worker::fault(const std::string& what, int peer) {
  if (settled || stop_signal()) return;  // workers that leave as planned
  if (what != "exchange failed") lost = true;
  const bool joined = what == "joined";
  folder.log(joined ? "joined" : "fault", JsonObject().add("what", what).add("peer", peer));
  progress.note(fmt::format("{}   worker {}: {}", joined ? "joined" : "fault ", peer, what));
}

void Worker::log_exchange(const dist::ExchangeRecord& e) const {
  folder.log("exchange", JsonObject()
                             .add("peer", e.peer)
                             .add("session", e.session)
                             .add("at", e.time)
                             .add("ok", e.ok)
                             .add("distance", e.distance)
                             .add("seconds", e.seconds)
                             .add("staleness", e.staleness));
}

void Worker::start_trace() {
  if (!folder.writes()) return;
  trace_began_us = trace::now_us();
  trace::start(place.rank, fmt::format("worker {}", place.rank));
}

void Worker::write_trace() {
  if (trace_began_us <= 0) return;
  TraceClock clock{.rank = place.rank,
                   .machine = machine_id(),
                   .epoch_us = trace::epoch_us(),
                   .begin_us = trace_began_us,
                   .end_us = trace::now_us()};
  if (place.rank != 0) {
    clock.begin = group->control().clock_offset(0, clock.begin_us);
    clock.end = group->control().clock_offset(0, clock.end_us);
  }
  folder.write_trace(to_json(clock));
}

}  // namespace gossamer::apps
