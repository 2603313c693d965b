// `gossamer compare EXPERIMENT.toml`: runs what an experiment asks for, each run in a process of
// its own, and makes one table and one page of it. What has been run is not run again.
#include "gossamer/apps/commands/compare.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>

#include "gossamer/apps/compare/experiment.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/launch/process.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/pictures.h"
#include "gossamer/apps/report/run_record.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/dist/faults/inject.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMostJobs = 256;
constexpr std::string_view kLocal = "local_";  // begins the scores of the workers' own models
// Exit codes: a training run that has failed; a mistake in the command or the configuration.
constexpr int kFailed = 1, kMistake = 2;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A signal has asked this command to stop.
struct Stopped {
  int signal;
};

// The runs of an experiment in a folder. Of the run NAME there are NAME.command, what was run;
// NAME.json, what it printed, or NAME/, its folder; NAME.log, what else it said.
class Runs {
 public:
  Runs(const Experiment& e, fs::path folder, int jobs)
      : e_(e), folder_(std::move(folder)), jobs_(static_cast<std::size_t>(jobs)) {}

  // Makes those that are not there yet. ConfigError: one of them is there, but is another run.
  // Error: one has failed. A mistake in the experiment ends the others; otherwise they end first.
  void make(const std::vector<ComparedRun>& wanted) {
    std::vector<ComparedRun> left;
    for (const ComparedRun& run : wanted) {
      check_command(run);
      if (result(run).is_null()) left.push_back(run);
    }
    if (left.empty()) return;
    say(fmt::format("{} runs, {} of them new, {} at a time", wanted.size(), left.size(), jobs_));
    fs::create_directories(folder_);
    for (const ComparedRun& run : left)
      if (lost_workers(run)) set_aside(folder_ / name_of(e_, run));
    SignalInbox signals;
    std::map<pid_t, ComparedRun> under_way;
    std::size_t next = 0, ended = 0;
    std::vector<std::string> failed;
    while (ended < left.size()) {
      while (next < left.size() && under_way.size() < jobs_) {
        const pid_t child = start(left[next]);
        under_way.emplace(child, left[next++]);
      }
      pollfd wait{signals.descriptor(), POLLIN, 0};
      poll(&wait, 1, -1);
      while (const auto signal = signals.next())
        if (*signal != SIGCHLD) stop(under_way, *signal);
      int status = 0;
      for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = under_way.find(child);
        if (found == under_way.end()) continue;
        const ComparedRun run = found->second;
        under_way.erase(found);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        std::string failure;
        try {
          end(run, code);
          failure = text_of(file(run, ".diverged"));
        } catch (const Error& e) {
          if (code == kMistake) {
            end_all(under_way, SIGTERM);
            fail<Error>("compare: ", e.what());
          }
          failed.emplace_back(e.what());
          failure = "failed; see " + file(run, ".log").string();
        } catch (...) {
          end_all(under_way, SIGTERM);
          throw;
        }
        say(fmt::format(
            "{} of {}: {}  {}", ++ended, left.size(), name_of(e_, run),
            failure.empty() ? e_.measure + " " + six_digits(number(run, e_.measure)) : failure));
      }
    }
    if (!failed.empty())
      fail<Error>("compare: ", failed.size(), " of ", left.size(),
                  " runs have failed, and the same command makes them again. One of them: ",
                  failed.front());
  }
  // null: it is not there
  Json result(const ComparedRun& run) const {
    if (fs::exists(file(run, ".diverged"))) return Json::object();
    const std::string text =
        text_of(e_.trains() ? folder_ / name_of(e_, run) / "summary.json" : file(run, ".json"));
    Json out = text.empty() ? Json() : Json::parse(text, nullptr, false);
    return out.is_object() && !out.contains("failed") && !lost_workers(run) ? out : Json();
  }
  // Of a run that was made. NaN: it has diverged. ConfigError: it has no such number.
  double number(const ComparedRun& run, const std::string& name) const {
    const Json all = result(run);
    if (all.empty()) return NAN;
    if (e_.trains() && name.starts_with(kLocal)) return of_local_models(run, name);
    const auto found = all.find(name);
    if (found == all.end() || !(found->is_number() || found->is_null())) {
      std::vector<std::string> numbers;
      for (const auto& [key, value] : all.items())
        if (value.is_number()) numbers.push_back(key);
      fail<ConfigError>("compare: a run has no number \"", name, "\"; it has ", listed(numbers));
    }
    return found->is_number() ? found->get<double>() : NAN;
  }
  // A score of the workers' own models, each on its share of the images, at its last evaluation on
  // the way: the mean over the workers, in the unit of summary.json.
  double of_local_models(const ComparedRun& run, const std::string& name) const {
    const RunRecord record = read_run(folder_ / name_of(e_, run));
    std::map<int, EvalRow> last;
    for (const EvalRow& each : record.evals)
      if (each.rank >= 0) last[each.rank] = each;
    check<ConfigError>(!last.empty(), "compare: \"", name, "\" is of the workers' own models, and ",
                       name_of(e_, run),
                       " has evaluated none on the way; set eval.every, and "
                       "leave eval.of=own");
    std::vector<ScoreColumn> columns = score_columns(record.task);
    columns.push_back({"loss", "loss", &EvalRow::loss, 1, ""});
    const auto found = std::ranges::find(columns, name.substr(kLocal.size()), &ScoreColumn::name);
    check<ConfigError>(found != columns.end(), "compare: the workers' own models have no score \"",
                       name, "\"; they have ", listed(columns, ", ", [](const ScoreColumn& c) {
                         return std::string(kLocal) + c.name;
                       }));
    double sum = 0;
    for (const auto& [rank, row] : last) sum += row.*found->value / found->factor;
    return sum / static_cast<double>(last.size());
  }
  // The loss over time of a simulation; the score over epochs of a training run.
  Points curve(const ComparedRun& run) const {
    Points out;
    if (e_.trains()) {
      if (!fs::exists(folder_ / name_of(e_, run) / "log.jsonl")) return out;
      for (const EvalRow& each : workers_evaluations(read_run(folder_ / name_of(e_, run)).evals))
        out.emplace_back(each.epoch, each.loss);
      return out;
    }
    const Json all = result(run);
    const auto list = [&](const char* key) {
      return all.contains(key) ? all[key].get<std::vector<Json>>() : std::vector<Json>();
    };
    const std::vector<Json> time = list("time"), loss = list("loss");
    for (std::size_t k = 0; k < std::min(time.size(), loss.size()); ++k)
      if (time[k].is_number() && loss[k].is_number())
        out.emplace_back(time[k].get<double>(), loss[k].get<double>());
    return out;
  }
  fs::path file(const ComparedRun& run, const char* ending) const {
    return folder_ / (name_of(e_, run) + ending);
  }

 private:
  // Faults on purpose are what such an experiment is about.
  bool lost_workers(const ComparedRun& run) const {
    return e_.trains() && !loses_on_purpose(run) &&
           apps::lost_workers(folder_ / name_of(e_, run)) > 0;
  }
  bool loses_on_purpose(const ComparedRun& run) const {
    constexpr std::string_view kKey = "dist.inject=";
    for (const std::string& each : arguments_of(e_, run))
      if (each.starts_with(kKey))
        return std::ranges::any_of(dist::parse_injections(each.substr(kKey.size())),
                                   [](const dist::Injection& i) {
                                     using enum dist::Injection::Kind;
                                     return i.kind != slow && i.kind != drop && i.kind != delay;
                                   });
    return false;
  }
  void check_command(const ComparedRun& run) const {
    const std::string then = text_of(file(run, ".command")), now = command(run);
    check<ConfigError>(then.empty() || then == now, "compare: ", file(run, "").string(),
                       " was run as\n  ", then, "\nand now the experiment says\n  ", now,
                       "\nGive another folder, with --out, or remove that one");
  }
  std::string command(const ComparedRun& run) const {
    return "gossamer " + listed(arguments_of(e_, run), " ");
  }

  pid_t start(const ComparedRun& run) const {
    write_file(file(run, ".command"), command(run));
    std::vector<std::string> arguments = arguments_of(e_, run);
    arguments.insert(arguments.begin(), "gossamer");
    if (e_.trains())
      arguments.insert(arguments.end(), {"run.dir=" + folder_.string(),
                                         "run.name=" + name_of(e_, run), "--resume=auto"});
    arguments.emplace_back("--json");
    const Descriptor out = open_file(file(run, ".part")), log = open_file(file(run, ".log"));
    return spawn({.self = true,
                  .arguments = std::move(arguments),
                  .environment = {},
                  .out = out.get(),
                  .err = log.get(),
                  .keep = {}});
  }
  static Descriptor open_file(const fs::path& path) {
    Descriptor out(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    check<IoError>(out.get() >= 0, path.string(), ": can't be written: ", std::strerror(errno));
    return out;
  }
  static std::string last_line(const fs::path& path) {
    std::istringstream text(text_of(path));
    std::string last;
    for (std::string line; std::getline(text, line);)
      if (!line.empty()) last = line;
    return last;
  }
  // A result has its name only when it is whole.
  void end(const ComparedRun& run, int code) const {
    // A run that has begun says why it has failed; another one is a mistake.
    const fs::path trained = folder_ / name_of(e_, run);
    if (code == kFailed && e_.trains() && fs::exists(trained / "log.jsonl"))
      if (const RunRecord record = read_run(trained); record.outcome.starts_with("failed"))
        return write_file(file(run, ".diverged"), record.outcome);
    check<Error>(code == 0, "the run ", name_of(e_, run), " has ended with code ", code,
                 "; the end of ", file(run, ".log").string(), ":\n", last_line(file(run, ".log")));
    if (e_.trains())
      fs::remove(file(run, ".part"));
    else
      fs::rename(file(run, ".part"), file(run, ".json"));
    check<Error>(!lost_workers(run), "the run ", name_of(e_, run), " ", lost_workers_text(trained));
    check<Error>(!result(run).is_null(), "the run ", name_of(e_, run), " has left no result; see ",
                 file(run, ".log").string());
  }
  // Training runs save their state, so that the same command goes on.
  [[noreturn]] static void stop(const std::map<pid_t, ComparedRun>& under_way, int signal) {
    end_all(under_way, signal);
    throw Stopped{signal};
  }
  static void end_all(const std::map<pid_t, ComparedRun>& under_way, int signal) {
    for (const auto& [child, run] : under_way) kill(child, signal);
    for (const auto& [child, run] : under_way) waitpid(child, nullptr, 0);
  }

  const Experiment& e_;
  const fs::path folder_;
  const std::size_t jobs_;
};

