// Sets a worker up: data, model, group, method, loader, and with --resume the state of its
// checkpoint.
#include "gossamer/apps/train/worker.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/rank_table.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/graph_file.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {
Worker::Worker(Config given, const WorkerOptions& how, const dist::LaunchInfo& where,
               const std::optional<ResumePoint>& resume)
    : config(std::move(given)),
      options(how),
      place(where),
      device(worker_device(config, where)),
      folder(how.dry_run ? "" : config.run_folder(), where.rank),
      board(config.run.tensorboard ? folder.path() : ""),
      progress(how.json ? stderr : stdout, where.rank != 0),
      patience(config.train.patience, config.run.best_by) {
  set_compute_threads(compute_threads_for(config, place.local_size));
  trace::name_thread("train");
  if (config.run.trace && config.run.trace_steps.empty()) start_trace();
  if (resume) {
    start_samples = resume->samples, earlier = resume->figures;
    resumed_from = resume->run_folder;
  }
  open_task();
  make_model(resume.has_value());
  join_group();
  make_method();
  make_loader();
  resume_from(resume);
  // No worker exchanges before all have their state.
  std::vector<std::string> table;
  if (place.size > 1 && !place.rejoin) group->collectives().barrier();
  if (place.rank == 0 && !place.rejoin) begin_folder(resume);
  // All wait for worker 0 here, so none writes into the folder before it is made.
  if (place.size > 1 && !place.rejoin)
    table =
        rank_table(*group, place, compute_threads(), data_threads_for(config, place.local_size));
  folder.open();
  if (injector) injector->start();
  describe(table, resume);
}

void Worker::open_task() {
  task = make_task(config, place, device);
  for (const std::string& line : task->notes()) progress.note("data     " + line);
  if (place.rank == 0) folder.add_bad_images(task->left_out());
  const double epoch = task->epoch();
  std::vector<std::string> notes;
  schedule = run_schedule(config, place.size, epoch, notes);
  for (const std::string& line : notes) progress.note(line);
  total_samples = options.dry_run
                      ? start_samples + static_cast<double>(options.dry_steps *
                                                            config.gradient_samples() * place.size)
                      : run_samples(config, place.size, epoch);
}

void Worker::make_model(bool from_checkpoint) {
  // Every worker reads the same file and draws the rest alike.
  std::vector<std::string> notes;
  net = task->make_model(!from_checkpoint, notes);
  for (const std::string& line : notes) progress.note(line);
  for (nn::Module* module : net->modules())
    if (auto* drop = dynamic_cast<nn::Dropout*>(module)) drop->draw_for(place.rank);
  net->to(device);
  nn::Module::Parts parts = net->parts();
  params = std::make_unique<FlatParams>(
      std::move(parts.parameters), std::move(parts.buffers),
      FlatOptions{.compute = task->compute(), .loss_scale = config.loss_scale()},
      std::move(parts.frozen));
  optimizer = run_optimizer(config, *params, place.size);
  if (config.train.ema > 0) ema = std::make_unique<nn::Ema>(*params, config.train.ema);
}

void Worker::begin_folder(const std::optional<ResumePoint>& resume) {
  // --resume RUN run.name=OTHER: an older run OTHER is not the one that goes on. A state that was
  // saved elsewhere has no log of its own.
  std::error_code error;
  const bool goes_on =
      !resumed_from.empty() && (std::filesystem::equivalent(resumed_from, folder.path(), error) ||
                                !is_run_folder(resumed_from));
  const char* launch = std::getenv(kLaunchVariable);
  std::vector<std::string> outdated;
  if (goes_on && folder.writes()) outdated = checkpoints_after(folder.path(), *resume);
  const RunFolder::Begun begun =
      folder.begin(to_toml(config), launch ? launch : "", goes_on, outdated);
  if (folder.writes()) remove_half_written(folder.path());
  if (folder.writes()) keep_graph_file(config, folder.path());
  if (folder.writes()) task->save_beside_model(folder.path());
  if (!begun.moved.empty()) progress.warn("an older run of this name is now " + begun.moved);
  if (!outdated.empty())
    progress.note(fmt::format("resumed  {} {} now in {}",
                              counted(outdated.size(), "later checkpoint"),
                              outdated.size() == 1 ? "is" : "are", begun.aside));
}

void Worker::keep_older_record() {
  const std::filesystem::path record = config.run.record;
  if (record.empty() || place.rank != 0 || place.rejoin || options.dry_run) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(record, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("events-") || !name.ends_with(".jsonl")) continue;
    progress.warn("an older record is now " + move_aside(record).string());
    return;
  }
}

