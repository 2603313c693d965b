// `gossamer train`: reads the configuration, checks what can be checked, then starts the workers or
// is one of them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/launch/supervisor.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/apps/report/run_claim.h"
#include "gossamer/apps/temporary_folder.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/find_rate.h"
#include "gossamer/apps/train/graph_file.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/rescue.h"
#include "gossamer/apps/train/run.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::apps {
namespace {

// summary.json; an empty object: there is none.
nlohmann::json results_in(const std::filesystem::path& run_folder) {
  auto summary = nlohmann::json::parse(std::ifstream(run_folder / "summary.json"), nullptr, false);
  return summary.is_object() ? summary : nlohmann::json::object();
}

void say_resume(const Config& config, int workers, double epoch, const ResumePoint& from) {
  std::string text = "resuming from " + from.checkpoint.string();
  // Else the worker whose file is damaged says it, and what it takes instead.
  if (!from.defect.empty() && !from.own_state(workers))
    text += ", which is not whole: " + from.defect;
  for (const std::string& other : from.passed_over)
    text += (&other == from.passed_over.data() ? "; passed over: " : ", ") + other;
  say(text);
  if (said_by_hand(config, "model.init"))
    say("model.init is not read again: the weights are those of the checkpoint");
  if (from.samples >= run_samples(config, workers, epoch))
    say(
        fmt::format("{:.4g} epochs are done, and train.epochs={} wants no more: only the "
                    "results are written",
                    from.samples / epoch, to_text(config.train.epochs)));
  // Without run.final_checkpoint the newest one may be much older than the end.
  std::error_code error;
  const double finished = results_in(from.run_folder).value("samples", 0.0);
  if (finished > 1.01 * from.samples &&
      std::filesystem::equivalent(config.run_folder(), from.run_folder, error))
    say(
        fmt::format("this run had finished after {:.4g} epochs, and this checkpoint is of {:.4g}: "
                    "what lies between is computed again; the finished model will be in {}/earlier",
                    finished / epoch, from.samples / epoch, from.run_folder.string()));
}

// Whether train.patience ended the run of this folder.
bool stopped_early(const std::filesystem::path& run_folder) {
  return results_in(run_folder).value("stopped_early", false);
}

// Whether a run that train.patience ended goes on, because it is given more patience now.
bool goes_on_with_patience(const Config& then, const Config& now) {
  return stopped_early(now.run_folder()) &&
         (now.train.patience == 0 || now.train.patience > then.train.patience);
}

// Where the model of a finished run is: not in the run's folder if that could not take it.
std::filesystem::path model_of(const std::filesystem::path& run_folder) {
  std::filesystem::path own = run_folder / "model.safetensors";
  if (std::filesystem::exists(own)) return own;
  const nlohmann::json results = results_in(run_folder);
  const auto found = results.find("model_file");
  return found != results.end() && found->is_string() ? found->get<std::string>() : own.string();
}

bool has_results(const std::filesystem::path& run_folder) {
  const nlohmann::json results = results_in(run_folder);
  return !results.empty() && !results.contains("failed") &&
         std::filesystem::exists(run_folder / "config.toml") &&
         std::filesystem::exists(model_of(run_folder));
}

// The configuration of the run whose results are there, of as many epochs as are wanted now.
std::optional<Config> finished_run(const Config& config, int workers, double epoch) {
  const std::filesystem::path folder = config.run_folder();
  if (!has_results(folder)) return {};
  Config then = load_config({(folder / "config.toml").string()});
  if (run_samples(then, workers, epoch) < run_samples(config, workers, epoch) ||
      goes_on_with_patience(then, config))
    return {};
  return then;
}

// What the tensors of a checkpoint may not show. ConfigError: they belong to another model.
void check_same_model(const Config& now, int workers, const ResumePoint& from) {
  const std::filesystem::path saved = from.run_folder / "config.toml";
  if (!std::filesystem::exists(saved)) return;
  const std::vector<KeyText> then = key_texts(load_config({saved.string()})), keys = key_texts(now);
  std::set<std::string> kept{"model.name"};
  for (const auto& [option, value] : settings_of(models::ModelOptions()))
    if (option.name != "classes" && option.name != "dropout") kept.insert("model." + option.name);
  if (now.task == "language" && now.model.init.empty()) kept.insert("data.length");
  if (has_state_for(from, workers, dist::method_traits(now.train.method)))
    kept.insert("optim.name");
  for (std::size_t i = 0; i < keys.size(); ++i)
    check<ConfigError>(!kept.contains(keys[i].name) || keys[i].value == then[i].value, keys[i].name,
                       " = ", keys[i].value, ": the run ", from.run_folder.string(), " has ",
                       then[i].value, ", and --resume goes on with that; leave ", keys[i].name,
                       " out");
}

// What the run's folder could not take then, it may take now.
void bring_home_model(const std::filesystem::path& folder, const std::filesystem::path& model) {
  try {
    bring_home(model.parent_path(), folder, {"model-ema.safetensors", "model.safetensors"});
  } catch (const IoError& e) {
    say("its model is " + model.string() +
        ", because the run's folder cannot take it: " + e.what());
    return;
  }
  std::ostringstream text;
  text << std::ifstream(folder / "summary.json").rdbuf();
  std::string summary = text.str();
  const std::string old = json_text(model.string());
  if (const std::size_t at = summary.find(old); at != summary.npos)
    write_file(folder / "summary.json",
               summary.replace(at, old.size(), json_text((folder / "model.safetensors").string())));
  say("its model was copied into this folder from " + model.parent_path().string() +
      ", where it was because this folder could not take it");
}

// config: that of the run
int say_finished(const std::filesystem::path& folder, const Config& config, bool json) {
  const bool early = stopped_early(folder);
  say(fmt::format("{} is finished ({}); to train on, give more: {}", folder.string(),
                  early ? fmt::format("train.patience={}", config.train.patience)
                        : "train.epochs=" + to_text(config.train.epochs),
                  early ? fmt::format("train.patience={}, or 0", 2 * config.train.patience)
                        : "train.epochs=" +
                              to_text({2 * config.train.epochs.value, config.train.epochs.unit})));
  if (const std::filesystem::path model = model_of(folder); model.parent_path() != folder)
    bring_home_model(folder, model);
  std::ifstream summary(folder / "summary.json");
  if (json) std::cout << summary.rdbuf() << std::flush;
  return 0;
}

// What the run was started with, and on which data: for worker 0, which logs it when all are ready.
void pass_on_launch(const Task& task) {
  JsonObject facts = launch_facts();
  task.data->add_facts(facts);
  setenv(kLaunchVariable, facts.str().c_str(), 1);
}

// What the file of model.init says about the model, and no key has said.
std::vector<std::string> keys_of_init(const Config& c) {
  if (const std::string is = task_of(find_initial_model(c));
      is != c.task && is != "pictures")  // which is also what cannot be told
    fail<ConfigError>("model.init: ", c.model.init, " is a model for task=", is,
                      ", and this run has task=", c.task, "; say task=", is,
                      " or name another model");
  if (c.task == "language") return keys_of_language_model(c);
  if (c.task == "translation") return keys_of_translation_model(c);
  return keys_of(initial_weights(c), c);
}

// What a start is asked for, and what follows from it.
struct Start {
  explicit Start(const TrainCommand&);
  bool first() const { return !command.worker && place.rank == 0; }       // of all processes
  bool writes() const { return !command.dry_run && !command.find_rate; }  // a run's folder
  // or is a worker itself
  bool launches() const {
    return to_start > 1 || !hosts.empty() || (place.source == "alone" && config.dist.places > 1);
  }
  bool joins() const { return !command.join.empty(); }
  int workers() const { return std::max(to_start, place.size); }
  bool resumes_if_it_can() const { return command.resume == "auto"; }
  // and not under another name
  bool goes_on_with_own_run() const {
    std::error_code error;
    return resumes_if_it_can() ||
           (resume && std::filesystem::equivalent(config.run_folder(), resume->run_folder, error));
  }
  // A checkpoint that is named itself is trained on from, whatever came after it.
  bool names_checkpoint() const {
    return !resumes_if_it_can() && resume && is_checkpoint_folder(command.resume);
  }