// What `train` would refuse is refused before anything starts.
void check_keys(const Experiment& e, const ComparedRun& run) {
  if (!e.trains()) return;
  std::vector<std::string> keys = arguments_of(e, run);
  std::erase_if(keys, [](const std::string& each) {
    return each.starts_with("--") || each.find('=') == each.npos;
  });
  load_config(keys);
}

// Each row with the best rate of the ladder, by a run whose seed no other run has.
std::vector<ComparedRow> rows_of(const Experiment& e, Runs& runs) {
  std::vector<ComparedRow> rows;
  std::vector<ComparedRun> ladder;
  for (std::size_t data = 0; data < e.data.size(); ++data)
    for (std::size_t graph = 0; graph < e.graphs.size(); ++graph)
      for (std::size_t method = 0; method < e.methods.size(); ++method) {
        rows.push_back({.data = data, .graph = graph, .method = method});
        check_keys(e, {data, graph, method, {}, 0});
        for (const double rate : e.learning_rates)
          ladder.push_back({data, graph, method, rate, e.seeds});
      }
  runs.make(ladder);
  std::vector<ComparedRun> all;
  for (ComparedRow& row : rows) {
    std::vector<double> values;
    for (const double rate : e.learning_rates)
      values.push_back(runs.number({row.data, row.graph, row.method, rate, e.seeds}, e.measure));
    if (!values.empty()) {
      const std::size_t best = best_of(values, e.more_is_better).value_or(0);
      row.learning_rate = e.learning_rates[best];
      row.at_the_edge = best == 0 || best + 1 == values.size();
    }
    for (int seed = 0; seed < e.seeds; ++seed)
      all.push_back({row.data, row.graph, row.method, row.learning_rate, seed});
  }
  runs.make(all);
  for (ComparedRow& row : rows) {
    std::vector<std::vector<double>> also(e.also.size());
    for (int seed = 0; seed < e.seeds; ++seed) {
      const ComparedRun run{row.data, row.graph, row.method, row.learning_rate, seed};
      row.values.push_back(runs.number(run, e.measure));
      for (std::size_t k = 0; k < also.size(); ++k) also[k].push_back(runs.number(run, e.also[k]));
    }
    for (const auto& each : also) row.also.push_back(interval_of(each).mean);
  }
  compare_rows(e, rows);
  return rows;
}

