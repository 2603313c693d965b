// See live.h.
#include "gossamer/apps/report/live.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/recent.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

std::string name_of(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

std::string label_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// One family of metrics: its help, its type, its values.
class Family {
 public:
  Family(const std::string& name, const char* type, const char* help)
      : name_("gossamer_" + name),
        head_(fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type)) {}
  void add(const std::string& run, double value, const std::string& more = "") {
    if (std::isfinite(value))
      rows_ += fmt::format("{}{{run=\"{}\"{}}} {}\n", name_, label_text(run), more, value);
  }
  std::string text() const { return rows_.empty() ? "" : head_ + rows_; }

 private:
  std::string name_, head_, rows_;
};

// A sentence where nothing has come for long. In steps, so that a page on which nothing else
// changes stays as it is.
std::string silence(fs::file_time_type written) {
  constexpr double kStep = 30;
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
  if (age.count() < kStep) return "";
  return fmt::format("<p class=\"lead bad\">Nothing new in its log for {}.</p>",
                     duration_text(kStep * std::floor(age.count() / kStep)));
}

std::string worker_label(int rank) { return fmt::format(",worker=\"{}\"", rank); }

}  // namespace

LiveRuns::LiveRuns(const std::vector<fs::path>& folders) {
  for (const fs::path& each : folders) runs_.push_back({.folder = each});
}

std::string LiveRuns::names() const {
  std::vector<std::string> all;
  for (const Live& each : runs_) all.push_back(name_of(each.folder));
  return fmt::format("{}", fmt::join(all, ", "));
}

void LiveRuns::read_again() {
  constexpr int kTimesTheReading = 20;
  bool changed = false;
  for (Live& each : runs_) {
    std::error_code failed;
    const fs::path log = each.folder / "log.jsonl";
    std::uintmax_t size = 0;
    for (const fs::path& part : log_files(each.folder)) size += fs::file_size(part, failed);
    if (failed || size == 0) {
      changed = changed || each.run;
      each = {.folder = each.folder};
      continue;
    }
    const auto written = fs::last_write_time(log, failed);
    const Clock::time_point began = Clock::now();
    if (each.run && ((size == each.size && written == each.written) || began < each.next)) continue;
    try {
      each.run = read_run(each.folder);
      each.run->name = name_of(each.folder);
      each.body = body_of(*each.run);
      each.unreadable.clear();
    } catch (const Error& e) {
      each.unreadable = e.what();
    }
    changed = true;
    each.size = size;
    each.written = written;
    each.next = Clock::now() + kTimesTheReading * (Clock::now() - began);
  }
  if (!changed || runs_.size() < 2) return;
  std::vector<RunRecord> begun;
  for (const Live& each : runs_)
    if (each.run) begun.push_back(*each.run);
  comparison_ = begun.size() > 1 ? body_of_comparison(begun) : "";
}

std::string LiveRuns::body() {
  const std::lock_guard lock(mutex_);
  read_again();
  std::string out = comparison_;
  for (const Live& each : runs_) {
    const std::string title = html_escape(name_of(each.folder));
    if (runs_.size() > 1) out += "<details><summary>" + title + "</summary>";
    if (!each.unreadable.empty())
      out += "<p class=\"lead bad\">" + html_escape(each.unreadable) + "</p>";
    if (!each.run)
      out += "<p class=\"lead\">" + html_escape(each.folder.string()) +
             " has no log yet: the run has not begun.</p>";
    else if (!each.run->ended)
      out += silence(each.written);
    out += each.body;
    if (runs_.size() > 1) out += "</details>";
  }
  return out;
}

std::string LiveRuns::metrics() {
  const std::lock_guard lock(mutex_);
  read_again();
  std::deque<Family> families;
  const auto family = [&](const char* name, const char* type, const char* help) -> Family& {
    return families.emplace_back(name, type, help);
  };
  Family &samples = family("samples_total", "counter", "Samples that all workers trained on."),
         &epoch = family("epoch", "gauge", "Passes through the data, of all workers together."),
         &seconds = family("run_seconds", "counter", "Time of the run without pauses."),
         &speed = family("samples_per_second", "gauge", "Of all workers, in the last minute."),
         &alive = family("workers_alive", "gauge", "Workers that take part."),
         &finished = family("finished", "gauge", "1 if the run has come to its end."),
         &loss = family("loss", "gauge", "Training loss of a worker since its line before."),
         &rate = family("learning_rate", "gauge", "Of a worker."),
         &distance = family("consensus_distance", "gauge", "A worker's estimate."),
         &exchanges = family("exchanges_total", "counter", "Exchanges of a worker with a peer."),
         &failed = family("exchanges_failed_total", "counter", "Failed exchanges of a worker."),
         &events = family("events_total", "counter", "Faults, returns and refusals, by kind.");
  for (const Live& each : runs_) {
    if (!each.run) continue;
    const RunRecord& run = *each.run;
    const Recent now = recent(run);
    double most = 0, epochs = 0;
    for (const auto& [rank, rows] : run.steps) {
      if (rows.empty()) continue;
      const StepRow& last = rows.back();
      most = std::max(most, last.images);
      epochs = std::max(epochs, last.epoch);
      loss.add(run.name, last.loss, worker_label(rank));
      rate.add(run.name, last.learning_rate, worker_label(rank));
      distance.add(run.name, last.consensus, worker_label(rank));
    }
    for (const auto& [rank, rows] : run.exchanges) {
      std::map<int, double> with;
      double lost = 0;
      for (const ExchangeRow& row : rows) {
        lost += std::isfinite(row.failed) ? row.failed : 0;
        for (const auto& [peer, count] : row.with) with[peer] += count;
      }
      for (const auto& [peer, count] : with)
        exchanges.add(run.name, count, worker_label(rank) + fmt::format(",peer=\"{}\"", peer));
      failed.add(run.name, lost, worker_label(rank));
    }
    std::map<std::string, int> kinds;
    for (const Mark& mark : run.marks) ++kinds[mark.kind];
    for (const auto& [kind, count] : kinds)
      events.add(run.name, count, fmt::format(",kind=\"{}\"", label_text(kind)));
    samples.add(run.name, most);
    epoch.add(run.name, epochs);
    seconds.add(run.name, run.seconds);
    speed.add(run.name, now.images_per_s);
    alive.add(run.name, static_cast<double>(now.alive.size()));
    finished.add(run.name, run.finished ? 1 : 0);
  }
  std::string out;
  for (const Family& each : families) out += each.text();
  return out;
}

}  // namespace gossamer::apps
