// See finish.h.
#include "gossamer/apps/train/finish.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gossamer/apps/machine.h"
#include "gossamer/apps/report/exchange_warnings.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/report.h"
#include "gossamer/apps/report/run_totals.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/result_files.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/data/errors.h"
#include "gossamer/dist/finish.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/train/step_inputs.h"

namespace gossamer::apps {
namespace {

const char* const kAdvice =
    "; a smaller optim.learning_rate, a longer optim.warmup_epochs or optim.clip_norm=1 may help";

class Finish {
 public:
  Finish(const Plan& plan, Journal& journal, Trainer& trainer, Checkpoints& checkpoints)
      : plan_(plan),
        journal_(journal),
        trainer_(trainer),
        checkpoints_(checkpoints),
        totals_(plan.place.size, plan.place.rank) {}

  int run() {
    before_ = trainer_.method->stats();
    waited_for_data_ = trainer_.task.data->stats().wait_s;
    const double seen = trainer_.method->samples_seen();
    trainer_.method->finish();
    journal_.ends();
    alive_ = trainer_.method->members();  // from here on workers leave because they are done
    if (alive_.empty()) alive_ = trainer_.group->alive();
    batch_norm_ = estimate_batch_norm();
    counts_ = evaluate_share(true);
    if (trainer_.ema) evaluate_ema();
    record_totals();
    journal_.write_trace(*trainer_.group);
    gather();
    failure_ = what_failed();
    const bool all_written = !leader() || write_as_leader(seen);
    together("waiting for the results", [&] { trainer_.group->collectives().barrier(); });
    if (failure_.empty()) checkpoints_.write_kept();
    check(failure_.empty() || !leader(), "the training has failed: ", failure_, kAdvice);
    return all_written ? 0 : 6;
  }

 private:
  // False if a file is missing in the run's folder.
  bool write_as_leader(double seen) {
    if (const i64 theirs = already_written();
        theirs > 0 && (alone_ || theirs >= static_cast<i64>(alive_.size())))
      Progress(plan_.options.json ? stderr : stdout, false)
          .note(fmt::format("worker {} lost the others, which ended before it: their results, of "
                            "{} worker(s), are kept",
                            trainer_.group->rank(), theirs));
    else
      return write_results(seen);
    return true;
  }

  // The number of workers whose results are already in the folder; 0: none. A worker that lost the
  // others (it was stopped, or cut off) while they ended believes that it leads.
  i64 already_written() const {
    if (!journal_.folder.writes()) return 0;
    const nlohmann::json summary =
        nlohmann::json::parse(std::ifstream(journal_.folder.file("summary.json")), nullptr, false);
    return summary.is_object() ? summary.value("workers_at_end", i64{0}) : 0;
  }
  // the lowest rank that is alive
  bool leader() const { return alive_.front() == trainer_.group->rank(); }

  // Runs one collective step; false if it failed because a worker died. Then this worker does
  // without the others, in this step and in all later ones.
  template <class F>
  bool together(const char* what, F&& step) {
    if (plan_.place.size == 1) return true;
    if (alone_) return false;
    try {
      step();
      return true;
    } catch (const DistError& e) {
      alone_ = true;
      alive_ = trainer_.group->alive();
      journal_.failed_together(what, e);
      return false;
    }
  }

  // Empty: nothing has. The model, its EMA and the loss must be finite numbers.
  std::string what_failed() {
    const auto finite = [](const auto& model) {
      return std::ranges::all_of(std::array{model.values(), model.buffers()},
                                 [](const Tensor& t) { return t.numel() == 0 || all_finite(t); });
    };
    has_model_ = finite(*trainer_.params);
    if (!has_model_) return "the weights are no finite numbers, so no model is written";
    if (trainer_.ema && !finite(*trainer_.ema)) return "the EMA is no finite numbers";
    const bool validated = trainer_.task.data->validates();
    if (!std::isfinite(validated ? counts_.loss : loss_of_a_batch()))
      return std::string("the loss of the ") + (validated ? "validation" : "last model") +
             " is no finite number";
    return "";
  }

