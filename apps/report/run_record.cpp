// See run_record.h.
#include "gossamer/apps/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "gossamer/apps/report/json_values.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// config.toml is written by to_toml(): [section], then `key = value    # meaning`.
std::vector<std::pair<std::string, std::string>> read_config(const std::string& toml) {
  std::vector<std::pair<std::string, std::string>> out;
  std::istringstream in(toml);
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[") && line.ends_with("]"))
      section = line.substr(1, line.size() - 2) + ".";
    else if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
      out.emplace_back(section + line.substr(0, equals),
                       line.substr(equals + 3, line.find("    # ") - equals - 3));
  }
  return out;
}

// Goes through the lines of log.jsonl in order.
class Reader {
 public:
  explicit Reader(RunRecord& run) : run_(run) {}

  void line(const Json& e) {
    const std::string event = text(e, "event");
    const double stamp = number(e, "time");
    if (event.empty() || !std::isfinite(stamp)) return;
    const int rank = whole(e, "rank");
    if (event == "launch") {  // before its leg has begun
      run_.launch = e;
      return;
    }
    if (event == "start" && !e.value("rejoined", false) && started_.contains(rank))
      new_leg(stamp, e);
    if (!std::isfinite(began_)) began_ = stamp;
    // workers share the file, so the lines are almost in the order of their times
    const double time = std::max(0.0, before_ + stamp - began_);
    run_.seconds = std::max(run_.seconds, time);
    if (event == "start") begin_worker(rank, time);
    if (event == "step")
      step(rank, time, e);
    else if (event == "exchange")
      exchange(rank, time, e);
    else if (event == "eval")
      evaluation(rank, time, e);
    else if (event == "consensus" && rank == 0)
      run_.exact_consensus.emplace_back(number(e, "epoch"), number(e, "exact"));
    else if (event == "fault" || event == "joined" || event == "refused" || event == "inject")
      mark(event, rank, time, e);
    else if (event == "interrupted")
      outcome_ = stop_text(e);
    else if (event == "failed")
      outcome_ = "failed: " + text(e, "what");
    else if (event == "summary")
      outcome_ = e.contains("failed") ? "failed: " + text(e, "failed") : "finished";
    last_seen_[rank] = time;
  }

  void end() {
    run_.outcome = outcome_.empty() ? "no end was written: it goes on, or was killed" : outcome_;
    run_.ended = !outcome_.empty();
    run_.finished = outcome_ == "finished";
    for (const auto& [rank, time] : last_seen_)
      if (!run_.alive.contains(rank)) run_.alive[rank].emplace_back(0, run_.seconds);
    for (auto& [rank, spans] : run_.alive)
      if (open_.contains(rank)) spans.back().second = run_.seconds;
    // A worker found dead that wrote later without a new start was alive all the time.
    for (const auto& [rank, time] : last_seen_)
      if (auto& span = run_.alive[rank].back(); span.second < time) span.second = run_.seconds;
  }

 private:
  // --resume: what is repeated is forgotten, with the time that it took.
  void new_leg(double stamp, const Json& e) {
    const double samples = number(e, "samples");
    const auto repeated = [&](const auto& row) { return row.images > samples; };
    bool some = false;
    double kept = 0, kept_epoch = 0;  // where the part ends that the new leg goes on from
    for (auto& [rank, rows] : run_.steps) {
      some = std::erase_if(rows, repeated) > 0 || some;
      if (rows.empty()) continue;
      kept = std::max(kept, rows.back().time);
      kept_epoch = std::max(kept_epoch, rows.back().epoch);
    }
    for (auto* evals : {&run_.evals, &run_.ema_evals}) std::erase_if(*evals, repeated);
    if (some) forget_after(kept, kept_epoch);
    before_ = run_.seconds;
    began_ = stamp;
    started_.clear();
    outcome_.clear();
    for (const int rank : open_) run_.alive[rank].back().second = before_;
    open_.clear();
    waits_.clear();
    last_seen_.clear();
  }

  void forget_after(double time, double epoch) {
    run_.seconds = time;
    const auto later = [&](const auto& row) { return row.time > time; };
    for (auto& [rank, rows] : run_.exchanges) std::erase_if(rows, later);
    std::erase_if(run_.marks, later);
    std::erase_if(run_.exact_consensus, [&](const auto& point) { return point.first > epoch; });
    for (auto& [rank, spans] : run_.alive) {
      std::erase_if(spans, [&](const auto& span) { return span.first > time; });
      for (auto& span : spans) span.second = std::min(span.second, time);
      if (spans.empty()) open_.erase(rank);
    }
    std::erase_if(run_.alive, [](const auto& worker) { return worker.second.empty(); });
  }

