// See evaluations.h.
#include "gossamer/apps/train/evaluations.h"

#include <fmt/core.h>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {

Evaluations::Evaluations(const Plan& plan, Journal& journal, Trainer& trainer)
    : plan_(plan), journal_(journal), trainer_(trainer) {
  if (!trainer.task.data->validates() || plan.config.eval.every.value <= 0) return;
  if (of_mean()) mean_ = std::make_unique<ModelCopy>(*trainer.task.model, plan.device);
  if (trainer.ema) ema_ = std::make_unique<ModelCopy>(*trainer.task.model, plan.device);
  if (!keeps_best(plan.config, plan.place.size) || plan.place.rank != 0 || !journal.folder.writes())
    return;
  try {
    best_ = std::make_unique<BestModels>(journal.folder.path(), plan.config.run.keep_best,
                                         plan.config.run.best_by, trainer.task.data->val_hash());
    if (!plan.resumed_from.empty()) best_->bring(plan.resumed_from, plan.start_samples);
  } catch (const IoError& e) {
    journal.warn(std::string("the best models: ") + e.what());
  }
}

std::vector<Counts> Evaluations::of_share(std::vector<nn::Module*> nets) const {
  std::vector<Counts> counts = trainer_.task.metrics->evaluate(
      nets, {.part = plan_.place.rank, .parts = plan_.place.size}, false);
  if (const std::string& why = counts[0].no_graph; !why.empty())
    journal_.warn("the evaluation ran eagerly, not as a CUDA graph: " + why);
  return counts;
}

std::vector<nn::Module*> Evaluations::nets(nn::Module& model) const {
  std::vector<nn::Module*> all{&model};
  if (ema_) all.push_back(ema_->net.get());
  return all;
}

void Evaluations::evaluate_own(double seen) {
  const trace::Scope scope("evaluate");
  if (ema_) ema_->take_ema(trainer_);
  record(of_share(nets(*trainer_.net)), seen, *trainer_.net, *trainer_.params, false);
}

void Evaluations::evaluate_mean(double seen) {
  const trace::Scope scope("evaluate");
  dist::Collectives& all = trainer_.group->collectives();
  const auto average = [&](ModelCopy& copy) {
    dist::adopt(*copy.params, dist::average_of_models(*copy.params, *trainer_.group));
  };
  mean_->take_model(trainer_);
  average(*mean_);
  if (ema_) ema_->take_ema(trainer_), average(*ema_);
  std::vector<Counts> counts = of_share(nets(*mean_->net));
  for (Counts& c : counts) c.add_up([&](std::span<double> sums) { all.all_reduce_sum(sums); });
  record(counts, seen, *mean_->net, *mean_->params, true);
}

void Evaluations::record(const std::vector<Counts>& counts, double seen, nn::Module& net,
                         const FlatParams& params, bool mean) {
  if (counts[0].items == 0) return;
  const Evaluated model{net, params, score_of(counts[0], seen, seen / plan_.epoch)};
  record(model, mean);
  Score better = model.score;
  if (ema_) {
    const Evaluated ema{*ema_->net, *ema_->params,
                        score_of(counts[1], seen, seen / plan_.epoch, true)};
    record(ema, mean);
    if (is_better(ema.score, better, plan_.config.run.best_by)) better = ema.score;
  }
  if (is_of_all(mean)) trainer_.patience.look(better);
}

void Evaluations::record(const Evaluated& e, bool mean) {
  const Score& s = e.score;
  if (!mean || plan_.place.rank == 0) {
    JsonObject line;
    line.add("of", mean ? "averaged model" : is_of_all(false) ? "model" : "own model on its share");
    if (s.ema) line.add("ema", true);
    line.add("samples", s.samples).add("epoch", s.epoch).add(trainer_.task.data->unit(), s.items);
    for (const auto& [name, value] : trainer_.task.metrics->numbers(s)) line.add(name, value);
    journal_.folder.log("eval", line);
  }
  journal_.show(s.samples, board_numbers(trainer_.task.metrics->numbers(s), s.ema));
  const bool best = is_of_all(mean) && offer(e);
  const std::string kind = s.ema ? "EMA" : "model";
  journal_.progress.note(fmt::format(
      "epoch {:.2f}: {}: {} ({:.0f} {}){}", s.epoch,
      mean               ? fmt::format("average of {} {}s", plan_.place.size, kind)
      : is_of_all(false) ? kind
                         : fmt::format("worker {}'s {} on its share", plan_.place.rank, kind),
      trainer_.task.metrics->sentence(s), s.items, trainer_.task.data->unit(),
      best ? ", the best so far" : ""));
}

// True if it is the best now.
bool Evaluations::offer(const Evaluated& e) {
  if (!best_) return false;
  try {
    return best_->offer(e.score, [&](const auto& path, const auto& more) {
      trainer_.task.model->save(path, e.net, e.params, more);
    });
  } catch (const IoError& error) {
    journal_.warn(std::string("the best model was not written, training goes on: ") + error.what());
    return false;
  }
}

}  // namespace gossamer::apps
