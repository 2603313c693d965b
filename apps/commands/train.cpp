// `gossamer train`: reads the configuration, then starts the workers or is one of them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/launch/supervisor.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/apps/report/run_claim.h"
#include "gossamer/apps/train/finish.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

void say(const std::string& text) { std::fputs(("gossamer: " + text + "\n").c_str(), stderr); }

void say_resume(const ResumePoint& from) {
  std::string text = "resuming from " + from.checkpoint.string();
  if (!from.defect.empty()) text += ", which is not whole: " + from.defect;
  for (const std::string& other : from.passed_over)
    text += (&other == from.passed_over.data() ? "; passed over: " : ", ") + other;
  say(text);
}

// Nothing is left to train, and the results are there.
bool is_finished(const Config& config, const ResumePoint& from, i64 images) {
  const std::filesystem::path folder = config.run_folder();
  std::error_code error;
  return std::filesystem::equivalent(folder, from.run_folder, error) &&
         from.samples >= config.train.epochs * static_cast<double>(images) &&
         std::filesystem::exists(folder / "summary.json") &&
         std::filesystem::exists(folder / "model.safetensors");
}

int say_finished(const Config& config, bool json) {
  const std::filesystem::path folder = config.run_folder();
  say(fmt::format(
      "{} is finished (train.epochs={:.4g}); to train on, give more: train.epochs={:.4g}",
      folder.string(), config.train.epochs, 2 * config.train.epochs));
  std::ifstream summary(folder / "summary.json");
  if (json) std::cout << summary.rdbuf() << std::flush;
  return 0;
}

void say_saved(Worker& w, const char* why, const std::filesystem::path& saved) {
  if (!w.folder.writes()) return;
  w.progress.note(
      fmt::format("{:<8} after {}{:.0f} images, saved; go on with: gossamer train --workers {} "
                  "--resume {}",
                  why, w.place.size > 1 ? "about " : "", w.at.samples, w.place.size,
                  saved == w.folder.path()
                      ? saved.string()
                      : saved.string() + " run.name=" + w.folder.path().filename().string()));
}

// Other workers or images are lost, but this model is good.
void save_failed(Worker& w) {
  try {
    // The others may have ended with their results.
    if (std::filesystem::exists(w.folder.file("summary.json"))) return;
    say_saved(w, "failed", w.save_interrupted());
  } catch (const std::exception& e) {
    w.warn(e.what());
  }
}

int train_and_finish(Worker& w) {
  StepLog log(w);
  w.began = Clock::now();
  try {
    train_loop(w, log);
  } catch (const DistError&) {
    // another worker that stopped first looks like a fault
    if (!stop_signal()) throw;
  } catch (const DataError&) {
    log.list_damaged();  // the images that ended the run
    throw;
  }
  w.wall_s = seconds_since(w.began);
  if (const int number = stop_signal()) {
    w.finished = true;
    const std::filesystem::path saved = w.save_interrupted();
    w.write_trace();
    w.folder.log("interrupted", JsonObject().add("signal", number).add("samples", w.at.samples));
    say_saved(w, "stopped", saved);
    return 128 + number;
  }
  return finish_run(w);
}

int run_worker(const Config& config, const TrainCommand& command, const dist::LaunchInfo& place,
               const std::optional<ResumePoint>& resume) {
  install_stop_handlers();
  if (place.source == "openmpi" || place.source == "hydra" || place.source == "torchrun")
    stop_when_orphaned();
  Worker w(config, {.dry_run = command.dry_run, .json = command.json}, place, resume);
  stop_after_step();
  report_ready();
  JsonObject start;
  start.add("pid", getpid())
      .add("workers", place.size)
      .add("method", config.train.method)
      .add("samples", place.rejoin ? w.at.samples : w.start_samples);
  if (place.rejoin) start.add("rejoined", true);
  w.folder.log("start", start);
  const auto failed = [&](const std::exception& e) {
    w.folder.log("failed", JsonObject().add("what", e.what()));
  };
  try {
    return train_and_finish(w);
  } catch (const DistError& e) {
    failed(e);
    save_failed(w);
    throw;
  } catch (const DataError& e) {
    failed(e);
    save_failed(w);
    throw;
  } catch (const std::exception& e) {
    failed(e);
    throw;
  }
}

// What the run was started with, and on which data: for worker 0, which logs it when all are ready.
void pass_on_launch(const DataSets& sets) {
  JsonObject facts = launch_facts();
  facts.add("classes", sets.train->classes().size());
  for (const auto& [name, set] : {std::pair("train", sets.train), std::pair("val", sets.val)})
    if (set)  // data.val=none
      facts.add(std::string(name) + "_images", set->size())
          .add(std::string(name) + "_hash", fmt::format("{:016x}", data::fingerprint(*set)));
  setenv(kLaunchVariable, facts.str().c_str(), 1);
}