void Worker::join_group() {
  keep_older_record();  // no other worker writes one before it has met this one
  const auto refused = [this](const std::string& text) {
    folder.log("refused", JsonObject().add("what", text));
    progress.note("refused  " + text);
  };
  // Yama, where it guards processes of one user against each other, is told that workers may read
  // this one.
  if (place.size > 1 && config.dist.read_memory) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  group = dist::join(place, {.connect_timeout_s = config.dist.connect_timeout_s,
                             .heartbeat_s = config.dist.heartbeat_s,
                             .dead_after_s = config.dist.dead_after_s,
                             .collective_timeout_s = config.dist.collective_timeout_s,
                             .read_memory = config.dist.read_memory,
                             .on_wait = [this](const std::string& text) { progress.note(text); },
                             .on_refused = refused});
  inject();
  if (place.size > 1 && !device.is_cpu()) use_gpu_group();
}

void Worker::make_method() {
  // Rounds that no graph has (one-peer-exp …) may pair any two workers.
  const std::string graph_name =
      dist::known_graph(config.train.graph) ? config.train.graph : "complete";
  if (place.size > 1)
    graph = dist::make_graph(graph_name, place.size, config.train.rate > 0 ? config.train.rate : 1,
                             place.local_size);
  dist::MethodOptions options = method_options(config, place.local_size);
  options.control.phases = parts_of_run(config.control.phases, config, place.size, task->epoch());
  options.total_samples = total_samples;
  options.start_samples = start_samples;
  options.rejoin = place.rejoin;
  options.agree = common_values(config);
  options.agree.emplace_back("the classes or ids of the data", task->outputs());
  if (!device.is_cpu() && config.dist.wire == "f16") options.wire = DType::f16;
  options.on_fault = [this](const std::string& what, int peer) { fault(what, peer); };
  if (config.run.log_exchanges)
    options.on_exchange = [this](const dist::ExchangeRecord& e) { log_exchange(e); };
  method = dist::make_method(config.train.method, *params, *optimizer, *group, graph, options);
}

void Worker::make_loader() {
  for (const std::string& line : task->open_loader()) progress.note("data     " + line);
}

void Worker::resume_from(const std::optional<ResumePoint>& resume) {
  if (place.rejoin) {
    const double seen = method->samples_seen();
    at = {seen, static_cast<i64>(seen / task->epoch()) + 1, 0};
    if (resume) method->quiesce([&] { load_frozen(*resume, *params); });
    if (ema) ema->restart(*params);
  } else if (resume) {
    const Continuation from =
        load_checkpoint(*resume, place.rank, place.size, state(), *method, task->order());
    at = from.at;
    if (resume->own_state(place.size) && !resume->file_of(place.rank)) {
      const bool damaged =
          std::ranges::find(resume->damaged_ranks, place.rank) != resume->damaged_ranks.end();
      warn(fmt::format("its file of the checkpoint is {}, so it goes on from {}{}",
                       damaged ? "damaged" : "missing",
                       config.train.method == "allreduce"
                           ? fmt::format("worker {}'s", resume->ranks[0])
                           : fmt::format("the mean of the other {} and worker {}'s momentum",
                                         counted(resume->files.size(), "model"), resume->ranks[0]),
                       damaged ? ": " + resume->defect : ""));
    }
    if (!from.note.empty()) progress.note("resumed  " + from.note);
    // all from one file, so that they stop together
    const auto metadata = nn::read_metadata(resume->files[0]);
    if (const auto found = metadata.find("patience"); found != metadata.end())
      patience.restore(found->second);
  }
  if (task->steps() > 0 && at.step >= task->steps()) at = {at.samples, at.epoch + 1, 0};
  task->seek(at, part());
}

