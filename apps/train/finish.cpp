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
#include "gossamer/apps/train/batch_norm.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/result_files.h"
#include "gossamer/apps/train/step_inputs.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/safetensors.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/data/errors.h"
#include "gossamer/dist/finish.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

const char* const kAdvice =
    "; a smaller optim.learning_rate, a longer optim.warmup_epochs or optim.clip_norm=1 may help";

class Finish {
 public:
  explicit Finish(Worker& w) : w_(w), totals_(w.place.size, w.place.rank) {}

  int run() {
    before_ = w_.method->stats();
    waited_for_data_ = w_.task->stats().wait_s;
    const double seen = w_.method->samples_seen();
    w_.method->finish();
    w_.finished = true;
    alive_ = w_.method->members();  // from here on workers leave because they are done
    if (alive_.empty()) alive_ = w_.group->alive();
    batch_norm_ = estimate_batch_norm();
    counts_ = evaluate_share(true);
    if (w_.ema) evaluate_ema();
    record_totals();
    w_.write_trace();
    gather();
    failure_ = what_failed();
    const bool all_written = !leader() || write_as_leader(seen);
    together("waiting for the results", [&] { w_.group->collectives().barrier(); });
    if (failure_.empty()) w_.checkpoints.write_kept();
    check(failure_.empty() || !leader(), "the training has failed: ", failure_, kAdvice);
    return all_written ? 0 : 6;
  }

 private:
  // False if a file is missing in the run's folder.
  bool write_as_leader(double seen) {
    if (const i64 theirs = already_written();
        theirs > 0 && (alone_ || theirs >= static_cast<i64>(alive_.size())))
      Progress(w_.options.json ? stderr : stdout, false)
          .note(fmt::format("worker {} lost the others, which ended before it: their results, of "
                            "{} worker(s), are kept",
                            w_.group->rank(), theirs));
    else
      return write_results(seen);
    return true;
  }

  // The number of workers whose results are already in the folder; 0: none. A worker that lost the
  // others (it was stopped, or cut off) while they ended believes that it leads.
  i64 already_written() const {
    if (!w_.folder.writes()) return 0;
    const nlohmann::json summary =
        nlohmann::json::parse(std::ifstream(w_.folder.file("summary.json")), nullptr, false);
    return summary.is_object() ? summary.value("workers_at_end", i64{0}) : 0;
  }
  // the lowest rank that is alive
  bool leader() const { return alive_.front() == w_.group->rank(); }

  // Runs one collective step; false if it failed because a worker died. Then this worker does
  // without the others, in this step and in all later ones.
  template <class F>
  bool together(const char* what, F&& step) {
    if (w_.place.size == 1) return true;
    if (alone_) return false;
    try {
      step();
      return true;
    } catch (const DistError& e) {
      alone_ = true;
      alive_ = w_.group->alive();
      w_.folder.log("fault",
                    JsonObject().add("what", std::string(what) + ": " + e.what()).add("peer", -1));
      return false;
    }
  }

  // Empty: nothing has. The model, its EMA and the loss must be finite numbers.
  std::string what_failed() {
    const auto finite = [](const auto& model) {
      return std::ranges::all_of(std::array{model.values(), model.buffers()},
                                 [](const Tensor& t) { return t.numel() == 0 || all_finite(t); });
    };
    has_model_ = finite(*w_.params);
    if (!has_model_) return "the weights are no finite numbers, so no model is written";
    if (w_.ema && !finite(*w_.ema)) return "the EMA is no finite numbers";
    const bool validated = w_.task->validates();
    if (!std::isfinite(validated ? counts_.loss : loss_of_a_batch()))
      return std::string("the loss of the ") + (validated ? "validation" : "last model") +
             " is no finite number";
    return "";
  }

  // Of the training data, where no validation says whether the model answers with numbers.
  double loss_of_a_batch() {
    const NoGrad no_grad;
    DrawnBatch drawn;
    while (drawn.batch.empty()) drawn = w_.task->next(w_.at, 1);
    StepInputs inputs(w_.device);
    const StepInputs::Views in = inputs.put(drawn.batch, drawn.numbers);
    w_.net->eval();
    return static_cast<double>(w_.task->loss(*w_.net, in.batch, in.numbers).item());
  }

  // A model of the name that others look for is one that has not failed.
  const char* model_file() const {
    return failure_.empty() ? "model.safetensors" : "model-failed.safetensors";
  }