// A start that fails writes nothing.
std::filesystem::file_time_type time_of_log(const RunFolder& folder) {
  std::error_code error;
  return std::filesystem::last_write_time(folder.file("log.jsonl"), error);
}

// The report of a run that was stopped or failed; a finished run has written its own. True if it
// was written. Never throws.
bool report_unfinished(const RunFolder& folder) {
  try {
    if (std::filesystem::exists(folder.file("summary.json"))) return false;
    if (read_run(folder.path()).alive.empty()) return false;  // no worker had started
    write_report(folder.path());
    return true;
  } catch (const std::exception& e) {
    say(std::string(e.what()) + "; try later: gossamer report " + folder.path().string());
    return false;
  }
}

void say_report(const RunFolder& folder) {
  say("what happened until then: " + folder.file("report.html").string());
}

}  // namespace

int train(const TrainCommand& command) {
  if (command.workers)
    check<ConfigError>(*command.workers >= 1 && *command.workers <= 1024, "--workers ",
                       *command.workers, ": give a number of workers from 1 to 1024");
  survive_failed_writes();
  const dist::LaunchInfo place = dist::launch_info();
  const std::vector<Host> hosts =
      command.hosts.empty() ? std::vector<Host>{} : read_hosts(command.hosts);
  int to_start = command.workers.value_or(
      hosts.empty() ? 1 : static_cast<int>(place_workers(hosts, 0).size()));
  check<ConfigError>((to_start == 1 && hosts.empty()) || place.size == 1,
                     hosts.empty() ? "--workers " : "--hosts with ", to_start,
                     " workers inside a job of ", place.size, " processes started by ",
                     place.source,
                     "; that launcher has already started the workers, so leave the option out");
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
  if (to_start == 1 && hosts.empty()) spin_briefly(place.local_size);
  if (!command.inject.empty()) arguments.push_back("dist.inject=" + command.inject);
  if (!command.record.empty()) arguments.push_back("run.record=" + command.record);
  if (!command.replay.empty()) arguments.push_back("run.replay=" + command.replay);
  Config config = load_config(arguments);
  const bool first = !command.worker && place.rank == 0;  // of all processes
  if (first)
    for (const std::string& line : config.notes) say(line);
  if (command.strict_images) config.data.strict_images = true;
  if (resume &&
      !(config.origin.contains("run.name") && config.origin["run.name"] == "command line")) {
    config.run.name = resume->run_folder.filename().string();
    config.run.dir =
        resume->run_folder.has_parent_path() ? resume->run_folder.parent_path().string() : ".";
  }
  if (!config.model.init.empty() && !config.origin.contains("model.name")) {
    arguments.push_back("model.name=" + model_name_of(nn::read_weights(config.model.init)));
    set_key(config, arguments.back());
  }
  const int workers = std::max(to_start, place.size);
  validate(config, workers, hosts.empty() ? std::max(to_start, place.local_size) : 0);

  const CoreWatch watch;
  const RunFolder folder(config.run_folder());
  // The first process checks all it can and claims the folder before it starts workers.
  std::optional<RunClaim> claim;
  if (first) {
    const DataSets sets = open_data(config, workers);
    if (resume && !command.dry_run && is_finished(config, *resume, sets.train->size()))
      return say_finished(config, command.json);
    if (resume) say_resume(*resume);
    const auto classes = static_cast<i64>(sets.train->classes().size());
    if (!config.model.init.empty() || !config.model.freeze.empty() ||
        !config.optim.factors.empty()) {
      std::vector<std::string> notes;  // each worker has them again
      model_to_train(config, classes, !resume, notes);
    }
    loader_options(config, pictures(config), place, {});
    if (!command.dry_run) {
      claim.emplace(config.run_folder());
      pass_on_launch(sets);
    }
    if (const std::string taken = taken_text(watch.taken(), cores()); !taken.empty())
      Progress(command.json ? stderr : stdout, false)
          .note("load     " + taken + "; training will be slower");
  }
  const bool reports = first && !command.dry_run && config.run.report;
  const std::filesystem::file_time_type old_log = time_of_log(folder);
  const auto report_failure = [&] {
    return reports && time_of_log(folder) != old_log && report_unfinished(folder);
  };
  if (to_start == 1 && hosts.empty()) {
    try {
      const int code = run_worker(config, command, place, resume);
      if (code != 0 && report_failure()) say_report(folder);
      return code;
    } catch (const std::exception&) {
      report_failure();
      throw;
    }
  }

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
  const int code = supervise({.workers = to_start,
                              .arguments = child,
                              .hosts = hosts,
                              .ssh = command.ssh,
                              .restart = static_cast<int>(config.dist.restart),
                              .restart_after_s = config.dist.restart_after_s,
                              .restart_at = restart_at,
                              .connect_timeout_s = config.dist.connect_timeout_s,
                              .json = command.json});
  if (code != 0 && report_failure()) say_report(folder);
  return code;
}

}  // namespace gossamer::apps