// --- the table

std::string figure(double v) { return fmt::format("{:.4g}", v); }
std::string interval_text(const Interval& i, bool sign) {
  if (!std::isfinite(i.mean)) return "diverges";
  const std::string mean = sign ? fmt::format("{:+.4g}", i.mean) : figure(i.mean);
  return std::isfinite(i.half) ? mean + " ± " + fmt::format("{:.2g}", i.half) : mean;
}
std::string difference_text(const Experiment& e, const ComparedRow& row) {
  if (e.methods[row.method].name == e.baseline) return "";
  const Interval& i = row.against;
  const double rounding = 1e-12 * std::abs(row.all.mean);
  if (std::abs(i.mean) < rounding && !(i.half >= rounding)) return "0";
  return std::isfinite(i.mean) ? interval_text(i, true) : "";
}
std::string rate_text(const ComparedRow& row) {
  if (!row.learning_rate) return "";
  return shortest(*row.learning_rate) + (row.at_the_edge ? " (edge)" : "");
}

std::vector<std::string> header(const Experiment& e) {
  std::vector<std::string> out{"data", "graph",   "method",
                               "rate", e.measure, "against " + e.baseline};
  out.insert(out.end(), e.also.begin(), e.also.end());
  return out;
}
std::vector<std::string> cells(const Experiment& e, const ComparedRow& row) {
  std::vector<std::string> out{e.data[row.data].name,         e.graphs[row.graph].name,
                               e.methods[row.method].name,    rate_text(row),
                               interval_text(row.all, false), difference_text(e, row)};
  for (const double each : row.also) out.push_back(std::isfinite(each) ? figure(each) : "");
  return out;
}
std::vector<std::string> notes(const Experiment& e, const std::vector<ComparedRow>& rows) {
  std::vector<std::string> out{
      fmt::format("{} workers; {} seed{}; ± is half of the 95 % confidence interval (Student's t); "
                  "a difference is between runs of one seed",
                  e.workers, e.seeds, e.seeds == 1 ? "" : "s")};
  if (!e.learning_rates.empty())
    out.push_back(
        fmt::format("each method has the best learning rate of {}, by a seed of its own",
                    listed(e.learning_rates, ", ", [](double r) { return shortest(r); })));
  if (std::ranges::any_of(rows, &ComparedRow::at_the_edge))
    out.emplace_back(
        "(edge): the best rate is the first or the last, so a longer ladder may have a "
        "better one");
  return out;
}