  void begin_worker(int rank, double time) {
    started_.insert(rank);
    waits_.erase(rank);  // a new process counts from 0
    if (open_.insert(rank).second) run_.alive[rank].emplace_back(time, time);
  }

  struct Waits {
    double images, time, data, exposed;
  };

  void step(int rank, double time, const Json& e) {
    StepRow row{.images = number(e, "samples"),
                .epoch = number(e, "epoch"),
                .time = time,
                .gradients = number(e, "step"),
                .loss = number(e, "loss"),
                .learning_rate = number(e, "learning_rate"),
                .consensus = number(e, "consensus_distance"),
                .target = number(e, "target"),
                .images_per_s = NAN,
                .data_wait = NAN,
                .exposed = NAN};
    const Waits now{row.images, time, number(e, "data_wait_s"), number(e, "exposed_s")};
    if (const auto found = waits_.find(rank); found != waits_.end()) {
      const Waits& old = found->second;
      if (const double took = time - old.time; took > 0) {
        row.images_per_s = std::max(0.0, now.images - old.images) / took;
        row.data_wait = 100 * (now.data - old.data) / took;
        row.exposed = 100 * (now.exposed - old.exposed) / took;
      }
    }
    waits_[rank] = now;
    run_.steps[rank].push_back(row);
  }

  void exchange(int rank, double time, const Json& e) {
    ExchangeRow row{.time = time,
                    .staleness = number(e, "staleness"),
                    .distance = number(e, "distance"),
                    .count = number(e, "exchanges"),
                    .failed = number(e, "failed"),
                    .with = {}};
    if (const int peer = whole(e, "peer", -1); peer >= 0) {  // a single one
      const bool ok = e.value("ok", true);
      row.count = ok ? 1 : 0;
      row.failed = ok ? 0 : 1;
      if (ok)
        row.with[peer] = 1;
      else
        row.staleness = row.distance = NAN;
    } else if (e.contains("peers") && e["peers"].is_object()) {
      for (const auto& [name, count] : e["peers"].items())
        if (count.is_number()) row.with[std::atoi(name.c_str())] = count.get<double>();
    }
    run_.exchanges[rank].push_back(std::move(row));
  }

  void evaluation(int rank, double time, const Json& e) {
    const bool of_all = text(e, "of") == "averaged model";
    double epoch = number(e, "epoch");
    if (!std::isfinite(epoch) && !run_.steps.empty() && !run_.steps.begin()->second.empty()) {
      const StepRow& last = run_.steps.begin()->second.back();
      epoch = last.images > 0 ? number(e, "samples") * last.epoch / last.images : NAN;
    }
    auto& rows = e.value("ema", false) ? run_.ema_evals : run_.evals;
    rows.push_back({.rank = of_all ? -1 : rank,
                    .images = number(e, "samples"),
                    .epoch = epoch,
                    .time = time,
                    .loss = number(e, "loss"),
                    .top1 = 100 * number(e, "top1"),
                    .top5 = 100 * number(e, "top5"),
                    .perplexity = number(e, "perplexity"),
                    .bits_per_byte = number(e, "bits_per_byte"),
                    .bleu = number(e, "bleu")});
  }

  void mark(const std::string& event, int rank, double time, const Json& e) {
    const int peer = whole(e, "peer", rank);
    const Mark mark{.time = time,
                    .worker = peer < 0 || event == "inject" ? rank : peer,
                    .kind = event,
                    .what = text(e, "what"),
                    .by = {rank}};
    const auto same = std::ranges::find_if(run_.marks, [&](const Mark& old) {
      return old.kind == mark.kind && old.worker == mark.worker && old.what == mark.what &&
             time - old.time < 5;
    });
    if (same != run_.marks.end())
      same->by.push_back(rank);
    else
      run_.marks.push_back(mark);
    if (event == "fault" && peer >= 0 && peer != rank && open_.erase(peer) > 0)
      run_.alive[peer].back().second = time;
    if (event == "joined" && peer >= 0 && peer != rank) reopen(peer, time);
  }

  // Found alive again. If it had been started anew, its `start` line is there already.
  void reopen(int rank, double time) {
    if (open_.insert(rank).second) run_.alive[rank].emplace_back(time, time);
  }

