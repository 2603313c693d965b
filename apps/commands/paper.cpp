// `gossamer paper`: lists the pages of apps/paper, or makes one: as text, JSON and pictures.
#include "gossamer/apps/paper/paper.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::apps {
namespace {

// Four digits, without an exponent where that can be read.
std::string figure(double v) {
  if (!std::isfinite(v)) return "";
  const double size = std::abs(v);
  if (size >= 1e4 && size < 1e7) return fmt::format("{:.0f}", v);
  return fmt::format("{:.4g}", v);
}

std::string allowed(const Compared& row) {
  return row.judged() ? fmt::format("{} to {}", figure(row.low), figure(row.high)) : "";
}
const char* verdict(const Compared& row) {
  return !row.judged() ? "" : row.holds() ? "holds" : "does not";
}

std::string count(const PaperPage& page) {
  int judged = 0, hold = 0;
  for (const Compared& row : page.rows) judged += row.judged(), hold += row.judged() && row.holds();
  return fmt::format("{} of {} numbers hold", hold, judged);
}

std::string text_of(const Paper& paper, const PaperPage& page, double seconds) {
  std::string out = fmt::format("{}: {}\n{}\n", paper.name, page.title, page.source);
  for (const std::string& each : page.assumptions) out += "  - " + each + "\n";
  std::size_t wide = 4;
  for (const Compared& row : page.rows) wide = std::max(wide, row.what.size());
  out += fmt::format("\n  {:<{}}  {:>10}  {:>10}   allowed\n", "", wide, "published", "ours");
  for (const Compared& row : page.rows)
    out += fmt::format("  {:<{}}  {:>10}  {:>10}   {:<18}  {}\n", row.what, wide,
                       figure(row.published), figure(row.ours), allowed(row), verdict(row));
  out += fmt::format("\n  {}; computed in {:.1f} s\n", count(page), seconds);
  for (const std::string& each : page.notes) out += "  " + each + "\n";
  return out;
}

std::string json_of(const Paper& paper, const PaperPage& page, double seconds) {
  std::vector<JsonObject> rows;
  for (const Compared& row : page.rows) {
    JsonObject each;
    each.add("what", row.what).add("published", row.published).add("ours", row.ours);
    each.add("low", row.low).add("high", row.high);
    each.raw("holds", row.judged() ? json_text(row.holds()) : "null");
    rows.push_back(std::move(each));
  }
  JsonObject out;
  out.add("name", paper.name).add("title", page.title).add("source", page.source);
  out.add("seconds", seconds).add("assumptions", page.assumptions).add("rows", rows);
  return out.add("notes", page.notes).str();
}

std::string list_of(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& each : items) out += "<li>" + html_escape(each) + "</li>";
  return out.empty() ? "" : "<ul>" + out + "</ul>";
}

std::string html_of(const Paper& paper, const PaperPage& page, double seconds) {
  std::string body = "<p class=\"lead\">" + html_escape(page.source) + "</p>";
  std::string pictures;
  for (const PaperChart& each : page.charts) pictures += chart(each.text, each.curves);
  if (!pictures.empty()) body += "<div class=\"grid\">" + pictures + "</div>";
  HtmlTable table({"", "published", "ours", "allowed"});
  for (const Compared& row : page.rows) {
    const std::string judged = !row.judged() ? ""
                               : row.holds()
                                   ? allowed(row)
                                   : "<b class=\"bad\">does not hold:</b> " + allowed(row);
    table.row(
        {html_escape(row.what), figure(row.published), "<b>" + figure(row.ours) + "</b>", judged});
  }
  body += "<h2>Ours beside the published</h2>" + table.html();
  body += fmt::format("<p>{}; computed in {:.1f} s by <code>gossamer paper {}</code></p>",
                      count(page), seconds, paper.name);
  body += "<h2>Assumptions</h2>" + list_of(page.assumptions);
  if (!page.notes.empty()) body += "<h2>Notes</h2>" + list_of(page.notes);
  return html_page(page.title, body);
}

// The recipe, and where the runs of a page are.
constexpr const char* kRecipe = "apps/configs/cifar10-resnet18-paper.toml";
constexpr const char* kRuns = "runs";

// While it lives, what is written to stdout, by this process and those that it starts, goes to
// stderr: stdout is the page's.
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

