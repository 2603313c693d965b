// See results.h.
#include "gossamer/apps/train/results.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include "gossamer/apps/report/exchange_warnings.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/result_files.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/size_text.h"

namespace gossamer::apps {
namespace {

class Results {
 public:
  Results(const Plan& plan, Journal& journal, Trainer& trainer, const Checkpoints& checkpoints,
          Outcome& outcome)
      : plan_(plan), journal_(journal), trainer_(trainer), checkpoints_(checkpoints), o_(outcome) {}

  // False if a file is missing in the run's folder.
  bool write(double seen) {
    const Config& c = plan_.config;
    // A worker counts its own gradients exactly and estimates those of the others.
    if (c.train.global_batch == 0 && !o_.alone && !journal_.changed() && !plan_.place.rejoin &&
        static_cast<int>(o_.alive.size()) == plan_.place.size)
      seen = plan_.start_samples +
             o_.totals.sum(RunTotals::gradients) * static_cast<double>(c.gradient_samples());
    const double damaged = journal_.folder.writes()
                               ? static_cast<double>(journal_.folder.merge_bad_images())
                               : o_.totals.sum(RunTotals::damaged);
    const RunFigures leg = leg_of_all(std::max(0.0, seen - plan_.start_samples));
    RunFigures whole = plan_.earlier;
    whole += leg;
    whole.samples = seen;  // workers that were stopped at different steps go on from their mean
    const auto part = [](double a, double b) { return b > 0 ? a / b : 0.0; };
    JsonObject s;  // without data.val, the numbers of the evaluation are null
    for (const auto& [name, value] : trainer_.task.metrics->numbers(score_of(o_.counts, seen, 0)))
      s.add(name, value);
    if (trainer_.ema)
      for (const auto& [name, value] :
           trainer_.task.metrics->numbers(score_of(o_.ema_counts, seen, 0, true)))
        s.add("ema_" + name, value);
    if (plan_.config.train.patience > 0) s.add("stopped_early", trainer_.patience.exhausted());
    if (!o_.failure.empty()) s.add("failed", o_.failure);
    s.add("val_" + trainer_.task.data->unit(), o_.counts.items)
        .add("model", c.model.name)
        .add("parameters", trainer_.parameter_count())
        .add("dtype", c.train.dtype);
    s.add("method", c.train.method)
        .add("graph", c.train.graph)
        .add("rate", c.train.rate)
        .add("seed", c.train.seed)
        .add("workers", plan_.place.size);
    s.add("workers_at_end", o_.alive.size())
        .add("launcher", plan_.place.source)
        .add("batch", c.train.batch)
        .add("accumulate", c.train.accumulate);
    if (c.train.global_batch > 0)
      s.add("global_batch", c.train.global_batch).add("dealt_again", whole.dealt_again);
    s.add("samples", seen)
        .add("epochs", seen / plan_.epoch)
        .add(trainer_.task.data->unit() + "_per_s", part(whole.samples, whole.wall_s))
        .add("wall_s", whole.wall_s)
        .add("legs", whole.legs);
    s.add("exchanges_per_gradient", part(whole.exchanges, whole.gradients));
    s.add("consensus_distance", o_.consensus)
        .add("consensus_distance_estimate", o_.before.consensus_distance);
    s.add("gradients", whole.gradients).add("exchanges", whole.exchanges);
    s.add("exchanges_failed", whole.failed)
        .add("exchanges_refused", whole.refused)
        .add("bytes_sent", whole.bytes_sent);
    if (!c.run.replay.empty()) s.add("replayed_events", o_.totals.sum(RunTotals::replayed));
    s.add("data_wait_fraction", part(whole.data_wait_s, whole.worker_s))
        .add("exposed_fraction", part(whole.exposed_s, whole.worker_s));
    if (trainer_.params->overflow().defined())
      s.add("loss_scale", trainer_.params->loss_scale()).add("skipped_steps", whole.skipped_steps);
    s.add("damaged_images", damaged)
        .add("batch_norm", o_.batch_norm)
        .add("peak_bytes", most_of_a_worker(RunTotals::peak_bytes))
        .add("resident_bytes", most_of_a_worker(RunTotals::resident_bytes));
    if (plan_.method().controls) add_control(s, o_.before.control);
    const dist::RealisedRates rates = o_.totals.rates();
    if (plan_.several()) {
      add_rates(s, rates, trainer_.graph_of(o_.alive, plan_));
      const double asked = plan_.method().synchronous ? 0 : c.train.rate,
                   done = leg.exchanges + leg.refused;
      s.add("rate_reached", dist::rate_reached(asked, done, leg.gradients));
      s.add("left_out", o_.left_out);
      std::ranges::move(exchange_warnings(rates, asked, done, leg.gradients, o_.left_out),
                        std::back_inserter(o_.warnings));
    }
    s.add("each_worker", o_.totals.each_worker());
    if (whole.legs > 1) {
      std::vector<std::string> of_last_leg{"each_worker", "peak_bytes", "resident_bytes", "launch",
                                           "warnings"};
      if (plan_.several())
        of_last_leg.insert(of_last_leg.end(), {"edges", "edge_asymmetry", "staleness_mean",
                                               "staleness_max", "repeated_partners"});
      if (plan_.several() && rates.constants)  // none if some edge had no exchange
        of_last_leg.insert(of_last_leg.end(), {"chi1_hat", "chi2_hat"});
      if (plan_.method().controls) of_last_leg.push_back("control");
      s.raw("last_leg", leg.json()).add("of_last_leg", of_last_leg);
    }
    if (const std::string launch = last_launch(journal_.folder.path());
        journal_.folder.writes() && !launch.empty())
      s.raw("launch", launch);

    warn_of_guess();
    ResultFiles files(journal_.folder.path(), plan_.run_id());
    if (journal_.folder.writes()) {
      if (o_.has_model) files.write(model_file(), [&](const auto& path) { save_model(path); });
      if (const auto model = files.place(model_file());
          !model.empty() && model.parent_path() != journal_.folder.path())
        trainer_.task.model->save_beside(model.parent_path());
      if (trainer_.ema && o_.failure.empty())
        files.write("model-ema.safetensors", [&](const auto& path) {
          const nn::EmaInPlace model(*trainer_.ema, *trainer_.params);
          save_model(path);
        });
      find_best(s, seen);
      add_warnings(s, files, whole.failed_checkpoints);
      if (trainer_.task.data->validates()) log_evaluation(seen);
      journal_.board.flush();
      journal_.folder.log("summary", s);
      files.write("summary.json", [&](const auto& path) { write_file(path, s.str() + "\n"); });
      // What can be made again from the rest.
      try {
        if (journal_.traces()) merge_traces(journal_.folder.path());
        if (trainer_.task.data->validates())
          if (const std::string classes = trainer_.task.metrics->classes_json(); !classes.empty())
            write_file(journal_.folder.file("classes.json"), classes);
        if (c.run.report) write_report(read_run(journal_.folder.path()), journal_.folder.path());
      } catch (const IoError& e) {
        journal_.warn(e.what());
      }
    }
    print_results(leg, whole, damaged, files);
    if (plan_.options.json) {
      std::fputs((s.str() + "\n").c_str(), stdout);
      std::fflush(stdout);
    }
    return files.problems().empty();
  }

