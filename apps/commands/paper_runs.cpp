// See paper_runs.h.
#include "gossamer/apps/commands/paper_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/config.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/run_record.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecipe = "apps/configs/cifar10-resnet18-paper.toml";
constexpr const char* kRuns = "runs";

// While it lives, what is written to stdout, by this process and those that it starts, goes to
// stderr.
class OutputToStderr {
 public:
  OutputToStderr() : kept_(dup(STDOUT_FILENO)) { turn_to(STDERR_FILENO); }
  ~OutputToStderr() {
    turn_to(kept_);
    close(kept_);
  }
  OutputToStderr(const OutputToStderr&) = delete;
  OutputToStderr& operator=(const OutputToStderr&) = delete;

 private:
  static void turn_to(int file) {
    std::fflush(stdout);
    dup2(file, STDOUT_FILENO);
  }
  int kept_;
};

// The arguments of `gossamer train`. What is given by hand comes after what all pages set, so it
// wins; but the keys that make a run what it is come last.
std::vector<std::string> arguments_of(const PaperCommand& c, const PlannedRun& run) {
  std::vector<std::string> all = c.arguments;
  if (all.empty() || all[0].find('=') != std::string::npos) all.insert(all.begin(), kRecipe);
  std::vector<std::string> own{fmt::format("run.dir={}/{}", kRuns, c.name),
                               // nothing goes on from the end of a run, so none is kept of it
                               "run.keep=1", "run.final_checkpoint=false", kPatient};
  if (!c.device.empty()) own.push_back("train.device=" + c.device);
  all.insert(all.begin() + 1, own.begin(), own.end());
  all.insert(all.end(), run.keys.begin(), run.keys.end());
  all.push_back("run.name=" + run.name);
  return all;
}

// What the run in this folder came to, if it has ended, with all its workers.
std::optional<PaperRun> outcome(const fs::path& folder) {
  if (lost_workers(folder) > 0) return {};
  const auto summary =
      nlohmann::json::parse(std::ifstream(folder / "summary.json"), nullptr, false);
  if (!summary.is_object() || summary.contains("failed")) return {};
  const auto number = [&](const char* key) {
    const auto found = summary.find(key);
    return found != summary.end() && found->is_number() ? found->get<double>() : NAN;
  };
  return PaperRun{number("top1"), number("wall_s"), number("exchanges_per_gradient"),
                  number("consensus_distance")};
}

// A table is of runs that have everything in common but what it compares.
void check_settings(const Config& now) {
  const fs::path saved = fs::path(now.run_folder()) / "config.toml";
  if (!fs::exists(saved)) return;
  const std::vector<KeyText> then = key_texts(load_config({saved.string()})), keys = key_texts(now);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string& name = keys[i].name;
    const bool counts = now.origin.contains(name) && name != "train.epochs" &&
                        name != "train.device" && name != "train.threads" &&
                        !name.starts_with("run.") && !name.starts_with("dist.");
    check<ConfigError>(!counts || keys[i].value == then[i].value, name, " = ", keys[i].value,
                       ": the run ", now.run_folder(), " has ", then[i].value,
                       "; give another folder, with run.dir=DIR, or remove that run");
  }
}

double mean_seconds(const std::vector<std::optional<PaperRun>>& runs) {
  double sum = 0, ended = 0;
  for (const auto& each : runs)
    if (each) sum += each->seconds, ++ended;
  return sum / ended;
}

std::string left_text(std::size_t left, double seconds) {
  return left == 0 ? ""
                   : fmt::format("; {} left, about {}", left,
                                 duration_text(static_cast<double>(left) * seconds));
}

}  // namespace

std::vector<PaperRun> make_runs(const PaperCommand& c, const std::vector<PlannedRun>& planned) {
  const int workers = c.workers.value_or(PaperOptions().workers);
  check<ConfigError>(workers >= 2, "paper ", c.name, ": --workers ", workers,
                     "; it compares how several workers train together");
  std::vector<Config> configs;
  std::vector<std::optional<PaperRun>> runs;
  for (const PlannedRun& each : planned) {
    configs.push_back(load_config(arguments_of(c, each)));
    check_settings(configs.back());
    runs.push_back(outcome(configs.back().run_folder()));
  }
  auto left = static_cast<std::size_t>(
      std::ranges::count(runs, false, &std::optional<PaperRun>::has_value));
  const Config& config = configs.at(0);
  const bool known = left < runs.size();
  say(fmt::format(
      "{} runs of {} workers, train.epochs={}, one after the other, in {}; made already: {}{}",
      runs.size(), workers, to_text(config.train.epochs), config.run.dir, runs.size() - left,
      known ? left_text(left, mean_seconds(runs)) : "; the first says how long one takes"));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool ended = runs[i].has_value();
    const fs::path folder = configs[i].run_folder();
    if (lost_workers(folder) > 0) set_aside(folder);
    if (!ended) say(fmt::format("run {} of {}: {}", i + 1, runs.size(), planned[i].name));
    TrainCommand command;
    command.arguments = arguments_of(c, planned[i]);
    command.workers = workers;
    command.resume = "auto";
    int code = 0;
    {
      const OutputToStderr aside;
      code = train(command);  // a run that has ended may have to go on: train.epochs
    }
    if (code > 128) {
      say("stopped; the same command goes on");
      throw Stopped{code};
    }
    check<Error>(lost_workers(folder) == 0, "paper ", c.name, ": the run ", planned[i].name, " ",
                 lost_workers_text(folder));
    runs[i] = outcome(folder);
    check<Error>(code == 0 && runs[i], "paper ", c.name, ": the run ", planned[i].name,
                 " has failed; see ", folder.string(), "/log.jsonl");
    if (ended) continue;
    --left;
    say(fmt::format("run {} of {}: {} has ended after {}, top-1 {:.2f} %{}", i + 1, runs.size(),
                    planned[i].name, duration_text(runs[i]->seconds), 100 * runs[i]->top1,
                    left_text(left, mean_seconds(runs))));
  }
  std::vector<PaperRun> out;
  for (const auto& each : runs) out.push_back(*each);
  return out;
}

}  // namespace gossamer::apps
