// See run.h.
#include "gossamer/apps/train/run.h"

#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/train/common_stop.h"
#include "gossamer/apps/train/finish.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/core/error.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/dist/transport.h"

namespace gossamer::apps {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

void say_saved(Worker& w, const char* why, const std::filesystem::path& saved) {
  if (!w.journal.folder.writes()) return;
  w.journal.progress.note(fmt::format(
      "{:<8} after {}{:.0f} {}, saved; go on with: gossamer train --workers {} "
      "--resume {}",
      why, w.plan.several() ? "about " : "", w.trainer.at.samples, w.trainer.task.data->unit(),
      w.plan.place.size,
      saved == w.journal.folder.path()
          ? saved.string()
          : saved.string() + " run.name=" + w.journal.folder.path().filename().string()));
}

// Who had joined takes leave, and the others go on; the run's state is in their checkpoints.
int leave_run(Worker& w) {
  w.checkpoints.wait();
  w.journal.write_trace(*w.trainer.group);
  w.journal.folder.log("left", JsonObject().add("samples", w.trainer.at.samples));
  w.journal.progress.note(fmt::format("left     after {} gradients; the others go on",
                                      w.trainer.method->stats().gradients));
  return 0;
}

// Other workers or images are lost, but this model is good.
void save_failed(Worker& w) {
  try {
    // The others may have ended with their results.
    if (std::filesystem::exists(w.journal.folder.file("summary.json"))) return;
    say_saved(w, "failed", w.checkpoints.save_interrupted());
  } catch (const std::exception& e) {
    w.journal.warn(e.what());
  }
}

// All checkpoints in the folder hold finite numbers, also where the run has none any more.
void say_last_checkpoint(Worker& w) {
  if (!w.journal.folder.writes()) return;
  w.checkpoints.wait();
  for (const ResumePoint& point : list_checkpoints(w.journal.folder.path()))
    if (point.whole())
      return w.journal.progress.note(
          fmt::format("failed   the last checkpoint, after {:.0f} {}, is {}", point.samples,
                      w.trainer.task.data->unit(), point.checkpoint.string()));
  w.journal.progress.note("failed   there is no checkpoint to go on from");
}

int train_and_finish(Worker& w) {
  Trainer& trainer = w.trainer;
  StepLog log(w.plan, w.journal, trainer);
  trainer.began = Clock::now();
  CommonStop stop(*trainer.group, w.plan.method().synchronous && !w.plan.joined(),
                  trainer.method->samples_seen());
  try {
    nn::GradientStep gradient = gradient_step(w.plan, w.journal, trainer, [&] {
      return w.plan.schedule(trainer.method->samples_seen());
    });
    Milestones milestones(w.plan, w.journal, trainer, w.checkpoints);
    train_loop(w.plan, trainer, gradient, log, milestones, stop);
  } catch (const DistError&) {
    // another worker that stopped first looks like a fault
    if (!stop_signal()) throw;
  } catch (const DataError&) {
    log.list_damaged();  // the images that ended the run
    throw;
  }
  w.trainer.wall_s = seconds_since(w.trainer.began);
  if (const int number = stop_signal()) {
    w.journal.ends();
    if (w.plan.joined()) return leave_run(w);
    const std::filesystem::path saved = w.checkpoints.save_interrupted();
    w.journal.write_trace(*w.trainer.group);
    w.journal.folder.log("interrupted",
                         JsonObject().add("signal", number).add("samples", w.trainer.at.samples));
    say_saved(w, "stopped", saved);
    if (stop.without_others())
      w.journal.warn(
          "it has stopped without the other workers, which did not say where they can stop; a run "
          "that goes on from here is not the one that was never stopped");
    stop.leave();
    return saved == w.journal.folder.path() ? 128 + number : 6;
  }
  return finish_run(w.plan, w.journal, trainer, w.checkpoints);
}

}  // namespace

int run_worker(const Config& config, const WorkerOptions& options, const dist::LaunchInfo& place,
               const std::optional<ResumePoint>& resume) {
  install_stop_handlers();
  if (place.source == "openmpi" || place.source == "hydra" || place.source == "torchrun")
    stop_when_orphaned();
  Worker w(config, options, place, resume);
  stop_after_step(!w.plan.several());  // of several, the launcher says that they stop
  report_ready();
  JsonObject start;
  start.add("pid", getpid())
      .add("workers", place.size)
      .add("method", config.train.method)
      .add("samples", place.rejoin ? w.trainer.at.samples : w.plan.start_samples);
  if (place.rejoin) start.add("rejoined", true);
  w.journal.folder.log("start", start);
  const auto failed = [&](const std::exception& e) {
    w.journal.folder.log("failed", JsonObject().add("what", e.what()));
  };
  try {
    return train_and_finish(w);
  } catch (const dist::GivenUp& e) {  // the run's folder belongs to those that go on
    failed(e);
    throw;
  } catch (const DistError& e) {
    failed(e);
    save_failed(w);
    throw;
  } catch (const DataError& e) {
    failed(e);
    save_failed(w);
    throw;
  } catch (const IoError& e) {  // the end has said where its state is
    failed(e);
    throw;
  } catch (const OutOfMemory& e) {
    failed(e);
    say_last_checkpoint(w);
    fail<OutOfMemory>(e.what(), " In this run: ", less_memory(w.plan.config));
  } catch (const std::exception& e) {
    failed(e);
    say_last_checkpoint(w);
    throw;
  }
}

}  // namespace gossamer::apps