 private:
  RunFigures leg_of_all(double samples) const {
    return {.legs = 1,
            .samples = samples,
            .dealt_again = trainer_.dealt_again,
            .wall_s = trainer_.wall_s,
            .worker_s = o_.totals.sum(RunTotals::wall_s),
            .gradients = o_.totals.sum(RunTotals::gradients),
            .skipped_steps = o_.totals.sum(RunTotals::skipped_steps),
            .exchanges = o_.totals.sum(RunTotals::exchanges),
            .failed = o_.totals.sum(RunTotals::failed),
            .refused = o_.totals.sum(RunTotals::refused),
            .exposed_s = o_.totals.sum(RunTotals::exposed_s),
            .transfer_s = o_.totals.sum(RunTotals::transfer_s),
            .bytes_sent = o_.totals.sum(RunTotals::bytes_sent),
            .data_wait_s = o_.totals.sum(RunTotals::data_wait_s),
            .failed_checkpoints = o_.totals.sum(RunTotals::failed_checkpoints)};
  }

  // A model of the name that others look for is one that has not failed.
  const char* model_file() const {
    return o_.failure.empty() ? "model.safetensors" : "model-failed.safetensors";
  }

  // What was said on the way is said again here, where it is read.
  // Worse than a model that knows nothing, in loss and in top-1. (Early in training, a run that is
  // fine may be a little above its loss.)
  void warn_of_guess() {
    const auto outputs = static_cast<double>(trainer_.task.data->output_count());
    const Score score = score_of(o_.counts, 0, 0);
    if (o_.counts.items > 0 && score.loss > 2 * std::log(outputs) && score.top1 * outputs < 2)
      o_.warnings.push_back(
          fmt::format("the loss, {:.4g}, is more than twice that of a guess, {:.3g}: the model has "
                      "learned nothing that holds{}",
                      score.loss, std::log(outputs), kAdvice));
  }