  // Of the training data, where no validation says whether the model answers with numbers.
  double loss_of_a_batch() {
    const NoGrad no_grad;
    nn::DrawnBatch drawn;
    while (drawn.batch.empty()) drawn = trainer_.task.data->next(trainer_.at, 1);
    nn::StepInputs inputs(plan_.device);
    const nn::StepInputs::Views in = inputs.put(drawn.batch, drawn.numbers);
    trainer_.net->eval();
    return static_cast<double>(
        trainer_.task.model->loss(*trainer_.net, in.batch, in.numbers).item());
  }

  // A model of the name that others look for is one that has not failed.
  const char* model_file() const {
    return failure_.empty() ? "model.safetensors" : "model-failed.safetensors";
  }

  // The workers' running statistics belong to their own weights, not to the mean, so they are
  // estimated again on training batches.
  std::string estimate_batch_norm() {
    const i64 batches = plan_.options.dry_run ? std::min<i64>(2, plan_.config.train.bn_batches)
                                              : plan_.config.train.bn_batches;
    const bool any = trainer_.params->buffers().numel() > 0;
    if (!any) return trainer_.params->frozen().empty() ? "none" : "frozen";
    if (plan_.place.size == 1) return "own running statistics";
    if (batches == 0) return "running statistics of the workers, merged";  // finish() has done it
    {
      const trace::Scope scope("batch norm estimate");
      apps::estimate_batch_norm(trainer_.task, *trainer_.net, trainer_.at, batches);
    }
    const bool merged = together("merging batch norm", [&] {
      dist::merge_batch_norm(*trainer_.params, trainer_.group->collectives());
    });
    return fmt::format(
        "re-estimated with the averaged weights over {} training batches of {} worker{}", batches,
        merged ? "each" : "one", merged ? "" : " alone");
  }

  // All validation data exactly once over the workers. of_model: not of its EMA, so the files of
  // the end show its details.
  Counts evaluate_share(bool of_model) {
    if (!trainer_.task.data->validates()) return {};
    const trace::Scope scope("evaluate");
    const auto place = std::ranges::find(alive_, trainer_.group->rank());
    TaskMetrics::Share share{.part = static_cast<int>(place - alive_.begin()),
                             .parts = static_cast<int>(alive_.size()),
                             .max_batches = plan_.options.dry_run ? 1 : 0};
    if (alone_) share.part = 0, share.parts = 1;
    nn::Module* const one[] = {trainer_.net.get()};
    Counts counts = trainer_.task.metrics->evaluate(one, share, of_model)[0];
    if (counts.batch < plan_.config.eval.batch)
      warnings_.push_back(
          fmt::format("eval.batch = {} needs more memory than there is; evaluated {} at a time",
                      plan_.config.eval.batch, counts.batch));
    const bool summed = together("summing the evaluation", [&] {
      counts.add_up(
          [&](std::span<double> sums) { trainer_.group->collectives().all_reduce_sum(sums); });
      if (of_model) add_details();
    });
    if (!summed && share.parts > 1 && leader()) {
      // the shares of the others are lost, so this worker evaluates the whole set
      share.part = 0, share.parts = 1;
      counts = trainer_.task.metrics->evaluate(one, share, of_model)[0];
    }
    check<DataError>(counts.items > 0 || !leader(), data::code::damaged_images,
                     "data.val: nothing could be evaluated; of pictures, bad_images.txt lists why");
    return counts;
  }

  void add_details() {
    std::vector<double> table = trainer_.task.metrics->details();
    if (table.empty()) return;
    trainer_.group->collectives().all_reduce_sum(std::span<double>(table));
    trainer_.task.metrics->set_details(table);
  }

  // The mean of the workers' averages, with statistics of its own, as for the model.
  void evaluate_ema() {
    const nn::EmaInPlace model(*trainer_.ema, *trainer_.params);
    together("averaging the EMA", [&] {
      dist::adopt(*trainer_.params, dist::average_of_models(*trainer_.params, *trainer_.group));
    });
    estimate_batch_norm();
    ema_counts_ = evaluate_share(false);
  }