  const TrainCommand& command;
  dist::LaunchInfo place;
  const std::vector<Host> hosts;
  int to_start;
  std::optional<ResumePoint> resume;
  std::string begins_anew;  // why --resume auto has nothing to go on from; empty: no run is there
  std::optional<TemporaryFolder> described_by;  // the configuration of a run that is joined
  std::vector<std::string> arguments;           // of the configuration
  Config config;

 private:
  void ask_for_place();
  void check_sweep() const;
  std::filesystem::path described_run() const;
  void find_resume_point();
  void take_from_run();
  void take_model_of_run();
  void read_config();
};

Start::Start(const TrainCommand& given)
    : command(given),
      place(dist::launch_info()),
      hosts(given.hosts.empty() ? std::vector<Host>{} : read_hosts(given.hosts)),
      to_start(given.workers.value_or(
          hosts.empty() ? 1 : static_cast<int>(place_workers(hosts, 0).size()))),
      arguments(given.arguments) {
  if (joins()) ask_for_place();
  check<ConfigError>(!given.workers || (*given.workers >= 1 && *given.workers <= dist::kMaxWorkers),
                     "--workers ", to_start, ": give a number of workers from 1 to ",
                     dist::kMaxWorkers);
  check<ConfigError>(!launches() || place.size == 1, hosts.empty() ? "--workers " : "--hosts with ",
                     to_start, " workers inside a job of ", place.size, " processes started by ",
                     place.source,
                     "; that launcher has already started the workers, so leave the option out");
  if (given.find_rate) check_sweep();
  if (!given.resume.empty()) find_resume_point();
  read_config();
}

// The configuration is that of the run, but for the keys that are said here.
void Start::ask_for_place() {
  for (const auto& [given, option] : {std::pair(command.workers.has_value(), "--workers"),
                                      {!command.hosts.empty(), "--hosts"},
                                      {!command.resume.empty(), "--resume"},
                                      {!command.record.empty(), "--record"},
                                      {!command.replay.empty(), "--replay"},
                                      {command.find_rate, "--find-lr"},
                                      {command.dry_run, "--dry-run"}})
    check<ConfigError>(!given, "--join with ", option,
                       ": who joins is one worker of a run that goes on; leave the option out");
  check<ConfigError>(place.source == "alone", "--join inside a job of processes started by ",
                     place.source, ": its workers have their places; start it by itself");
  std::vector<std::string> seeds;
  std::istringstream list(command.join);
  for (std::string seed; std::getline(list, seed, ',');) seeds.push_back(seed);
  const Config own = load_config(command.arguments);
  dist::JoinOptions how;
  how.connect_timeout_s = own.dist.connect_timeout_s;
  how.tls = own.dist.tls;
  how.open = own.dist.open;
  how.on_wait = [](const std::string& text) { say(text); };
  const dist::Entry entry = dist::enter(dist::outside_info(), seeds, how);
  place = entry.place;
  if (!arguments.empty() && has_ending(arguments[0], {".toml"})) return;
  described_by.emplace("join");
  const std::filesystem::path file = described_by->path() / "run-that-goes-on.toml";
  write_file(file, entry.about);
  arguments.insert(arguments.begin(), file.string());
}

void Start::check_sweep() const {
  for (const auto& [given, option] : {std::pair(command.workers.has_value(), "--workers"),
                                      {!command.hosts.empty(), "--hosts"},
                                      {!command.resume.empty(), "--resume"},
                                      {!command.record.empty(), "--record"},
                                      {!command.replay.empty(), "--replay"},
                                      {place.size > 1, "a job of several processes"}})
    check<ConfigError>(!given, "--find-lr with ", option,
                       ": it is a short run of one worker from the start; optim.scaling carries "
                       "its result over to any number of workers");
}

// The folder of the run that the arguments describe. It does not exist at the first start.
std::filesystem::path Start::described_run() const {
  Config described = load_config(arguments);
  if (described.run.name == "auto" && described.task == "pictures" && !described.model.init.empty())
    for (const std::string& key : keys_of(initial_weights(described), described))
      set_key(described, key);  // the model's name is the run's
  return described.run_folder();
}

void Start::find_resume_point() {
  const Reader reader{.rank = first() ? -1 : place.rank, .workers = place.size};
  if (resumes_if_it_can()) {
    const std::filesystem::path folder = described_run();
    std::error_code error;
    if (!is_run_folder(folder) && !std::filesystem::exists(folder / "checkpoints", error)) return;
    try {
      resume = find_checkpoint(folder, reader);
    } catch (const NoCheckpoint& e) {
      begins_anew = e.why;
      return;
    }
  } else {
    const std::filesystem::path named = command.resume;
    // The others have gone on when a worker is started again, and may have removed it. A newer one
    // serves as well: only what never changes is taken from it.
    std::error_code error;
    const bool gone = place.rejoin && !std::filesystem::exists(named, error);
    resume = find_checkpoint(gone ? named.parent_path().parent_path() : named, reader);
  }
  if (!command.workers && hosts.empty() && !command.worker && place.size == 1)
    to_start = std::min(resume->world, dist::kMaxWorkers);
  const std::string saved = (resume->run_folder / "config.toml").string();
  if (resumes_if_it_can() || (!arguments.empty() && has_ending(arguments[0], {".toml"}))) return;
  check<IoError>(std::filesystem::exists(saved), "--resume ", command.resume, ": ", saved,
                 " is missing; give the run's configuration, as a file: gossamer train CONFIG.toml "
                 "--resume ",
                 command.resume);
  arguments.insert(arguments.begin(), saved);
}

// A checkpoint needs nothing but its run's folder and the data.
void Start::take_from_run() {
  const std::filesystem::path* const own = resume->file_of(place.rank);
  config.resumed_from = (own ? *own : resume->files[0]).string();
  if (config.task == "pictures" && !config.model.init.empty()) take_model_of_run();
  take_graph_file(config, resume->run_folder);
}

// What model.init has said about the model stands in the run's config.toml, and the weights in its
// checkpoint, so the file is not needed any more.
void Start::take_model_of_run() {
  const std::filesystem::path saved = resume->run_folder / "config.toml";
  if (std::filesystem::exists(saved)) {
    const Config then = load_config({saved.string()});
    const auto take = [&](const char* key, auto& to, const auto& from) {
      if (!config.origin.contains(key)) to = from;
    };
    take("model.name", config.model.name, then.model.name);
    take("model.classes", config.model.classes, then.model.classes);  // pictures take no others
    take("data.size", config.data.size, then.data.size);
    take("data.eval_size", config.data.eval_size, then.data.eval_size);
    take("data.resize", config.data.resize, then.data.resize);
    take("data.mean", config.data.mean, then.data.mean);
    take("data.std", config.data.std, then.data.std);
  }
  config.model.init.clear();
  config.model.init_key.clear();
  config.model.init_rename.clear();
}

void Start::read_config() {
  if (!command.inject.empty()) arguments.push_back("dist.inject=" + command.inject);
  if (!command.record.empty()) arguments.push_back("run.record=" + command.record);
  if (!command.replay.empty()) arguments.push_back("run.replay=" + command.replay);
  config = load_config(arguments);
  if (command.strict_images) config.data.strict_images = true;
  if (resume) {
    const std::filesystem::path& run = resume->run_folder;
    const bool named = said_by_hand(config, "run.name");
    if (!named) config.run.name = run.filename().string();
    if (!named && !said_by_hand(config, "run.dir"))
      config.run.dir = run.has_parent_path() ? run.parent_path().string() : ".";
  }
  if (resume) take_from_run();
  if (!joins()) place.places = static_cast<int>(config.dist.places);
  // All that is trained comes from a neighbour. What is frozen does not.
  if (joins() && config.model.freeze.empty() && config.model.lora_rank == 0) {
    config.model.init.clear();
    config.model.init_key.clear();
    config.model.init_rename.clear();
  }
  if (!config.model.init.empty() && !command.worker)
    for (const std::string& key : keys_of_init(config)) {
      arguments.push_back(key);
      set_key(config, key);
    }
  check<ConfigError>(!config.model.init.empty() ||
                         (config.model.init_key.empty() && config.model.init_rename.empty()),
                     "model.init_key and model.init_rename say what to take of the file of "
                     "model.init; name that file too, or leave them out");
  validate(config, workers(), hosts.empty() ? std::max(to_start, place.local_size) : 0);
  settle_cpu(config);
}

// The configuration of this command's own run, if it is finished.
std::optional<Config> nothing_is_left(const Start& start, const Task& task) {
  if (!start.goes_on_with_own_run() || !start.writes() || start.names_checkpoint()) return {};
  return finished_run(start.config, start.workers(), task.data->epoch());
}

// The first process checks all it can before it starts workers. Returns the configuration of the
// run if it is finished, so that there is nothing to train.
std::optional<Config> check_start(const Start& start) {
  const CoreWatch watch;
  const Config& config = start.config;
  for (const std::string& line : config.notes) say(line);
  dist::LaunchInfo place = start.place;
  place.size = start.workers();
  const Task task = make_task(config, place, {});
  if (auto run = nothing_is_left(start, task)) return run;
  if (!start.begins_anew.empty()) say(start.begins_anew + "; the run begins anew");
  if (start.resume) {
    check_same_model(config, start.workers(), *start.resume);
    task.data->check_resume(*start.resume);
    say_resume(config, start.workers(), task.data->epoch(), *start.resume);
  }
  if (!config.model.init.empty() || !config.model.freeze.empty() || !config.optim.factors.empty()) {
    std::vector<std::string> notes;  // each worker has them again
    task.model->make(!start.resume, notes);
  }
  task.data->check_loader();
  if (start.writes()) pass_on_launch(task);
  if (const std::string taken = taken_text(watch.taken(), cores()); !taken.empty())
    Progress(start.command.json ? stderr : stdout, false)
        .note("load     " + taken + "; training will be slower");
  return {};
}

int launch_workers(const Start& start) {
  const TrainCommand& command = start.command;
  std::vector<std::string> child{"train"};
  child.insert(child.end(), start.arguments.begin(), start.arguments.end());
  child.push_back("--as-worker");
  if (start.resume) child.insert(child.end(), {"--resume", start.resume->checkpoint.string()});
  if (command.dry_run) child.push_back("--dry-run");
  if (command.strict_images) child.push_back("--strict-images");
  if (command.json) child.push_back("--json");
  std::vector<std::pair<int, double>> restart_at;
  for (const dist::Injection& i : dist::parse_injections(start.config.dist.inject))
    if (i.kind == dist::Injection::Kind::restart) restart_at.emplace_back(i.rank, i.at_s);
  return supervise({.workers = start.to_start,
                    .places = start.place.places,
                    .open = start.config.dist.open,
                    .arguments = child,
                    .hosts = start.hosts,
                    .ssh = command.ssh,
                    .restart = static_cast<int>(start.config.dist.restart),
                    .restart_after_s = start.config.dist.restart_after_s,
                    .restart_at = restart_at,
                    .connect_timeout_s = start.config.dist.connect_timeout_s,
                    .json = command.json});
}

// The report of a run that was stopped or failed; a finished run writes its own.
class UnfinishedReport {
 public:
  explicit UnfinishedReport(const Start& start)
      : wanted_(start.first() && start.writes() && start.config.run.report),
        folder_(start.config.run_folder()),
        old_log_(time_of_log()) {}
  // True if it was written. Never throws.
  bool write() const {
    try {
      if (!wanted_ || std::filesystem::exists(folder_ / "summary.json")) return false;
      if (time_of_log() == old_log_) return false;  // this start wrote nothing
      const RunRecord run = read_run(folder_);
      if (run.alive.empty()) return false;  // no worker had started
      write_report(run, folder_);
      return true;
    } catch (const std::exception& e) {
      say(std::string(e.what()) + "; try later: gossamer report " + folder_.string());
      return false;
    }
  }
  void write_and_say() const {
    if (write()) say("what happened until then: " + (folder_ / "report.html").string());
  }

