// Sets a worker up, and describes what it is about to do.
#include "gossamer/apps/train/worker.h"

#include <cstdlib>

#include <fmt/format.h>

#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/rank_table.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/graph_file.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/trace.h"

namespace gossamer::apps {
namespace {

Task open_task(Plan& plan, Journal& journal) {
  set_compute_threads(compute_threads_for(plan.config, plan.place.local_size));
  trace::name_thread("train");
  if (plan.config.run.trace && plan.config.run.trace_steps.empty()) journal.start_trace();
  Task task = make_task(plan.config, plan.place, plan.device);
  for (const std::string& line : task.data->notes()) journal.progress.note("data     " + line);
  if (plan.place.rank == 0) journal.folder.add_bad_images(task.data->left_out());
  for (const std::string& line : plan.set_epoch(task.data->epoch())) journal.progress.note(line);
  return task;
}

void begin_folder(const Plan& plan, Journal& journal, const Task& task,
                  const std::optional<ResumePoint>& resume) {
  const RunFolder& folder = journal.folder;
  // --resume RUN run.name=OTHER: an older run OTHER is not the one that goes on. A state that was
  // saved elsewhere has no log of its own.
  std::error_code error;
  const bool goes_on = !plan.resumed_from.empty() &&
                       (std::filesystem::equivalent(plan.resumed_from, folder.path(), error) ||
                        !is_run_folder(plan.resumed_from));
  const char* launch = std::getenv(kLaunchVariable);
  std::vector<std::string> outdated;
  if (goes_on && folder.writes()) outdated = checkpoints_after(folder.path(), *resume);
  const RunFolder::Begun begun =
      folder.begin(to_toml(plan.config), launch ? launch : "", goes_on, outdated);
  if (folder.writes()) remove_half_written(folder.path());
  if (folder.writes()) keep_graph_file(plan.config, folder.path());
  if (folder.writes()) task.model->save_beside(folder.path());
  if (!begun.moved.empty())
    journal.progress.warn("an older run of this name is now " + begun.moved);
  if (!outdated.empty())
    journal.progress.note(fmt::format("resumed  {} {} now in {}",
                                      counted(outdated.size(), "later checkpoint"),
                                      outdated.size() == 1 ? "is" : "are", begun.aside));
}

std::string batch_text(const Plan& plan) {
  const auto& train = plan.config.train;
  if (train.global_batch > 0)
    return fmt::format("{} of all, by {} at once", train.global_batch, train.batch);
  std::string text = fmt::format("{} x {}", plan.place.size, train.batch);
  if (train.accumulate > 1) text += fmt::format(" x {} accumulated", train.accumulate);
  return text;
}

// On a machine that has not seen the run; elsewhere it is there.
void begin_own_folder(const Plan& plan, const RunFolder& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder.path(), error);
  check<IoError>(!error, folder.path().string(), ": cannot be made: ", error.message());
  if (!std::filesystem::exists(folder.file("config.toml"), error))
    write_file(folder.file("config.toml"), to_toml(plan.config));
}

void describe(const Plan& plan, Progress& progress, const Trainer& trainer,
              const std::vector<std::string>& table, const std::optional<ResumePoint>& resume) {
  progress.note("data     " + trainer.task.data->description());
  progress.note(fmt::format(
      "model    {}: {} parameters{}, {}{}", plan.config.model.name, trainer.parameter_count(),
      trainer.params->frozen().empty()
          ? ""
          : fmt::format(", {} of them trained", trainer.params->parameter_count()),
      plan.config.train.dtype,
      trainer.params->loss_scale() == 1
          ? ""
          : fmt::format(", loss scale {:.0f}", trainer.params->loss_scale())));
  if (!plan.device.is_cpu())
    progress.note(
        fmt::format("device   cuda:{}, {}", plan.device.index, cuda::properties(plan.device).name));
  if (plan.several()) {
    std::string exchanges_text;
    if (dist::method_traits(plan.config.stepping_method()).graph)
      exchanges_text = " on " + plan.config.train.graph;
    if (!plan.method().synchronous) {
      const dist::GraphConstants k =
          dist::constants(trainer.graph_of(trainer.group->alive(), plan));
      exchanges_text +=
          fmt::format(" at rate {:.3g}: chi1 {:.4g} chi2 {:.4g} eta {:.4g} alpha~ {:.4g}",
                      plan.config.train.rate, k.chi1, k.chi2, k.eta, k.alpha_tilde);
    }
    progress.note(fmt::format("workers  {} ({}), {}{}, {} compute thread(s) each", plan.place.size,
                              plan.place.source, plan.config.train.method, exchanges_text,
                              compute_threads()));
    if (!plan.options.json)
      for (const std::string& line : table) progress.note(line);
    if (!plan.place.token_file.empty())
      progress.note("token    made of this user's secret in " + plan.place.token_file);
    if (plan.place.open && plan.place.rank == 0) progress.warn(kOpenText);
    if (plan.place.all_places() > plan.place.size && plan.place.rank == 0)
      progress.note(fmt::format("join     gossamer train --join {} (room for {} more)",
                                dist::host_and_port(plan.place.host, plan.place.port),
                                plan.place.all_places() - plan.place.size));
    if (plan.joined())
      progress.note(fmt::format("joined   as worker {}, after {:.4g} epochs", plan.place.rank,
                                trainer.method->samples_seen() / plan.epoch));
    if (plan.encrypted()) progress.note("links    encrypted by TLS 1.3");
    if (!plan.encrypted() && !plan.place.local && plan.place.rank == 0) progress.warn(kClearText);
  } else {
    progress.note(fmt::format("workers  1, {} compute thread(s)", compute_threads()));
  }
  progress.note(fmt::format(
      "budget   {:.0f} {} = {:.4g} epochs, batch {}{}", plan.total_samples,
      trainer.task.data->unit(), plan.total_samples / plan.epoch, batch_text(plan),
      plan.start_samples > 0 ? fmt::format(", resumed at {:.0f}", plan.start_samples) : ""));
  if (trainer.task.data->validates() && plan.config.origin.contains("eval.every") &&
      plan.config.eval.every.value > 0 && plan.config.run.keep_best > 0 &&
      !keeps_best(plan.config, plan.place.size))
    progress.note(
        "best     not kept, since each worker evaluates its own model; with "
        "eval.of=mean they meet to evaluate the average");
  if (resume && !has_state_for(*resume, plan.place.size, plan.method())) {
    progress.note(fmt::format("resumed  from the mean of {} of a run of {}, momentum starts afresh",
                              counted(resume->files.size(), "model"),
                              counted(resume->world, "worker")));
  }
}

}  // namespace

Worker::Worker(Config config, const WorkerOptions& options, const dist::LaunchInfo& place,
               const std::optional<ResumePoint>& resume)
    : plan(std::move(config), options, place, resume),
      journal(plan),
      trainer(plan, journal, open_task(plan, journal), resume),
      checkpoints(plan, journal, trainer) {
  // No worker exchanges before all have their state.
  std::vector<std::string> table;
  if (plan.several() && !place.rejoin) trainer.group->collectives().barrier();
  if (place.rank == 0 && !place.rejoin) begin_folder(plan, journal, trainer.task, resume);
  // All wait for worker 0 here, so none writes into the folder before it is made.
  if (plan.several() && !place.rejoin)
    table = rank_table(*trainer.group, place, compute_threads(),
                       data_threads_for(plan.config, place.local_size));
  if (plan.joined() && journal.folder.writes()) begin_own_folder(plan, journal.folder);
  journal.folder.open();
  if (trainer.injector) trainer.injector->start();
  describe(plan, journal.progress, trainer, table, resume);
}

}  // namespace gossamer::apps