std::vector<std::pair<std::string, const std::vector<Variant>*>> axes(const Experiment& e) {
  return {{"data", &e.data}, {"graphs", &e.graphs}, {"methods", &e.methods}};
}

// The header, then the rows. An axis without names has no column.
std::vector<std::vector<std::string>> lines_of(const Experiment& e,
                                               const std::vector<ComparedRow>& rows) {
  std::vector<std::vector<std::string>> lines{header(e)};
  for (const ComparedRow& row : rows) lines.push_back(cells(e, row));
  for (std::size_t k = lines[0].size(); k-- > 0;)
    if (std::all_of(lines.begin() + 1, lines.end(), [k](const auto& l) { return l[k].empty(); }))
      for (auto& line : lines) line.erase(line.begin() + static_cast<std::ptrdiff_t>(k));
  return lines;
}

// Columns as wide as their longest cell.
std::string table_text(const std::vector<std::vector<std::string>>& lines) {
  // in characters, of which ± takes two bytes
  const auto width = [](const std::string& text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](unsigned char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<std::size_t> most(lines[0].size(), 0);
  for (const auto& line : lines)
    for (std::size_t k = 0; k < line.size(); ++k) most[k] = std::max(most[k], width(line[k]));
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t k = 0; k < line.size(); ++k)
      text += "  " + line[k] + std::string(most[k] - width(line[k]), ' ');
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

// What was compared: of each table of the experiment its name and its settings.
std::string settings_table(const Experiment& e) {
  HtmlTable table({"table", "settings"});
  const auto add = [&](const std::string& name, const SettingTexts& settings) {
    std::string text;
    for (const auto& [key, value] : settings)
      text += (text.empty() ? "" : "<br>") + html_escape(key + " = " + value);
    if (!text.empty()) table.row({html_escape(name), text});
  };
  add("common", e.common);
  for (const auto& [axis, all] : axes(e))
    for (const Variant& each : *all) add(axis + "." + each.name, each.settings);
  return "<details><summary>Settings</summary><p>gossamer " + html_escape(listed(e.command, " ")) +
         "</p>" + table.html() + "</details>";
}

std::string page(const Experiment& e, const Runs& runs, const std::vector<ComparedRow>& rows) {
  const auto lines = lines_of(e, rows);
  HtmlTable table(lines[0]);
  for (std::size_t k = 1; k < lines.size(); ++k) {
    std::vector<std::string> escaped;
    for (const std::string& each : lines[k]) escaped.push_back(html_escape(each));
    table.row(escaped);
  }
  std::string pictures;
  for (std::size_t first = 0; first < rows.size(); first += e.methods.size()) {
    std::vector<Curve> curves;
    for (std::size_t k = first; k < first + e.methods.size(); ++k) {
      const ComparedRow& row = rows[k];
      std::vector<Points> seeds;
      for (int seed = 0; seed < e.seeds; ++seed)
        seeds.push_back(runs.curve({row.data, row.graph, row.method, row.learning_rate, seed}));
      std::erase_if(seeds, [](const Points& p) { return p.empty(); });
      if (!seeds.empty())
        curves.push_back({.name = e.methods[row.method].name,
                          .points = mean_of(seeds),
                          .colour = static_cast<int>(k - first)});
    }
    std::string title = "loss";
    for (const std::string& axis :
         {e.data[rows[first].data].name, e.graphs[rows[first].graph].name})
      if (!axis.empty()) title += ", " + axis;
    pictures += chart({title, e.trains() ? "epochs" : "mean gradient durations", true}, curves);
  }
  std::string body = "<p class=\"lead\">" + html_escape(e.about) + "</p>" + table.html();
  for (const std::string& note : notes(e, rows)) body += "<p>" + html_escape(note) + "</p>";
  if (!pictures.empty()) body += "<div class=\"grid\">" + pictures + "</div>";
  body += settings_table(e);
  return html_page("Comparison: " + e.name, body);
}

JsonObject json_of(const SettingTexts& settings) {
  JsonObject out;
  for (const auto& [key, value] : settings) out.add(key, value);
  return out;
}

std::string json_of(const Experiment& e, const std::vector<ComparedRow>& rows) {
  std::vector<JsonObject> out;
  for (const ComparedRow& row : rows) {
    JsonObject& each = out.emplace_back();
    each.add("data", e.data[row.data].name).add("graph", e.graphs[row.graph].name);
    each.add("method", e.methods[row.method].name);
    if (row.learning_rate) each.add("learning_rate", *row.learning_rate);
    each.add("at_the_edge", row.at_the_edge).add("values", row.values);
    each.add("mean", row.all.mean).add("half", row.all.half);
    each.add("difference", row.against.mean).add("difference_half", row.against.half);
    for (std::size_t k = 0; k < e.also.size(); ++k) each.add(e.also[k].c_str(), row.also[k]);
  }
  JsonObject all;
  all.add("experiment", e.name).add("about", e.about).add("command", listed(e.command, " "));
  all.add("workers", e.workers).add("seeds", e.seeds);
  all.add("measure", e.measure).add("better", e.more_is_better ? "more" : "less");
  all.add("baseline", e.baseline).add("common", json_of(e.common));
  for (const auto& [axis, variants] : axes(e)) {
    JsonObject each;
    for (const Variant& v : *variants) each.add(v.name, json_of(v.settings));
    all.add(axis, each);
  }
  return all.add("rows", out).str();
}

}  // namespace

int compare(const CompareCommand& c) {
  check<ConfigError>(c.jobs >= 1 && c.jobs <= kMostJobs, "compare: --jobs ", c.jobs, "; from 1 to ",
                     kMostJobs, " runs can be made at a time");
  const Experiment e = read_experiment(c.experiment);
  const fs::path folder = c.out.empty() ? fs::path("runs") / "compare" / e.name : fs::path(c.out);
  Runs runs(e, folder, c.jobs);
  std::vector<ComparedRow> rows;
  try {
    rows = rows_of(e, runs);
  } catch (const Stopped& stopped) {
    say("stopped; the same command goes on");
    return 128 + stopped.signal;
  }
  const std::string json = json_of(e, rows);
  write_file(folder / "comparison.json", json + "\n");
  write_file(folder / "comparison.html", page(e, runs, rows));
  if (c.json) {
    print(json + "\n");
    return 0;
  }
  print((e.about.empty() ? e.name : e.about) + "\n\n" + table_text(lines_of(e, rows)) + "\n");
  for (const std::string& note : notes(e, rows)) print("  " + note + "\n");
  print("  page: " + (folder / "comparison.html").string() + "\n");
  return 0;
}

}  // namespace gossamer::apps
