// See evaluations.h.
#include "gossamer/apps/train/evaluations.h"

#include <fmt/core.h>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::apps {

Evaluations::Evaluations(Worker& w) : w_(w), epoch_(w.task->epoch()) {
  if (!w.task->validates() || w.config.eval.every.value <= 0) return;
  if (of_mean()) mean_ = std::make_unique<ModelCopy>(w);
  if (w.ema) ema_ = std::make_unique<ModelCopy>(w);
  if (!keeps_best(w.config, w.place.size) || w.place.rank != 0 || !w.folder.writes()) return;
  try {
    best_ = std::make_unique<BestModels>(w.folder.path(), w.config.run.keep_best,
                                         w.config.run.best_by, w.task->val_hash());
    if (!w.resumed_from.empty()) best_->bring(w.resumed_from, w.start_samples);
  } catch (const IoError& e) {
    w.warn(std::string("the best models: ") + e.what());
  }
}

std::vector<Counts> Evaluations::of_share(std::vector<nn::Module*> nets) const {
  return w_.task->evaluate(nets, {.part = w_.place.rank, .parts = w_.place.size}, false);
}

std::vector<nn::Module*> Evaluations::nets(nn::Module& model) const {
  std::vector<nn::Module*> all{&model};
  if (ema_) all.push_back(ema_->net.get());
  return all;
}

void Evaluations::evaluate_own(double seen) {
  const trace::Scope scope("evaluate");
  if (ema_) ema_->take_ema(w_);
  record(of_share(nets(*w_.net)), seen, *w_.net, *w_.params, false);
}

void Evaluations::evaluate_mean(double seen) {
  const trace::Scope scope("evaluate");
  dist::Collectives& all = w_.group->collectives();
  const auto average = [&](ModelCopy& copy) {
    dist::adopt(*copy.params, dist::average_of_models(*copy.params, *w_.group));
  };
  mean_->take_model(w_);
  average(*mean_);
  if (ema_) ema_->take_ema(w_), average(*ema_);
  std::vector<Counts> counts = of_share(nets(*mean_->net));
  for (Counts& c : counts) c.add_up([&](std::span<double> sums) { all.all_reduce_sum(sums); });
  record(counts, seen, *mean_->net, *mean_->params, true);
}

void Evaluations::record(const std::vector<Counts>& counts, double seen, nn::Module& net,
                         const FlatParams& params, bool mean) {
  if (counts[0].items == 0) return;
  const Evaluated model{net, params, score_of(counts[0], seen, seen / epoch_)};
  record(model, mean);
  Score better = model.score;
  if (ema_) {
    const Evaluated ema{*ema_->net, *ema_->params, score_of(counts[1], seen, seen / epoch_, true)};
    record(ema, mean);
    if (is_better(ema.score, better, w_.config.run.best_by)) better = ema.score;
  }
  if (is_of_all(mean)) w_.patience.look(better);
}

void Evaluations::record(const Evaluated& e, bool mean) {
  const Score& s = e.score;
  if (!mean || w_.place.rank == 0) {
    JsonObject line;
    line.add("of", mean ? "averaged model" : is_of_all(false) ? "model" : "own model on its share");
    if (s.ema) line.add("ema", true);
    line.add("samples", s.samples).add("epoch", s.epoch).add(w_.task->unit(), s.items);
    for (const auto& [name, value] : w_.task->numbers(s)) line.add(name, value);
    w_.folder.log("eval", line);
  }
  w_.add_to_board(s.samples, board_numbers(w_.task->numbers(s), s.ema));
  const bool best = is_of_all(mean) && offer(e);
  const std::string kind = s.ema ? "EMA" : "model";
  w_.progress.note(fmt::format(
      "epoch {:.2f}: {}: {} ({:.0f} {}){}", s.epoch,
      mean               ? fmt::format("average of {} {}s", w_.place.size, kind)
      : is_of_all(false) ? kind
                         : fmt::format("worker {}'s {} on its share", w_.place.rank, kind),
      w_.task->sentence(s), s.items, w_.task->unit(), best ? ", the best so far" : ""));
}

// True if it is the best now.
bool Evaluations::offer(const Evaluated& e) {
  if (!best_) return false;
  try {
    return best_->offer(e.score, [&](const auto& path, const auto& more) {
      w_.task->save_model(path, e.net, e.params, more);
    });
  } catch (const IoError& error) {
    w_.warn(std::string("the best model was not written, training goes on: ") + error.what());
    return false;
  }
}

}  // namespace gossamer::apps