  void record_totals() {
    checkpoints_.wait();
    const dist::MethodStats after = trainer_.method->stats();
    const data::LoaderStats data = trainer_.task.data->stats();
    std::vector<std::string> damaged = trainer_.task.data->damaged();
    std::ranges::move(trainer_.task.metrics->damaged(), std::back_inserter(damaged));
    journal_.folder.add_bad_images(damaged);
    totals_.set(RunTotals::gradients, static_cast<double>(after.gradients));
    totals_.set(RunTotals::skipped_steps, static_cast<double>(trainer_.params->skipped_steps()));
    totals_.set(RunTotals::exchanges, static_cast<double>(after.exchanges));
    totals_.set(RunTotals::failed, static_cast<double>(after.failed));
    totals_.set(RunTotals::refused, static_cast<double>(after.refused));
    totals_.set(RunTotals::exposed_s, before_.exposed_s);
    totals_.set(RunTotals::transfer_s, before_.transfer_s);
    totals_.set(RunTotals::bytes_sent, before_.bytes_sent);
    totals_.set(RunTotals::data_wait_s, waited_for_data_);
    totals_.set(RunTotals::data_idle_s, data.idle_s);
    totals_.set(RunTotals::damaged, static_cast<double>(damaged.size()));
    totals_.set(RunTotals::wall_s, trainer_.wall_s);
    totals_.set(RunTotals::failed_checkpoints, static_cast<double>(checkpoints_.failed()));
    totals_.set(RunTotals::replayed, static_cast<double>(after.replayed));
    totals_.set(RunTotals::peak_bytes, static_cast<double>(memory_stats(plan_.device).peak));
    totals_.set(RunTotals::resident_bytes, static_cast<double>(peak_resident_bytes()));
    totals_.set_edges(after.edges);
    consensus_ = after.consensus_distance;
    left_out_ = after.left_out;
  }

  void gather() {
    if (plan_.place.size > 1)
      together("gathering the workers' numbers",
               [&] { totals_.gather(trainer_.group->collectives()); });
  }

  RunFigures leg_of_all(double samples) const {
    return {.legs = 1,
            .samples = samples,
            .wall_s = trainer_.wall_s,
            .worker_s = totals_.sum(RunTotals::wall_s),
            .gradients = totals_.sum(RunTotals::gradients),
            .skipped_steps = totals_.sum(RunTotals::skipped_steps),
            .exchanges = totals_.sum(RunTotals::exchanges),
            .failed = totals_.sum(RunTotals::failed),
            .refused = totals_.sum(RunTotals::refused),
            .exposed_s = totals_.sum(RunTotals::exposed_s),
            .transfer_s = totals_.sum(RunTotals::transfer_s),
            .bytes_sent = totals_.sum(RunTotals::bytes_sent),
            .data_wait_s = totals_.sum(RunTotals::data_wait_s),
            .failed_checkpoints = totals_.sum(RunTotals::failed_checkpoints)};
  }