  void add_warnings(JsonObject& s, const ResultFiles& files, double failed) {
    if (plan_.place.open) o_.warnings.push_back(kOpenText);
    if (plan_.several() && !plan_.encrypted() && !plan_.place.local)
      o_.warnings.push_back(kClearText);
    if (const long lost = journal_.folder.lost_lines(); lost > 0)
      o_.warnings.push_back(fmt::format("{} lines of log.jsonl were not written", lost));
    if (failed > 0)
      o_.warnings.push_back(fmt::format(
          "{:.0f} times a worker could not write its checkpoint{}", failed,
          checkpoints_.last_failure().empty() ? ""
                                              : "; the last time " + checkpoints_.last_failure()));
    s.add("failed_checkpoints", failed)
        .add("model_file", o_.has_model ? files.place(model_file()).string() : "");
    std::vector<std::string> all = o_.warnings;
    all.insert(all.end(), files.problems().begin(), files.problems().end());
    s.add("warnings", all);
  }

  void log_evaluation(double seen) {
    std::vector<std::pair<std::string, double>> scalars;
    const auto log = [&](const Counts& counts, bool ema) {
      const Score score = score_of(counts, seen, 0, ema);
      JsonObject line;
      line.add("of", "averaged model");
      if (ema) line.add("ema", true);
      line.add("samples", seen).add(trainer_.task.data->unit(), score.items);
      const TaskMetrics::Numbers numbers = trainer_.task.metrics->numbers(score);
      for (const auto& [name, value] : numbers) line.add(name, value);
      journal_.folder.log("eval", line);
      std::ranges::copy(board_numbers(numbers, ema), std::back_inserter(scalars));
    };
    log(o_.counts, false);
    if (trainer_.ema) log(o_.ema_counts, true);
    journal_.board.scalars(plan_.board_step(seen), scalars);
  }

  // Saves the f32 master values, whatever type the layers computed in.
  void save_model(const std::filesystem::path& path,
                  const std::map<std::string, std::string>& more = {}) {
    trainer_.task.model->save(path, *trainer_.net, *trainer_.params, more);
  }

  // The best of the run: the model of its end, or one that was evaluated before.
  void find_best(JsonObject& s, double seen) {
    if (!trainer_.task.data->validates() || !keeps_best(plan_.config, plan_.place.size)) return;
    const double epoch = seen / plan_.epoch;
    const auto trying = [&](const auto& step) {
      try {
        step();
      } catch (const IoError& e) {
        o_.warnings.push_back(std::string("the best models: ") + e.what());
      }
    };
    std::optional<BestModels> best;
    trying([&] {
      best.emplace(journal_.folder.path(), plan_.config.run.keep_best, plan_.config.run.best_by,
                   trainer_.task.data->val_hash());
    });
    if (!best) return;
    const auto write = [&](const auto& path, const auto& more) { save_model(path, more); };
    trying([&] { best->offer(score_of(o_.counts, seen, epoch), write); });
    if (trainer_.ema) {
      const nn::EmaInPlace model(*trainer_.ema, *trainer_.params);
      trying([&] { best->offer(score_of(o_.ema_counts, seen, epoch, true), write); });
    }
    if (best->all().empty()) return;
    best_ = best->all()[0].score;
    best_file_ = best->best_file();
    JsonObject found;
    found.add("file", best_file_.string()).add("of", best_.ema ? "ema" : "model");
    for (const auto& [name, value] : trainer_.task.metrics->numbers(best_)) found.add(name, value);
    found.add(trainer_.task.data->unit(), best_.items)
        .add("samples", best_.samples)
        .add("epoch", best_.epoch);
    s.raw("best", found.str());
  }