void Worker::describe(const std::vector<std::string>& table,
                      const std::optional<ResumePoint>& resume) {
  progress.note("data     " + task->description());
  progress.note(fmt::format(
      "model    {}: {} parameters{}, {}{}", config.model.name, parameter_count(),
      params->frozen().empty() ? ""
                               : fmt::format(", {} of them trained", params->parameter_count()),
      config.train.dtype,
      params->loss_scale() == 1 ? "" : fmt::format(", loss scale {:.0f}", params->loss_scale())));
  if (!device.is_cpu())
    progress.note(fmt::format("device   cuda:{}, {}", device.index, cuda::properties(device).name));
  if (place.size > 1) {
    std::string exchanges_text;
    const bool controlled = config.train.method == "consensus-control";
    if (dist::method_has_graph(controlled ? config.control.method : config.train.method))
      exchanges_text = " on " + config.train.graph;
    if (!dist::method_is_synchronous(config.train.method)) {
      const dist::GraphConstants k = dist::constants(graph);
      exchanges_text +=
          fmt::format(" at rate {:.3g}: chi1 {:.4g} chi2 {:.4g} eta {:.4g} alpha~ {:.4g}",
                      config.train.rate, k.chi1, k.chi2, k.eta, k.alpha_tilde);
    }
    progress.note(fmt::format("workers  {} ({}), {}{}, {} compute thread(s) each", place.size,
                              place.source, config.train.method, exchanges_text,
                              compute_threads()));
    if (!options.json)
      for (const std::string& line : table) progress.note(line);
    if (place.derived_token && !place.local)
      progress.note(
          fmt::format("token    derived from what {} gives, which others may know; on a shared "
                      "network set GOSSAMER_TOKEN_FILE to a file of mode 600",
                      place.source));
  } else {
    progress.note(fmt::format("workers  1, {} compute thread(s)", compute_threads()));
  }
  progress.note(fmt::format(
      "budget   {:.0f} {} = {:.4g} epochs, batch {} x {}{}{}", total_samples, task->unit(),
      total_samples / task->epoch(), place.size, config.train.batch,
      config.train.accumulate > 1 ? fmt::format(" x {} accumulated", config.train.accumulate) : "",
      start_samples > 0 ? fmt::format(", resumed at {:.0f}", start_samples) : ""));
  if (task->validates() && config.origin.contains("eval.every") && config.eval.every.value > 0 &&
      config.run.keep_best > 0 && !keeps_best(config, place.size))
    progress.note(
        "best     not kept, since each worker evaluates its own model; with "
        "eval.of=mean they meet to evaluate the average");
  if (resume && !resume->own_state(place.size)) {
    progress.note(fmt::format("resumed  from the mean of {} of a run of {}, momentum starts afresh",
                              counted(resume->files.size(), "model"),
                              counted(resume->world, "worker")));
  }
}

i64 Worker::parameter_count() const {
  i64 n = 0;
  for (const NamedTensor& p : net->parameters()) n += p.tensor.numel();
  return n;
}

double Worker::part(double ahead) const {
  const double begin = options.dry_run ? start_samples : 0, span = total_samples - begin;
  return span > 0 ? (method->samples_seen() + ahead - begin) / span : 1;
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
       .nccl_ctas = static_cast<int>(config.dist.nccl_ctas),
       .collective_timeout_s = config.dist.collective_timeout_s,
       .log = [this](const std::string& line) { progress.note("gpu      " + line); }});
}

void Worker::fault(const std::string& what, int peer) {
  if (finished || stop_signal()) return;  // workers that leave as planned
  const bool joined = what == "joined", refused = what == "exchange refused",
             of_one_exchange = refused || what == "exchange failed";
  if (!of_one_exchange) lost = true;
  {
    const std::scoped_lock lock(dead_mutex);
    if (refused && !refused_by.insert(peer).second) return;  // said once; the summary counts them
  }
  folder.log(joined ? "joined" : "fault", JsonObject().add("what", what).add("peer", peer));
  {
    const std::scoped_lock lock(dead_mutex);
    if (joined)
      dead.erase(peer);
    else if (!of_one_exchange)
      dead.insert(peer);
    const auto below = std::ranges::count_if(dead, [&](int r) { return r < place.rank; });
    progress.set_silent(below < place.rank);
  }
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

void Worker::warn(const std::string& what, bool aloud) {
  folder.log("fault", JsonObject().add("what", what).add("peer", -1));
  if (aloud) progress.warn((place.size > 1 ? fmt::format("worker {}: ", place.rank) : "") + what);
}

RunFigures Worker::leg() const {
  const dist::MethodStats s = method->stats();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return {.legs = 1,
          .samples = std::max(0.0, method->samples_seen() - start_samples),
          .wall_s = seconds,
          .worker_s = seconds,
          .gradients = static_cast<double>(s.gradients),
          .skipped_steps = static_cast<double>(params->skipped_steps()),
          .exchanges = static_cast<double>(s.exchanges),
          .failed = static_cast<double>(s.failed),
          .refused = static_cast<double>(s.refused),
          .exposed_s = s.exposed_s,
          .transfer_s = s.transfer_s,
          .bytes_sent = s.bytes_sent,
          .data_wait_s = task->stats().wait_s,
          .failed_checkpoints = static_cast<double>(checkpoints.failed())};
}

std::string Worker::run_id() const {
  if (place.size == 1) return std::to_string(getpid());
  return fmt::format("{:016x}", std::hash<std::string>()(place.token));
}

void Worker::add_to_board(double samples,
                          const std::vector<std::pair<std::string, double>>& values) {
  if (!progress.silent())
    board.scalars(static_cast<i64>(samples / static_cast<double>(config.gradient_samples())),
                  values);
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
  try {
    folder.write_trace(to_json(clock));
  } catch (const IoError& e) {
    warn(e.what());
  }
}

}  // namespace gossamer::apps
