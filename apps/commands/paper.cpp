// `gossamer paper`: lists the pages of apps/paper, or makes one: as text, JSON and pictures.
#include "gossamer/apps/paper/paper.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/paper_runs.h"
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

// What numbers of ours are held against: the heading of its column.
struct Against {
  const char *column, *numbers;
  double Compared::*value;
};
constexpr Against kAgainst[] = {{"published", "published numbers", &Compared::published},
                                {"expected", "numbers that we expect", &Compared::expected}};
// The columns that this page needs.
std::vector<Against> against(const PaperPage& page) {
  std::vector<Against> out;
  for (const Against& each : kAgainst)
    if (std::ranges::any_of(page.rows,
                            [&](const Compared& row) { return std::isfinite(row.*each.value); }))
      out.push_back(each);
  return out;
}

std::string count(const PaperPage& page) {
  std::string out;
  for (const Against& each : against(page)) {
    int judged = 0, hold = 0;
    for (const Compared& row : page.rows) {
      if (!row.judged() || !std::isfinite(row.*each.value)) continue;
      ++judged, hold += row.holds();
    }
    if (judged > 0)
      out += fmt::format("{}{} of {} {} hold", out.empty() ? "" : ", ", hold, judged, each.numbers);
  }
  return out.empty() ? "This page judges no numbers" : out;
}

std::string text_of(const Paper& paper, const PaperPage& page, double seconds) {
  std::string out = fmt::format("{}: {}\n{}\n", paper.name, page.title, page.source);
  for (const std::string& each : page.assumptions) out += "  - " + each + "\n";
  std::size_t wide = 4;
  for (const Compared& row : page.rows) wide = std::max(wide, row.what.size());
  const std::vector<Against> columns = against(page);
  out += fmt::format("\n  {:<{}}", "", wide);
  for (const Against& each : columns) out += fmt::format("  {:>10}", each.column);
  out += fmt::format("  {:>10}   allowed\n", "ours");
  for (const Compared& row : page.rows) {
    out += fmt::format("  {:<{}}", row.what, wide);
    for (const Against& each : columns) out += fmt::format("  {:>10}", figure(row.*each.value));
    out += fmt::format("  {:>10}   {:<18}  {}\n", figure(row.ours), allowed(row), verdict(row));
  }
  out += fmt::format("\n  {}; computed in {:.1f} s\n", count(page), seconds);
  for (const std::string& each : page.notes) out += "  " + each + "\n";
  return out;
}

std::string json_of(const Paper& paper, const PaperPage& page, double seconds) {
  std::vector<JsonObject> rows;
  for (const Compared& row : page.rows) {
    JsonObject each;
    each.add("what", row.what).add("published", row.published).add("expected", row.expected);
    each.add("ours", row.ours);
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
  const std::vector<Against> columns = against(page);
  std::vector<std::string> head{""};
  for (const Against& each : columns) head.emplace_back(each.column);
  head.insert(head.end(), {"ours", "allowed"});
  HtmlTable table(head);
  for (const Compared& row : page.rows) {
    const std::string judged = !row.judged() ? ""
                               : row.holds()
                                   ? allowed(row)
                                   : "<b class=\"bad\">does not hold:</b> " + allowed(row);
    std::vector<std::string> cells{html_escape(row.what)};
    for (const Against& each : columns) cells.push_back(figure(row.*each.value));
    cells.insert(cells.end(), {"<b>" + figure(row.ours) + "</b>", judged});
    table.row(cells);
  }
  body += "<h2>The numbers</h2>" + table.html();
  body += fmt::format("<p>{}; computed in {:.1f} s by <code>gossamer paper {}</code></p>",
                      count(page), seconds, paper.name);
  body += "<h2>Assumptions</h2>" + list_of(page.assumptions);
  if (!page.notes.empty()) body += "<h2>Notes</h2>" + list_of(page.notes);
  return html_page(page.title, body);
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
  check<ConfigError>(paper.trains || (c.data.empty() && c.seeds == 0 && c.images == 0), "paper ",
                     c.name, ": --data, --seeds and --images are of pages that train themselves");
  check<ConfigError>(
      paper.launches || (c.arguments.empty() && !c.workers && c.device.empty()), "paper ", c.name,
      ": --workers, --device and keys are of pages that start runs, such as cifar-accuracy");
  check<ConfigError>(c.seeds >= 0 && c.images >= 0, "paper: --seeds ", c.seeds, ", --images ",
                     c.images, "; they can't be negative");
  const auto began = std::chrono::steady_clock::now();
  PaperOptions options{
      .data = c.data,
      .seeds = c.seeds,
      .images = c.images,
      .trained = [](const std::string& run) { std::fputs((run + "\n").c_str(), stderr); },
      .runs = [&](const std::vector<PlannedRun>& runs) { return make_runs(c, runs); }};
  if (c.workers) options.workers = *c.workers;
  PaperPage page;
  try {
    page = paper.page(options);
  } catch (const Stopped& stopped) {
    return stopped.code;
  }
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