// Starts `gossamer train`, which goes on with a run that was stopped and leaves one that has ended
// as it is.
PaperRun run_of(const PaperCommand& c, int workers, const std::string& name,
                const std::vector<std::string>& keys) {
  TrainCommand command;
  command.arguments = c.arguments;
  command.workers = workers;
  command.resume = "auto";
  std::vector<std::string>& all = command.arguments;
  const auto is_key = [](const std::string& a) { return a.find('=') != a.npos; };
  if (all.empty() || is_key(all[0])) all.insert(all.begin(), kRecipe);
  // what is given by hand comes last, so it wins; but an arm is what it is
  std::vector<std::string> own{fmt::format("run.dir={}/{}", kRuns, c.name), "run.name=" + name};
  if (!c.data.empty())
    own.insert(own.end(), {"data.train=" + c.data + "/train", "data.val=" + c.data + "/val"});
  if (!c.device.empty()) own.push_back("train.device=" + c.device);
  all.insert(all.begin() + 1, own.begin(), own.end());
  all.insert(all.end(), keys.begin(), keys.end());
  {
    const OutputToStderr aside;
    check<Error>(train(command) == 0, "paper ", c.name, ": the run ", name, " has failed");
  }
  std::string folder = fmt::format("{}/{}", kRuns, c.name);
  for (const std::string& each : all)
    if (each.starts_with("run.dir=")) folder = each.substr(std::string("run.dir=").size());
  const std::filesystem::path file = std::filesystem::path(folder) / name / "summary.json";
  const auto summary = nlohmann::json::parse(std::ifstream(file), nullptr, false);
  check<IoError>(summary.is_object(), file.string(), ": no summary of the run is there");
  const auto number = [&](const char* key) {
    const auto found = summary.find(key);
    return found != summary.end() && found->is_number() ? found->get<double>() : NAN;
  };
  return {number("top1"), number("wall_s"), number("exchanges_per_gradient"),
          number("consensus_distance")};
}

const Paper& find(const std::string& name) {
  for (const Paper& each : papers())
    if (each.name == name) return each;
  fail<ConfigError>("paper ", name, ": known are: ", listed(papers(), ", ", &Paper::name));
}

int list(bool json) {
  std::vector<JsonObject> rows;
  for (const Paper& each : papers()) {
    rows.push_back(
        JsonObject().add("name", each.name).add("about", each.about).add("trains", each.trains));
    if (!json) fmt::print("{:<16} {}\n", each.name, each.about);
  }
  if (json) fmt::print("{}\n", json_text(rows));
  return 0;
}

}  // namespace

int paper(const PaperCommand& c) {
  if (c.name.empty()) return list(c.json);
  const Paper& paper = find(c.name);
  check<ConfigError>(paper.trains || paper.launches || c.data.empty(), "paper ", c.name,
                     ": --data is of pages that train");
  check<ConfigError>(paper.trains || (c.seeds == 0 && c.images == 0), "paper ", c.name,
                     ": --seeds and --images are of pages that train in this process");
  check<ConfigError>(
      paper.launches || (c.arguments.empty() && !c.workers && c.device.empty()), "paper ", c.name,
      ": --workers, --device and keys are of pages that start runs, such as cifar-accuracy");
  const int workers = c.workers.value_or(PaperOptions().workers);
  check<ConfigError>(c.seeds >= 0 && c.images >= 0, "paper: --seeds ", c.seeds, ", --images ",
                     c.images, "; they can't be negative");
  const auto began = std::chrono::steady_clock::now();
  const PaperPage page = paper.page(
      {c.data, c.seeds, c.images,
       [](const std::string& run) { std::fputs((run + "\n").c_str(), stderr); }, workers,
       [&](const auto& name, const auto& keys) { return run_of(c, workers, name, keys); }});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const std::string json = json_of(paper, page, seconds);
  if (!c.html.empty()) write_file(c.html, html_of(paper, page, seconds));
  if (!c.out.empty()) {
    const std::filesystem::path folder = c.out;
    std::filesystem::create_directories(folder);
    std::vector<std::pair<ChartText, std::vector<Curve>>> charts;
    for (const PaperChart& each : page.charts) charts.emplace_back(each.text, each.curves);
    write_file(folder / (c.name + ".html"), html_of(paper, page, seconds));
    write_file(folder / (c.name + ".svg"), chart_file(charts));
    write_file(folder / (c.name + ".json"), json + "\n");
  }
  fmt::print("{}", c.json ? json + "\n" : text_of(paper, page, seconds));
  return 0;
}

}  // namespace gossamer::apps
