// `gossamer train`: who starts what, and the training loop.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/launch/supervisor.h"
#include "gossamer/apps/report/bookkeeper.h"
#include "gossamer/apps/train/gradient_step.h"
#include "gossamer/apps/train/loader_options.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"

namespace gossamer::apps {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// A recorded graph is for GPUs; elsewhere auto means off.
StepGraph::Options graph_options(Worker& w) {
  return {.mode = w.device.is_cpu() ? StepGraph::Mode::off
                                    : StepGraph::mode_of(w.config.train.cuda_graph),
          .record = cuda_recorder(w.device),
          .counters = {},
          .log = [&w](const std::string& line) { w.progress.note("graph    " + line); }};
}

// The loop. Decentralisation is the one line method->step(): a gradient event; exchanges go on in
// the background.
void train_loop(Worker& w, Bookkeeper& book) {
  GradientStep gradient(
      {.net = *w.net,
       .params = *w.params,
       .prepare = w.prepare,
       .loss_of = TrainingLoss(w.config, w.place.rank),
       .before_backward = [&] { w.method->prepare(w.schedule(w.method->samples_seen())); }},
      graph_options(w));
  book.losses = &gradient.losses();
  double learning_rate = 0;
  i64 step = 0;
  // of the batch that was brought, or else of the one to bring
  Position next = w.at;
  // False: an epoch is over. coming: images that will have been seen when the batch is computed.
  const auto bring = [&](double coming) {
    const trace::Scope scope("data");
    w.loader->set_size(w.picture_size(coming));
    const data::Batch batch = w.loader->next();
    if (batch.labels.defined())
      gradient.bring(batch, next);
    else
      next = {next.samples, next.epoch + 1, 0};
    return batch.labels.defined();
  };
  const auto of_a_step = static_cast<double>(w.config.train.batch * w.place.size);
  bool brought = false;
  w.net->train();
  while (!w.method->done() && !stop_signal()) {
    book.before_step();
    const trace::Scope scope("step", step);
    if (!brought && !bring(0)) continue;
    w.at = next;
    gradient.compute();
    ++next.step;
    // The update may wait for the device or for others; the next batch need not wait for the
    // update.
    brought = w.method->samples_seen() + of_a_step < w.total_samples && bring(of_a_step);
    book.before_update(learning_rate);
    learning_rate = w.schedule(w.method->samples_seen());
    if (w.injector) w.injector->before_step(step);
    {
      const trace::Scope update("update");
      w.method->step(learning_rate);
    }
    gradient.step_ends();
    ++w.at.step, ++step;
    book.after_step(learning_rate);
    if (w.injector) w.injector->after_step();
  }
  book.last(learning_rate);
  book.losses = nullptr;
}

int run_worker(const Config& config, const TrainCommand& command, const dist::LaunchInfo& place,
               const std::optional<ResumePoint>& resume) {
  install_stop_handlers();
  if (place.source == "openmpi" || place.source == "hydra" || place.source == "torchrun")
    stop_when_orphaned();
  Worker w(config, command, place, resume);
  stop_after_step();
  report_ready();
  JsonObject start;
  start.add("pid", getpid())
      .add("workers", place.size)
      .add("method", config.train.method)
      .add("samples", place.rejoin ? w.at.samples : w.start_samples);
  if (place.rejoin) start.add("rejoined", true);
  w.folder.log("start", start);
  Bookkeeper book(w);
  const auto begin = Clock::now();
  try {
    train_loop(w, book);
  } catch (const DistError&) {
    // a neighbour that stopped first looks like a fault
    if (!stop_signal()) throw;
  } catch (const DataError&) {
    book.list_damaged();  // these ended the run
    throw;
  }
  w.wall_s = seconds_since(begin);
  if (const int number = stop_signal()) {
    w.settled = true;
    book.save("interrupted");
    w.write_trace();
    w.folder.log("interrupted", JsonObject().add("signal", number).add("samples", w.at.samples));
    if (w.folder.writes()) {
      w.progress.note(
          fmt::format("stopped  after {:.0f} images, saved; go on with: gossamer train --workers "
                      "{} --resume {}",
                      w.at.samples, place.size, w.folder.path().string()));
    }
    return 128 + number;
  }
  return finish_run(w);
}

}  // namespace

