// See finish.h.
#include "gossamer/apps/train/finish.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "gossamer/apps/machine.h"
#include "gossamer/apps/train/results.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/trace.h"
#include "gossamer/data/errors.h"
#include "gossamer/dist/finish.h"
#include "gossamer/nn/train/step_inputs.h"

namespace gossamer::apps {
namespace {

class Finish {
 public:
  Finish(const Plan& plan, Journal& journal, Trainer& trainer, Checkpoints& checkpoints)
      : plan_(plan),
        journal_(journal),
        trainer_(trainer),
        checkpoints_(checkpoints),
        o_{.totals = RunTotals(trainer.group->size(), plan.place.rank), .alive = {}} {}

  int run() {
    o_.before = trainer_.method->stats();
    waited_for_data_ = trainer_.task.data->stats().wait_s;
    const double seen = trainer_.method->samples_seen();
    trainer_.method->finish();
    journal_.ends();
    o_.alive = trainer_.method->members();  // from here on workers leave because they are done
    if (o_.alive.empty()) o_.alive = trainer_.group->alive();
    o_.batch_norm = estimate_batch_norm();
    o_.counts = evaluate_share(true);
    if (trainer_.ema) evaluate_ema();
    record_totals();
    journal_.write_trace(*trainer_.group);
    gather();
    o_.failure = what_failed();
    const bool all_written = !leader() || write_as_leader(seen);
    together("waiting for the results", [&] { trainer_.group->collectives().barrier(); });
    if (o_.failure.empty()) checkpoints_.write_kept();
    check(o_.failure.empty() || !leader(), "the training has failed: ", o_.failure, kAdvice);
    return all_written ? 0 : 6;
  }

 private:
  // False if a file is missing in the run's folder.
  bool write_as_leader(double seen) {
    if (const i64 theirs = already_written();
        theirs > 0 && (o_.alone || theirs >= static_cast<i64>(o_.alive.size())))
      Progress(plan_.options.json ? stderr : stdout, false)
          .note(fmt::format("worker {} lost the others, which ended before it: their results, of "
                            "{} worker(s), are kept",
                            trainer_.group->rank(), theirs));
    else
      return write_results(plan_, journal_, trainer_, checkpoints_, o_, seen);
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
  bool leader() const { return o_.alive.front() == trainer_.group->rank(); }

  // Runs one collective step; false if it failed because a worker died. Then this worker does
  // without the others, in this step and in all later ones.
  template <class F>
  bool together(const char* what, F&& step) {
    if (!plan_.several()) return true;
    if (o_.alone) return false;
    try {
      step();
      return true;
    } catch (const DistError& e) {
      o_.alone = true;
      o_.alive = trainer_.group->alive();
      journal_.failed_together(what, e);
      return false;
    }
  }

  // Says what is not finite of model, EMA and loss; empty: nothing.
  std::string what_failed() {
    const auto finite = [](const auto& model) {
      return std::ranges::all_of(std::array{model.values(), model.buffers()},
                                 [](const Tensor& t) { return t.numel() == 0 || all_finite(t); });
    };
    o_.has_model = finite(*trainer_.params);
    if (!o_.has_model) return "the weights are no finite numbers, so no model is written";
    if (trainer_.ema && !finite(*trainer_.ema)) return "the EMA is no finite numbers";
    const bool validated = trainer_.task.data->validates();
    if (!std::isfinite(validated ? o_.counts.loss : loss_of_a_batch()))
      return std::string("the loss of the ") + (validated ? "validation" : "last model") +
             " is no finite number";
    return "";
  }

  // The loss on a batch of training data. Without validation data, it alone says whether the
  // model's answers are finite.
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

  // The workers' running statistics belong to their own weights, not to the mean, so they are
  // estimated again on training batches.
  std::string estimate_batch_norm() {
    const i64 batches = plan_.options.dry_run ? std::min<i64>(2, plan_.config.train.bn_batches)
                                              : plan_.config.train.bn_batches;
    const bool any = trainer_.params->buffers().numel() > 0;
    if (!any) return trainer_.params->frozen().empty() ? "none" : "frozen";
    if (!plan_.several()) return "own running statistics";
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
    const auto place = std::ranges::find(o_.alive, trainer_.group->rank());
    TaskMetrics::Share share{.part = static_cast<int>(place - o_.alive.begin()),
                             .parts = static_cast<int>(o_.alive.size()),
                             .max_batches = plan_.options.dry_run ? 1 : 0};
    if (o_.alone) share.part = 0, share.parts = 1;
    nn::Module* const one[] = {trainer_.net.get()};
    Counts counts = trainer_.task.metrics->evaluate(one, share, of_model)[0];
    if (counts.batch < plan_.config.eval.batch)
      o_.warnings.push_back(
          fmt::format("eval.batch = {} needs more memory than there is; evaluated {} at a time",
                      plan_.config.eval.batch, counts.batch));
    if (!counts.no_graph.empty())
      o_.warnings.push_back("the evaluation ran eagerly, not as a CUDA graph: " + counts.no_graph);
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
    o_.ema_counts = evaluate_share(false);
  }

  void record_totals() {
    checkpoints_.wait();
    const dist::MethodStats after = trainer_.method->stats();
    const data::LoaderStats data = trainer_.task.data->stats();
    std::vector<std::string> damaged = trainer_.task.data->damaged();
    std::ranges::move(trainer_.task.metrics->damaged(), std::back_inserter(damaged));
    journal_.folder.add_bad_images(damaged);
    o_.totals.set(RunTotals::gradients, static_cast<double>(after.gradients));
    o_.totals.set(RunTotals::skipped_steps, static_cast<double>(trainer_.params->skipped_steps()));
    o_.totals.set(RunTotals::exchanges, static_cast<double>(after.exchanges));
    o_.totals.set(RunTotals::failed, static_cast<double>(after.failed));
    o_.totals.set(RunTotals::refused, static_cast<double>(after.refused));
    o_.totals.set(RunTotals::exposed_s, o_.before.exposed_s);
    o_.totals.set(RunTotals::transfer_s, o_.before.transfer_s);
    o_.totals.set(RunTotals::bytes_sent, o_.before.bytes_sent);
    o_.totals.set(RunTotals::data_wait_s, waited_for_data_);
    o_.totals.set(RunTotals::data_idle_s, data.idle_s);
    o_.totals.set(RunTotals::damaged, static_cast<double>(damaged.size()));
    o_.totals.set(RunTotals::wall_s, trainer_.wall_s);
    o_.totals.set(RunTotals::failed_checkpoints, static_cast<double>(checkpoints_.failed()));
    o_.totals.set(RunTotals::replayed, static_cast<double>(after.replayed));
    o_.totals.set(RunTotals::peak_bytes, static_cast<double>(memory_stats(plan_.device).peak));
    o_.totals.set(RunTotals::resident_bytes, static_cast<double>(peak_resident_bytes()));
    o_.totals.set_edges(after.edges);
    o_.consensus = after.consensus_distance;
    o_.left_out = after.left_out;
  }

  void gather() {
    if (plan_.several())
      together("gathering the workers' numbers",
               [&] { o_.totals.gather(trainer_.group->collectives()); });
  }

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  Checkpoints& checkpoints_;
  Outcome o_;
  double waited_for_data_ = 0;  // of the training loop, as wall_s
};

}  // namespace

int finish_run(const Plan& plan, Journal& journal, Trainer& trainer, Checkpoints& checkpoints) {
  return Finish(plan, journal, trainer, checkpoints).run();
}

}  // namespace gossamer::apps
