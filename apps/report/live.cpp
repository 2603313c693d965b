// See live.h.
#include "gossamer/apps/report/live.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/report/recent.h"
#include "gossamer/apps/report/report.h"
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
  Family(const char* name, const char* type, const char* help) : name_(name) {
    head_ = fmt::format("# HELP gossamer_{0} {1}\n# TYPE gossamer_{0} {2}\n", name, help, type);
  }
  void add(const std::string& run, double value, const std::string& more = "") {
    if (std::isfinite(value))
      rows_ += fmt::format("gossamer_{}{{run=\"{}\"{}}} {}\n", name_, label_text(run), more, value);
  }
  std::string text() const { return rows_.empty() ? "" : head_ + rows_; }

 private:
  const char* name_;
  std::string head_, rows_;
};

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
  for (Live& each : runs_) {
    std::error_code failed;
    const fs::path log = each.folder / "log.jsonl";
    const auto size = fs::file_size(log, failed);
    if (failed) {
      each.run.reset();
      each.unreadable.clear();
      continue;
    }
    const auto written = fs::last_write_time(log, failed);
    const Clock::time_point now = Clock::now();
    if (each.run && ((size == each.size && written == each.written) || now < each.next)) continue;
    try {
      each.run = read_run(each.folder);
      each.run->name = name_of(each.folder);
      each.unreadable.clear();
    } catch (const Error& e) {
      each.unreadable = e.what();
    }
    each.size = size;
    each.written = written;
    each.next = now + kTimesTheReading * (Clock::now() - now);
  }
}

std::string LiveRuns::body() {
  const std::lock_guard lock(mutex_);
  read_again();
  std::vector<RunRecord> begun;
  for (const Live& each : runs_)
    if (each.run) begun.push_back(*each.run);
  std::string out = begun.size() > 1 ? body_of_comparison(begun) : "";
  for (const Live& each : runs_) {
    const std::string title = html_escape(name_of(each.folder));
    if (runs_.size() > 1) out += "<details id=\"" + title + "\"><summary>" + title + "</summary>";
    if (!each.unreadable.empty())
      out += "<p class=\"lead bad\">" + html_escape(each.unreadable) + "</p>";
    if (!each.run) {
      out += "<p class=\"lead\">" + html_escape(each.folder.string()) +
             " has no log yet: the run has not begun.</p>";
    } else {
      // In steps, so that a page on which nothing else changes stays as it is.
      constexpr double kStep = 30;
      const std::chrono::duration<double> age = fs::file_time_type::clock::now() - each.written;
      if (!each.run->ended && age.count() >= kStep)
        out += fmt::format("<p class=\"lead bad\">Nothing new in its log for {}.</p>",
                           duration_text(kStep * std::floor(age.count() / kStep)));
      out += body_of(*each.run);
    }
    if (runs_.size() > 1) out += "</details>";
  }
  return out;
}

std::string LiveRuns::metrics() {
  const std::lock_guard lock(mutex_);
  read_again();
  Family samples("samples_total", "counter", "Samples that all workers have trained on.");
  Family epoch("epoch", "gauge", "Passes through the data, of all workers together.");
  Family seconds("run_seconds", "counter", "Time of the run without pauses.");
  Family speed("samples_per_second", "gauge", "Of all workers, in the last minute.");
  Family alive("workers_alive", "gauge", "Workers that take part.");
  Family finished("finished", "gauge", "1 if the run has come to its end.");
  Family loss("loss", "gauge", "Training loss of a worker since its line before.");
  Family rate("learning_rate", "gauge", "Of a worker.");
  Family distance("consensus_distance", "gauge", "A worker's estimate.");
  Family exchanges("exchanges_total", "counter", "Exchanges of a worker with a peer.");
  Family failed("exchanges_failed_total", "counter", "Exchanges of a worker that failed.");
  Family faults("events_total", "counter", "Faults, returns and refusals, by kind.");
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
      faults.add(run.name, count, fmt::format(",kind=\"{}\"", label_text(kind)));
    samples.add(run.name, most);
    epoch.add(run.name, epochs);
    seconds.add(run.name, run.seconds);
    speed.add(run.name, now.images_per_s);
    alive.add(run.name, static_cast<double>(now.alive.size()));
    finished.add(run.name, run.finished ? 1 : 0);
  }
  std::string out;
  for (const Family* each : {&samples, &epoch, &seconds, &speed, &alive, &finished, &loss, &rate,
                             &distance, &exchanges, &failed, &faults})
    out += each->text();
  return out;
}

}  // namespace gossamer::apps