int train(const TrainCommand& command) {
  if (command.workers)
    check<ConfigError>(*command.workers >= 1 && *command.workers <= 1024, "--workers ",
                       *command.workers, ": give a number of workers from 1 to 1024");
  const dist::LaunchInfo place = dist::launch_info();
  sleep_while_waiting(place.local_size);
  const std::vector<Host> hosts =
      command.hosts.empty() ? std::vector<Host>{} : read_hosts(command.hosts);
  int to_start = command.workers.value_or(
      hosts.empty() ? 1 : static_cast<int>(place_workers(hosts, 0).size()));
  check<ConfigError>((to_start == 1 && hosts.empty()) || place.size == 1,
                     hosts.empty() ? "--workers " : "--hosts with ", to_start,
                     " workers inside a job of ", place.size, " processes started by ",
                     place.source, "; leave it away there");
  std::optional<ResumePoint> resume;
  std::vector<std::string> arguments = command.arguments;
  if (!command.resume.empty()) {
    resume = find_checkpoint(command.resume);
    if (!command.workers && hosts.empty() && !command.worker && place.size == 1)
      to_start = std::min(resume->world, 1024);
    const std::string saved = (resume->run_folder / "config.toml").string();
    if ((arguments.empty() || !arguments[0].ends_with(".toml")) && std::filesystem::exists(saved))
      arguments.insert(arguments.begin(), saved);
  }
  if (!command.inject.empty()) arguments.push_back("dist.inject=" + command.inject);
  if (!command.record.empty()) arguments.push_back("run.record=" + command.record);
  if (!command.replay.empty()) arguments.push_back("run.replay=" + command.replay);
  Config config = load_config(arguments);
  if (command.strict_images) config.data.strict_images = true;
  if (resume &&
      !(config.origin.contains("run.name") && config.origin["run.name"] == "command line")) {
    config.run.name = resume->run_folder.filename().string();
    config.run.dir =
        resume->run_folder.has_parent_path() ? resume->run_folder.parent_path().string() : ".";
  }
  const int workers = std::max(to_start, place.size);
  validate(config, workers, hosts.empty() ? std::max(to_start, place.local_size) : 0);

  // The first process checks what can be checked and prepares the folder; workers that it starts
  // find everything ready.
  if (!command.worker && place.rank == 0) {
    open_data(config, workers);
    loader_options(config, pictures(config), place, {});
    if (!command.dry_run) {
      const std::string moved =
          RunFolder(config.run_folder()).prepare(to_toml(config), resume.has_value());
      if (!moved.empty())
        fmt::print(stderr, "gossamer: an older run of this name is now {}\n", moved);
    }
  }
  if (to_start == 1 && hosts.empty()) return run_worker(config, command, place, resume);

  std::vector<std::string> child{"train"};
  child.insert(child.end(), arguments.begin(), arguments.end());
  child.push_back("--worker");
  if (resume) child.insert(child.end(), {"--resume", resume->checkpoint.string()});
  if (command.dry_run) child.push_back("--dry-run");
  if (command.strict_images) child.push_back("--strict-images");
  if (command.json) child.push_back("--json");
  std::vector<std::pair<int, double>> restart_at;
  for (const dist::Injection& i : dist::parse_injections(config.dist.inject))
    if (i.kind == dist::Injection::Kind::restart) restart_at.emplace_back(i.rank, i.at_s);
  return supervise({.workers = to_start,
                    .arguments = child,
                    .hosts = hosts,
                    .ssh = command.ssh,
                    .restart = static_cast<int>(config.dist.restart),
                    .restart_after_s = config.dist.restart_after_s,
                    .restart_at = restart_at,
                    .connect_timeout_s = config.dist.connect_timeout_s,
                    .json = command.json});
}

}  // namespace gossamer::apps