  std::string stop_text(const Json& e) const {
    const int signal = whole(e, "signal");
    const char* name = sigabbrev_np(signal);
    return fmt::format("stopped by {} after {:.0f} {}",
                       name ? "SIG" + std::string(name) : "a signal", number(e, "samples"),
                       run_.unit);
  }

  RunRecord& run_;
  std::string outcome_;
  double began_ = NAN, before_ = 0;
  std::set<int> started_, open_;  // in this leg; alive now
  std::map<int, double> last_seen_;
  std::map<int, Waits> waits_;
};

}  // namespace

std::vector<ScoreColumn> score_columns(const std::string& task) {
  const ScoreColumn perplexity{"perplexity", "perplexity", &EvalRow::perplexity, 1, "{:.2f}"};
  if (task == "language")
    return {perplexity, {"bits_per_byte", "bits per byte", &EvalRow::bits_per_byte, 1, "{:.4f}"}};
  if (task == "translation") return {{"bleu", "BLEU", &EvalRow::bleu, 1, "{:.2f}"}, perplexity};
  return {{"top1", "top-1 %", &EvalRow::top1, 100, "{:.2f}"},
          {"top5", "top-5 %", &EvalRow::top5, 100, "{:.2f}"}};
}

std::vector<EvalRow> workers_evaluations(const std::vector<EvalRow>& evals) {
  std::vector<EvalRow> own;
  for (const EvalRow& e : evals)
    if (e.rank >= 0 && std::isfinite(e.epoch)) own.push_back(e);
  std::ranges::stable_sort(own, {}, &EvalRow::epoch);
  std::vector<std::vector<EvalRow>> rounds;  // each worker at most once
  for (const EvalRow& e : own) {
    if (rounds.empty() || std::ranges::count(rounds.back(), e.rank, &EvalRow::rank) > 0)
      rounds.emplace_back();
    rounds.back().push_back(e);
  }
  std::vector<EvalRow> means;
  for (const std::vector<EvalRow>& rows : rounds) {
    EvalRow mean;
    for (double EvalRow::*value :
         {&EvalRow::images, &EvalRow::epoch, &EvalRow::time, &EvalRow::top1, &EvalRow::top5,
          &EvalRow::loss, &EvalRow::perplexity, &EvalRow::bits_per_byte, &EvalRow::bleu}) {
      for (const EvalRow& row : rows) mean.*value += row.*value;
      mean.*value /= static_cast<double>(rows.size());
    }
    means.push_back(mean);
  }
  return means;
}

RunRecord read_run(const fs::path& folder) {
  const std::vector<fs::path> logs = log_files(folder);
  check<IoError>(!logs.empty(), folder.string(),
                 " holds no log.jsonl; give the folder of a run, as ", "runs/NAME");
  RunRecord run;
  run.name = fs::weakly_canonical(folder).filename().string();
  run.config_text = read_text(folder / "config.toml");
  run.config = read_config(run.config_text);
  for (const auto& [key, value] : run.config)
    if (key == "task" && value.size() > 2) run.task = value.substr(1, value.size() - 2);
  if (run.task != "pictures") run.unit = "tokens";
  run.summary = parse_json<Json>(read_text(folder / "summary.json"));
  if (!run.summary.is_object()) run.summary = nullptr;
  run.classes = parse_class_report(read_text(folder / "classes.json"));
  Reader reader(run);
  for (const fs::path& log : logs) {
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);)
      if (const Json e = parse_json<Json>(line); e.is_object()) reader.line(e);
  }
  reader.end();
  return run;
}

i64 lost_workers(const std::filesystem::path& folder) {
  const auto all = Json::parse(std::ifstream(folder / "summary.json"), nullptr, false);
  if (!all.is_object() || !all.contains("workers_at_end")) return 0;
  return all.value("workers", i64{0}) - all.value("workers_at_end", i64{0});
}

void set_aside(const std::filesystem::path& folder) {
  const std::filesystem::path aside = folder.string() + ".lost";
  std::filesystem::remove_all(aside);
  std::filesystem::rename(folder, aside);
}

std::string lost_workers_text(const std::filesystem::path& folder) {
  return fmt::format(
      "has lost {} of its workers, so it counts for nothing; the same command makes it again. See "
      "{}/log.jsonl. If the machine was busy, a larger dist.dead_after_s helps",
      lost_workers(folder), folder.string());
}

}  // namespace gossamer::apps