  // False if a file is missing in the run's folder.
  bool write_results(double seen) {
    const Config& c = plan_.config;
    // A worker counts its own gradients exactly and estimates those of the others.
    if (!alone_ && !journal_.lost() && !plan_.place.rejoin &&
        static_cast<int>(alive_.size()) == plan_.place.size)
      seen = plan_.start_samples +
             totals_.sum(RunTotals::gradients) * static_cast<double>(c.gradient_samples());
    const double damaged = journal_.folder.writes()
                               ? static_cast<double>(journal_.folder.merge_bad_images())
                               : totals_.sum(RunTotals::damaged);
    const RunFigures leg = leg_of_all(std::max(0.0, seen - plan_.start_samples));
    RunFigures whole = plan_.earlier;
    whole += leg;
    whole.samples = seen;  // workers that were stopped at different steps go on from their mean
    const auto part = [](double a, double b) { return b > 0 ? a / b : 0.0; };
    JsonObject s;  // without data.val, the numbers of the evaluation are null
    for (const auto& [name, value] : trainer_.task.metrics->numbers(score_of(counts_, seen, 0)))
      s.add(name, value);
    if (trainer_.ema)
      for (const auto& [name, value] :
           trainer_.task.metrics->numbers(score_of(ema_counts_, seen, 0, true)))
        s.add("ema_" + name, value);
    if (plan_.config.train.patience > 0) s.add("stopped_early", trainer_.patience.exhausted());
    if (!failure_.empty()) s.add("failed", failure_);
    s.add("val_" + trainer_.task.data->unit(), counts_.items)
        .add("model", c.model.name)
        .add("parameters", trainer_.parameter_count())
        .add("dtype", c.train.dtype);
    s.add("method", c.train.method)
        .add("graph", c.train.graph)
        .add("rate", c.train.rate)
        .add("seed", c.train.seed)
        .add("workers", plan_.place.size);
    s.add("workers_at_end", alive_.size())
        .add("launcher", plan_.place.source)
        .add("batch", c.train.batch)
        .add("accumulate", c.train.accumulate);
    s.add("samples", seen)
        .add("epochs", seen / plan_.epoch)
        .add(trainer_.task.data->unit() + "_per_s", part(whole.samples, whole.wall_s))
        .add("wall_s", whole.wall_s)
        .add("legs", whole.legs);
    s.add("exchanges_per_gradient", part(whole.exchanges, whole.gradients));
    s.add("consensus_distance", consensus_)
        .add("consensus_distance_estimate", before_.consensus_distance);
    s.add("gradients", whole.gradients).add("exchanges", whole.exchanges);
    s.add("exchanges_failed", whole.failed)
        .add("exchanges_refused", whole.refused)
        .add("bytes_sent", whole.bytes_sent);
    if (!c.run.replay.empty()) s.add("replayed_events", totals_.sum(RunTotals::replayed));
    s.add("data_wait_fraction", part(whole.data_wait_s, whole.worker_s))
        .add("exposed_fraction", part(whole.exposed_s, whole.worker_s));
    if (trainer_.params->overflow().defined())
      s.add("loss_scale", trainer_.params->loss_scale()).add("skipped_steps", whole.skipped_steps);
    s.add("damaged_images", damaged)
        .add("batch_norm", batch_norm_)
        .add("peak_bytes_rank0", totals_.at(trainer_.group->rank(), RunTotals::peak_bytes))
        .add("resident_bytes_rank0", totals_.at(trainer_.group->rank(), RunTotals::resident_bytes));
    if (c.train.method == "consensus-control") add_control(s, before_.control);
    const dist::RealisedRates rates = totals_.rates();
    if (plan_.place.size > 1) {
      add_rates(s, rates, trainer_.graph);
      const double asked = dist::method_is_synchronous(c.train.method) ? 0 : c.train.rate,
                   done = leg.exchanges + leg.refused;
      s.add("rate_reached", dist::rate_reached(asked, done, leg.gradients));
      s.add("left_out", left_out_);
      std::ranges::move(exchange_warnings(rates, asked, done, leg.gradients, left_out_),
                        std::back_inserter(warnings_));
    }
    s.add("each_worker", totals_.each_worker());
    if (whole.legs > 1) {
      std::vector<std::string> of_last_leg{"each_worker", "peak_bytes_rank0",
                                           "resident_bytes_rank0", "launch", "warnings"};
      if (plan_.place.size > 1)
        of_last_leg.insert(of_last_leg.end(),
                           {"edges", "edge_asymmetry", "staleness_mean", "staleness_max"});
      if (plan_.place.size > 1 && rates.constants)  // none if some edge had no exchange
        of_last_leg.insert(of_last_leg.end(), {"chi1_hat", "chi2_hat"});
      if (c.train.method == "consensus-control") of_last_leg.push_back("control");
      s.raw("last_leg", leg.json()).add("of_last_leg", of_last_leg);
    }
    if (const std::string launch = last_launch(journal_.folder.file("log.jsonl"));
        journal_.folder.writes() && !launch.empty())
      s.raw("launch", launch);

    ResultFiles files(journal_.folder.path(), plan_.run_id());
    if (journal_.folder.writes()) {
      if (has_model_) files.write(model_file(), [&](const auto& path) { save_model(path); });
      if (const auto model = files.place(model_file());
          !model.empty() && model.parent_path() != journal_.folder.path())
        trainer_.task.model->save_beside(model.parent_path());
      if (trainer_.ema && failure_.empty())
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

  // What was said on the way is said again here, where it is read.
  void add_warnings(JsonObject& s, const ResultFiles& files, double failed) {
    if (const long lost = journal_.folder.lost_lines(); lost > 0)
      warnings_.push_back(fmt::format("{} lines of log.jsonl were not written", lost));
    if (failed > 0)
      warnings_.push_back(fmt::format(
          "{:.0f} times a worker could not write its checkpoint{}", failed,
          checkpoints_.last_failure().empty() ? ""
                                              : "; the last time " + checkpoints_.last_failure()));
    s.add("failed_checkpoints", failed)
        .add("model_file", has_model_ ? files.place(model_file()).string() : "");
    std::vector<std::string> all = warnings_;
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
    log(counts_, false);
    if (trainer_.ema) log(ema_counts_, true);
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
        warnings_.push_back(std::string("the best models: ") + e.what());
      }
    };
    std::optional<BestModels> best;
    trying([&] {
      best.emplace(journal_.folder.path(), plan_.config.run.keep_best, plan_.config.run.best_by,
                   trainer_.task.data->val_hash());
    });
    if (!best) return;
    const auto write = [&](const auto& path, const auto& more) { save_model(path, more); };
    trying([&] { best->offer(score_of(counts_, seen, epoch), write); });
    if (trainer_.ema) {
      const nn::EmaInPlace model(*trainer_.ema, *trainer_.params);
      trying([&] { best->offer(score_of(ema_counts_, seen, epoch, true), write); });
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
                                           per_gradient, consensus_)
                             : ""));
    if (whole.legs > 1 && journal_.folder.writes())
      say.note(fmt::format("         since the run began {:.0f} {} in {}, {:.0f} legs",
                           whole.samples, unit, duration_text(whole.wall_s), whole.legs));
    if (!plan_.config.run.replay.empty())
      say.note(fmt::format("replay   {:.0f} events repeated, digests of {} workers equal",
                           totals_.sum(RunTotals::replayed), alive_.size()));
    const std::string of = alive_.size() == 1 ? std::string("one model")
                                              : fmt::format("average of {} models", alive_.size());
    const bool validated = trainer_.task.data->validates();
    say.note(validated ? fmt::format("result   {} on {:.0f} {}, {}",
                                     trainer_.task.metrics->result(score_of(counts_, 0, 0)),
                                     counts_.items, unit, of)
                       : fmt::format("result   {}, not evaluated (data.val = none)", of));
    if (trainer_.ema && validated)
      say.note(fmt::format("ema      {}, decay {:g}",
                           trainer_.task.metrics->result(score_of(ema_counts_, 0, 0)),
                           plan_.config.train.ema));
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
      for (const std::string& text : warnings_) say.warn(text);
      for (const std::string& text : files.problems()) say.warn(text);
    } else {
      const double budget = run_samples(plan_.config, plan_.place.size, plan_.epoch);
      say.note(fmt::format(
          "dry run  peak memory of a worker: {:.0f} MiB resident, {:.0f} MiB of tensors{}; "
          "the whole run of {:.0f} {} would take about {}; nothing was written",
          totals_.at(trainer_.group->rank(), RunTotals::resident_bytes) / 1048576,
          totals_.at(trainer_.group->rank(), RunTotals::peak_bytes) / 1048576,
          plan_.device.is_cpu() ? " (part of it)" : " on the GPU", budget, unit,
          duration_text(budget / rate)));
    }
  }

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  Checkpoints& checkpoints_;
  RunTotals totals_;
  std::vector<int> alive_;
  dist::MethodStats before_;
  double waited_for_data_ = 0;  // of the training loop, as wall_s
  Counts counts_, ema_counts_;
  std::string batch_norm_, failure_;
  bool has_model_ = true;  // whose weights are finite
  double consensus_ = 0;
  std::vector<std::string> warnings_;
  std::vector<int> left_out_;
  Score best_;
  std::filesystem::path best_file_;  // empty: none is kept
  bool alone_ = false;
};

}  // namespace

int finish_run(const Plan& plan, Journal& journal, Trainer& trainer, Checkpoints& checkpoints) {
  return Finish(plan, journal, trainer, checkpoints).run();
}

}  // namespace gossamer::apps
