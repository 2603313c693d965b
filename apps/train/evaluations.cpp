// See evaluations.h.
#include "gossamer/apps/train/evaluations.h"

#include <fmt/core.h>

#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {

Evaluations::Evaluations(Worker& w) : w_(w), epoch_(static_cast<double>(w.train_set->size())) {
  if (!w.val_set || w.config.eval.every <= 0) return;
  if (of_mean()) copy_ = std::make_unique<ModelCopy>(w);
  if (!keeps_best(w.config, w.place.size) || w.place.rank != 0 || !w.folder.writes()) return;
  try {
    best_ =
        std::make_unique<BestModels>(w.folder.path(), w.config.run.keep_best, w.config.run.best_by);
    if (!w.resumed_from.empty()) best_->bring(w.resumed_from, w.start_samples);
  } catch (const IoError& e) {
    w.warn(std::string("the best models: ") + e.what());
  }
}

Counts Evaluations::of_share(nn::Module& net) const {
  return apps::evaluate(net, w_.val_set, w_.prepare,
                        {.batch = w_.config.eval.batch,
                         .threads = data_threads_for(w_.config, w_.place.local_size),
                         .part = w_.place.rank,
                         .parts = w_.place.size,
                         .strict = w_.config.data.strict_images});
}

void Evaluations::evaluate_own(double seen) {
  const trace::Scope scope("evaluate");
  record(of_share(*w_.net), seen, *w_.net, *w_.params);
}

void Evaluations::evaluate_mean(double seen) {
  const trace::Scope scope("evaluate");
  dist::Collectives& all = w_.group->collectives();
  copy_->take_model(w_);
  dist::adopt(*copy_->params, dist::average_of_models(*copy_->params, all));
  const Counts c = of_share(*copy_->net);
  double sums[] = {c.images, c.top1, c.top5, c.loss};
  all.all_reduce_sum(std::span<double>(sums));
  record({sums[0], sums[1], sums[2], sums[3]}, seen, *copy_->net, *copy_->params);
}

void Evaluations::record(const Counts& c, double seen, const nn::Module& net,
                         const FlatParams& params) {
  if (c.images == 0) return;
  const bool mean = of_mean() && &net != w_.net.get();
  const Score score = score_of(c, seen, seen / epoch_);
  if (!mean || w_.place.rank == 0)
    w_.folder.log("eval", JsonObject()
                              .add("of", mean ? "averaged model" : "own model on its share")
                              .add("samples", seen)
                              .add("epoch", score.epoch)
                              .add("images", c.images)
                              .add("top1", score.top1)
                              .add("top5", score.top5)
                              .add("loss", score.loss));
  w_.add_to_board(seen, {{"top1", score.top1}, {"top5", score.top5}, {"val_loss", score.loss}});
  const bool best = offer(score, net, params);
  w_.progress.note(
      fmt::format("epoch {:.2f}: {}: top-1 {:.2f} %, loss {:.3f} ({:.0f} images){}", score.epoch,
                  mean ? fmt::format("average of {} models", w_.place.size)
                       : fmt::format("worker {}'s model on its share", w_.place.rank),
                  100 * score.top1, score.loss, c.images, best ? ", the best so far" : ""));
}

// True if it is the best now.
bool Evaluations::offer(const Score& score, const nn::Module& net, const FlatParams& params) {
  if (!best_) return false;
  try {
    return best_->offer(score, [&](const auto& path, const auto& more) {
      auto metadata = model_metadata(w_.config.model.name, w_.prepare, w_.train_set->classes());
      metadata.insert(more.begin(), more.end());
      nn::save(path, net, params, params.values(), metadata);
    });
  } catch (const IoError& e) {
    w_.warn(std::string("the best model was not written, training goes on: ") + e.what());
    return false;
  }
}

}  // namespace gossamer::apps