  // The workers' running statistics belong to their own weights, not to the mean, so they are
  // estimated again on training batches.
  std::string estimate_batch_norm() {
    const i64 batches = w_.options.dry_run ? std::min<i64>(2, w_.config.train.bn_batches)
                                           : w_.config.train.bn_batches;
    const bool any = w_.params->buffers().numel() > 0;
    if (!any) return w_.params->frozen().empty() ? "none" : "frozen";
    if (w_.place.size == 1) return "own running statistics";
    if (batches == 0) return "running statistics of the workers, merged";  // finish() has done it
    {
      const trace::Scope scope("batch norm estimate");
      apps::estimate_batch_norm(*w_.task, *w_.net, w_.at, batches);
    }
    const bool merged = together(
        "merging batch norm", [&] { dist::merge_batch_norm(*w_.params, w_.group->collectives()); });
    return fmt::format(
        "re-estimated with the averaged weights over {} training batches of {} worker{}", batches,
        merged ? "each" : "one", merged ? "" : " alone");
  }

  // All validation data exactly once over the workers. of_model: not of its EMA, so the files of
  // the end show its details.
  Counts evaluate_share(bool of_model) {
    if (!w_.task->validates()) return {};
    const trace::Scope scope("evaluate");
    const auto place = std::ranges::find(alive_, w_.group->rank());
    Task::Share share{.part = static_cast<int>(place - alive_.begin()),
                      .parts = static_cast<int>(alive_.size()),
                      .max_batches = w_.options.dry_run ? 1 : 0};
    if (alone_) share.part = 0, share.parts = 1;
    nn::Module* const one[] = {w_.net.get()};
    Counts counts = w_.task->evaluate(one, share, of_model)[0];
    if (counts.batch < w_.config.eval.batch)
      warnings_.push_back(
          fmt::format("eval.batch = {} needs more memory than there is; evaluated {} at a time",
                      w_.config.eval.batch, counts.batch));
    const bool summed = together("summing the evaluation", [&] {
      counts.add_up([&](std::span<double> sums) { w_.group->collectives().all_reduce_sum(sums); });
      if (of_model) add_details();
    });
    if (!summed && share.parts > 1 && leader()) {
      // the shares of the others are lost, so this worker evaluates the whole set
      share.part = 0, share.parts = 1;
      counts = w_.task->evaluate(one, share, of_model)[0];
    }
    check<DataError>(counts.items > 0 || !leader(), data::code::damaged_images,
                     "data.val: nothing could be evaluated; of pictures, bad_images.txt lists why");
    return counts;
  }

  void add_details() {
    std::vector<double> table = w_.task->details();
    if (table.empty()) return;
    w_.group->collectives().all_reduce_sum(std::span<double>(table));
    w_.task->set_details(table);
  }

  // The mean of the workers' averages, with statistics of its own, as for the model.
  void evaluate_ema() {
    const EmaInPlace model(*w_.ema, *w_.params);
    together("averaging the EMA",
             [&] { dist::adopt(*w_.params, dist::average_of_models(*w_.params, *w_.group)); });
    estimate_batch_norm();
    ema_counts_ = evaluate_share(false);
  }

  void record_totals() {
    w_.checkpoints.wait();
    const dist::MethodStats after = w_.method->stats();
    const data::LoaderStats data = w_.task->stats();
    const std::vector<std::string> damaged = w_.task->damaged();
    w_.folder.add_bad_images(damaged);
    totals_.set(RunTotals::gradients, static_cast<double>(after.gradients));
    totals_.set(RunTotals::skipped_steps, static_cast<double>(w_.params->skipped_steps()));
    totals_.set(RunTotals::exchanges, static_cast<double>(after.exchanges));
    totals_.set(RunTotals::failed, static_cast<double>(after.failed));
    totals_.set(RunTotals::refused, static_cast<double>(after.refused));
    totals_.set(RunTotals::exposed_s, before_.exposed_s);
    totals_.set(RunTotals::transfer_s, before_.transfer_s);
    totals_.set(RunTotals::bytes_sent, before_.bytes_sent);
    totals_.set(RunTotals::data_wait_s, waited_for_data_);
    totals_.set(RunTotals::data_idle_s, data.idle_s);
    totals_.set(RunTotals::damaged, static_cast<double>(damaged.size()));
    totals_.set(RunTotals::wall_s, w_.wall_s);
    totals_.set(RunTotals::failed_checkpoints, static_cast<double>(w_.checkpoints.failed()));
    totals_.set(RunTotals::replayed, static_cast<double>(after.replayed));
    totals_.set(RunTotals::peak_bytes, static_cast<double>(memory_stats(w_.device).peak));
    totals_.set(RunTotals::resident_bytes, static_cast<double>(peak_resident_bytes()));
    totals_.set_edges(after.edges);
    consensus_ = after.consensus_distance;
    left_out_ = after.left_out;
  }