  double most_of_a_worker(RunTotals::Field field) const {
    double most = 0;
    for (int r = 0; r < plan_.place.all_places(); ++r)
      most = std::max(most, o_.totals.at(r, field));
    return most;
  }
  std::string memory_text() const {
    const auto most = [&](RunTotals::Field field) {
      return size_text(static_cast<std::size_t>(most_of_a_worker(field)));
    };
    const std::string resident = most(RunTotals::resident_bytes),
                      tensors = most(RunTotals::peak_bytes);
    return plan_.device.is_cpu()
               ? fmt::format("at most {} for a worker, {} of it tensors", resident, tensors)
               : fmt::format("at most {} on the GPU for a worker, and {} of main memory", tensors,
                             resident);
  }

  void print_results(const RunFigures& leg, const RunFigures& whole, double damaged,
                     const ResultFiles& files) {
    // Rank 0 may be gone, so the worker that writes the files also prints.
    Progress say(plan_.options.json ? stderr : stdout, false);
    const std::string unit = trainer_.task.data->unit();
    const double per_gradient = leg.gradients > 0 ? leg.exchanges / leg.gradients : 0.0,
                 rate = leg.samples / std::max(1e-9, leg.wall_s);
    say.note(fmt::format("done     {:.0f} {} in {} ({:.0f} {}/s){}", leg.samples, unit,
                         duration_text(leg.wall_s), rate, unit,
                         plan_.exchanges()
                             ? fmt::format(", {:.3g} exchanges per gradient, consensus "
                                           "distance {:.3g}",
                                           per_gradient, o_.consensus)
                             : ""));
    if (whole.legs > 1 && journal_.folder.writes())
      say.note(fmt::format("         since the run began {:.0f} {} in {}, {:.0f} legs",
                           whole.samples, unit, duration_text(whole.wall_s), whole.legs));
    if (!plan_.config.run.replay.empty())
      say.note(fmt::format("replay   {:.0f} events repeated, digests of {} workers equal",
                           o_.totals.sum(RunTotals::replayed), o_.alive.size()));
    const std::string of = o_.alive.size() == 1
                               ? std::string("one model")
                               : fmt::format("average of {} models", o_.alive.size());
    const bool validated = trainer_.task.data->validates();
    say.note(validated ? fmt::format("result   {} on {:.0f} {}, {}",
                                     trainer_.task.metrics->result(score_of(o_.counts, 0, 0)),
                                     o_.counts.items, unit, of)
                       : fmt::format("result   {}, not evaluated (data.val = none)", of));
    if (trainer_.ema && validated)
      say.note(fmt::format("ema      {}, decay {:g}",
                           trainer_.task.metrics->result(score_of(o_.ema_counts, 0, 0)),
                           plan_.config.train.ema));
    say.note("memory   " + memory_text());
    if (damaged > 0) {
      const std::string list =
          journal_.folder.writes() ? ": " + journal_.folder.file("bad_images.txt").string() : "";
      say.note(fmt::format(
          "         {:.0f} images were damaged (replaced in training, left out in validation){}",
          damaged, list));
    }
    if (journal_.folder.writes()) {
      std::string list;
      for (const char* name :
           {model_file(), "model-ema.safetensors", "summary.json", "report.html"})
        if (const auto path =
                name == std::string("report.html") ? journal_.folder.file(name) : files.place(name);
            std::filesystem::exists(path))
          list += (list.empty() ? "" : ", ") + path.string();
      say.note("files    " + list);
      if (!best_file_.empty())
        say.note(fmt::format("best     {} at epoch {:.2f}{}: {}",
                             trainer_.task.metrics->sentence(best_), best_.epoch,
                             best_.ema ? " (EMA)" : "", best_file_.string()));
      for (const std::string& text : o_.warnings) say.warn(text);
      for (const std::string& text : files.problems()) say.warn(text);
    } else {
      const double budget = run_samples(plan_.config, plan_.place.size, plan_.epoch);
      say.note(fmt::format(
          "dry run  the whole run of {:.0f} {} would take about {}; nothing was written", budget,
          unit, duration_text(budget / rate)));
    }
  }

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  const Checkpoints& checkpoints_;
  Outcome& o_;
  Score best_;
  std::filesystem::path best_file_;  // empty: none is kept
};

}  // namespace

bool write_results(const Plan& plan, Journal& journal, Trainer& trainer,
                   const Checkpoints& checkpoints, Outcome& outcome, double seen) {
  return Results(plan, journal, trainer, checkpoints, outcome).write(seen);
}

}  // namespace gossamer::apps