 private:
  std::filesystem::file_time_type time_of_log() const {
    std::error_code error;
    return std::filesystem::last_write_time(folder_ / "log.jsonl", error);
  }
  const bool wanted_;
  const std::filesystem::path folder_;
  const std::filesystem::file_time_type old_log_;
};

}  // namespace

int train(const TrainCommand& command) {
  survive_failed_writes();
  const Start start(command);
  std::optional<RunClaim> claim;
  if (start.first()) {
    if (const auto run = check_start(start))
      return say_finished(start.config.run_folder(), *run, command.json);
    if (start.writes()) claim.emplace(start.config.run_folder());
  } else if (!command.worker && has_results(start.config.run_folder()) &&
             nothing_is_left(start, make_task(start.config, start.place, {}))) {
    return 0;  // worker 0 says so, and meets nobody
  }
  if (command.find_rate) return find_rate(start.config, start.place, command.json);
  const UnfinishedReport report(start);
  int code = 0;
  try {
    code = start.launches()
               ? launch_workers(start)
               : run_worker(start.config, {.dry_run = command.dry_run, .json = command.json},
                            start.place, start.resume);
  } catch (const dist::PlaceTaken& e) {
    say(std::string(e.what()) + "; it asks for another one");
    return train(command);
  } catch (const std::exception&) {
    report.write();
    throw;
  }
  if (code != 0) report.write_and_say();
  return code;
}

}  // namespace gossamer::apps