  void gather() {
    if (w_.place.size > 1)
      together("gathering the workers' numbers", [&] { totals_.gather(w_.group->collectives()); });
  }

  RunFigures leg_of_all(double samples) const {
    return {.legs = 1,
            .samples = samples,
            .wall_s = w_.wall_s,
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

  // Worse than a model that knows nothing, in loss and in top-1. (Early in training, a run that is
  // fine may be a little above its loss.)
  void warn_of_guess() {
    const auto outputs = static_cast<double>(w_.task->output_count());
    const Score score = score_of(counts_, 0, 0);
    if (counts_.items > 0 && score.loss > 2 * std::log(outputs) && score.top1 * outputs < 2)
      warnings_.push_back(
          fmt::format("the loss, {:.4g}, is more than twice that of a guess, {:.3g}: the model has "
                      "learned nothing that holds{}",
                      score.loss, std::log(outputs), kAdvice));
  }

  // False if a file is missing in the run's folder.
  bool write_results(double seen) {
    const Config& c = w_.config;
    // A worker counts its own gradients exactly and estimates those of the others.
    if (!alone_ && !w_.lost && !w_.place.rejoin && static_cast<int>(alive_.size()) == w_.place.size)
      seen = w_.start_samples +
             totals_.sum(RunTotals::gradients) * static_cast<double>(c.gradient_samples());
    const double damaged = w_.folder.writes() ? static_cast<double>(w_.folder.merge_bad_images())
                                              : totals_.sum(RunTotals::damaged);
    const RunFigures leg = leg_of_all(std::max(0.0, seen - w_.start_samples));
    RunFigures whole = w_.earlier;
    whole += leg;
    whole.samples = seen;  // workers that were stopped at different steps go on from their mean
    const auto part = [](double a, double b) { return b > 0 ? a / b : 0.0; };
    JsonObject s;  // without data.val, the numbers of the evaluation are null
    for (const auto& [name, value] : w_.task->numbers(score_of(counts_, seen, 0)))
      s.add(name, value);
    if (w_.ema)
      for (const auto& [name, value] : w_.task->numbers(score_of(ema_counts_, seen, 0, true)))
        s.add("ema_" + name, value);
    if (w_.config.train.patience > 0) s.add("stopped_early", w_.patience.exhausted());
    if (!failure_.empty()) s.add("failed", failure_);
    s.add("val_" + w_.task->unit(), counts_.items)
        .add("model", c.model.name)
        .add("parameters", w_.parameter_count())
        .add("dtype", c.train.dtype);
    s.add("method", c.train.method)
        .add("graph", c.train.graph)
        .add("rate", c.train.rate)
        .add("seed", c.train.seed)
        .add("workers", w_.place.size);
    s.add("workers_at_end", alive_.size())
        .add("launcher", w_.place.source)
        .add("batch", c.train.batch)
        .add("accumulate", c.train.accumulate);
    s.add("samples", seen)
        .add("epochs", seen / w_.task->epoch())
        .add(w_.task->unit() + "_per_s", part(whole.samples, whole.wall_s))
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
    if (w_.params->overflow().defined())
      s.add("loss_scale", w_.params->loss_scale()).add("skipped_steps", whole.skipped_steps);
    s.add("damaged_images", damaged)
        .add("batch_norm", batch_norm_)
        .add("peak_bytes_rank0", totals_.at(w_.group->rank(), RunTotals::peak_bytes))
        .add("resident_bytes_rank0", totals_.at(w_.group->rank(), RunTotals::resident_bytes));
    if (c.train.method == "consensus-control") add_control(s, before_.control);
    const dist::RealisedRates rates = totals_.rates();
    if (w_.place.size > 1) {
      add_rates(s, rates, w_.graph);
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
      if (w_.place.size > 1)
        of_last_leg.insert(of_last_leg.end(),
                           {"edges", "edge_asymmetry", "staleness_mean", "staleness_max"});
      if (w_.place.size > 1 && rates.constants)  // none if some edge had no exchange
        of_last_leg.insert(of_last_leg.end(), {"chi1_hat", "chi2_hat"});
      if (c.train.method == "consensus-control") of_last_leg.push_back("control");
      s.raw("last_leg", leg.json()).add("of_last_leg", of_last_leg);
    }
    if (const std::string launch = last_launch(w_.folder.file("log.jsonl"));
        w_.folder.writes() && !launch.empty())
      s.raw("launch", launch);

    warn_of_guess();
    ResultFiles files(w_.folder.path(), w_.run_id());
    if (w_.folder.writes()) {
      if (has_model_) files.write(model_file(), [&](const auto& path) { save_model(path); });
      if (const auto model = files.place(model_file());
          !model.empty() && model.parent_path() != w_.folder.path())
        w_.task->save_beside_model(model.parent_path());
      if (w_.ema && failure_.empty())
        files.write("model-ema.safetensors", [&](const auto& path) {
          const EmaInPlace model(*w_.ema, *w_.params);
          save_model(path);
        });
      find_best(s, seen);
      add_warnings(s, files, whole.failed_checkpoints);
      if (w_.task->validates()) log_evaluation(seen);
      w_.board.flush();
      w_.folder.log("summary", s);
      files.write("summary.json", [&](const auto& path) { write_file(path, s.str() + "\n"); });
      // What can be made again from the rest.
      try {
        if (w_.trace_began_us > 0) merge_traces(w_.folder.path());
        if (w_.task->validates()) w_.task->write_details(w_.folder);
        if (c.run.report) write_report(read_run(w_.folder.path()), w_.folder.path());
      } catch (const IoError& e) {
        w_.warn(e.what());
      }
    }
    print_results(leg, whole, damaged, files);
    if (w_.options.json) {
      std::fputs((s.str() + "\n").c_str(), stdout);
      std::fflush(stdout);
    }
    return files.problems().empty();
  }

  // What was said on the way is said again here, where it is read.
  void add_warnings(JsonObject& s, const ResultFiles& files, double failed) {
    if (const long lost = w_.folder.lost_lines(); lost > 0)
      warnings_.push_back(fmt::format("{} lines of log.jsonl were not written", lost));
    if (failed > 0)
      warnings_.push_back(fmt::format("{:.0f} times a worker could not write its checkpoint{}",
                                      failed,
                                      w_.checkpoints.last_failure().empty()
                                          ? ""
                                          : "; the last time " + w_.checkpoints.last_failure()));
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
      line.add("samples", seen).add(w_.task->unit(), score.items);
      const Task::Numbers numbers = w_.task->numbers(score);
      for (const auto& [name, value] : numbers) line.add(name, value);
      w_.folder.log("eval", line);
      std::ranges::copy(board_numbers(numbers, ema), std::back_inserter(scalars));
    };
    log(counts_, false);
    if (w_.ema) log(ema_counts_, true);
    w_.board.scalars(static_cast<i64>(seen / static_cast<double>(w_.config.gradient_samples())),
                     scalars);
  }

  // Saves the f32 master values, whatever type the layers computed in.
  void save_model(const std::filesystem::path& path,
                  const std::map<std::string, std::string>& more = {}) {
    w_.task->save_model(path, *w_.net, *w_.params, more);
  }

  // The best of the run: the model of its end, or one that was evaluated before.
  void find_best(JsonObject& s, double seen) {
    if (!w_.task->validates() || !keeps_best(w_.config, w_.place.size)) return;
    const double epoch = seen / w_.task->epoch();
    const auto trying = [&](const auto& step) {
      try {
        step();
      } catch (const IoError& e) {
        warnings_.push_back(std::string("the best models: ") + e.what());
      }
    };
    std::optional<BestModels> best;
    trying([&] {
      best.emplace(w_.folder.path(), w_.config.run.keep_best, w_.config.run.best_by,
                   w_.task->val_hash());
    });
    if (!best) return;
    const auto write = [&](const auto& path, const auto& more) { save_model(path, more); };
    trying([&] { best->offer(score_of(counts_, seen, epoch), write); });
    if (w_.ema) {
      const EmaInPlace model(*w_.ema, *w_.params);
      trying([&] { best->offer(score_of(ema_counts_, seen, epoch, true), write); });
    }
    if (best->all().empty()) return;
    best_ = best->all()[0].score;
    best_file_ = best->best_file();
    JsonObject found;
    found.add("file", best_file_.string()).add("of", best_.ema ? "ema" : "model");
    for (const auto& [name, value] : w_.task->numbers(best_)) found.add(name, value);
    found.add(w_.task->unit(), best_.items).add("samples", best_.samples).add("epoch", best_.epoch);
    s.raw("best", found.str());
  }

  void print_results(const RunFigures& leg, const RunFigures& whole, double damaged,
                     const ResultFiles& files) {
    // Rank 0 may be gone, so the worker that writes the files also prints.
    Progress say(w_.options.json ? stderr : stdout, false);
    const std::string unit = w_.task->unit();
    const double per_gradient = leg.gradients > 0 ? leg.exchanges / leg.gradients : 0.0,
                 rate = leg.samples / std::max(1e-9, leg.wall_s);
    say.note(fmt::format("done     {:.0f} {} in {} ({:.0f} {}/s){}", leg.samples, unit,
                         duration_text(leg.wall_s), rate, unit,
                         w_.exchanges() ? fmt::format(", {:.3g} exchanges per gradient, consensus "
                                                      "distance {:.3g}",
                                                      per_gradient, consensus_)
                                        : ""));
    if (whole.legs > 1 && w_.folder.writes())
      say.note(fmt::format("         since the run began {:.0f} {} in {}, {:.0f} legs",
                           whole.samples, unit, duration_text(whole.wall_s), whole.legs));
    if (!w_.config.run.replay.empty())
      say.note(fmt::format("replay   {:.0f} events repeated, digests of {} workers equal",
                           totals_.sum(RunTotals::replayed), alive_.size()));
    const std::string of = alive_.size() == 1 ? std::string("one model")
                                              : fmt::format("average of {} models", alive_.size());
    const bool validated = w_.task->validates();
    say.note(validated
                 ? fmt::format("result   {} on {:.0f} {}, {}",
                               w_.task->result(score_of(counts_, 0, 0)), counts_.items, unit, of)
                 : fmt::format("result   {}, not evaluated (data.val = none)", of));
    if (w_.ema && validated)
      say.note(fmt::format("ema      {}, decay {:g}", w_.task->result(score_of(ema_counts_, 0, 0)),
                           w_.config.train.ema));
    if (damaged > 0) {
      const std::string list =
          w_.folder.writes() ? ": " + w_.folder.file("bad_images.txt").string() : "";
      say.note(fmt::format(
          "         {:.0f} images were damaged (replaced in training, left out in validation){}",
          damaged, list));
    }
    if (w_.folder.writes()) {
      std::string list;
      for (const char* name :
           {model_file(), "model-ema.safetensors", "summary.json", "report.html"})
        if (const auto path =
                name == std::string("report.html") ? w_.folder.file(name) : files.place(name);
            std::filesystem::exists(path))
          list += (list.empty() ? "" : ", ") + path.string();
      say.note("files    " + list);
      if (!best_file_.empty())
        say.note(fmt::format("best     {} at epoch {:.2f}{}: {}", w_.task->sentence(best_),
                             best_.epoch, best_.ema ? " (EMA)" : "", best_file_.string()));
      for (const std::string& text : warnings_) say.warn(text);
      for (const std::string& text : files.problems()) say.warn(text);
    } else {
      const double budget = run_samples(w_.config, w_.place.size, w_.task->epoch());
      say.note(fmt::format(
          "dry run  peak memory of a worker: {:.0f} MiB resident, {:.0f} MiB of tensors{}; "
          "the whole run of {:.0f} {} would take about {}; nothing was written",
          totals_.at(w_.group->rank(), RunTotals::resident_bytes) / 1048576,
          totals_.at(w_.group->rank(), RunTotals::peak_bytes) / 1048576,
          w_.device.is_cpu() ? " (part of it)" : " on the GPU", budget, unit,
          duration_text(budget / rate)));
    }
  }

  Worker& w_;
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

int finish_run(Worker& w) { return Finish(w).run(); }

}  // namespace gossamer::apps
