// Evaluations on the way (eval.every), and the best models that they find.
#pragma once

#include <memory>

#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/model_copy.h"
#include "gossamer/apps/train/worker.h"

namespace gossamer::apps {

class Evaluations {
 public:
  explicit Evaluations(Worker&);
  // Whether they are of the workers' average: collectives, for which all meet.
  bool of_mean() const { return w_.place.size > 1 && w_.config.eval.of == "mean"; }
  // Of this worker's model on its share of the images, without waiting for others: the shares
  // together are the whole set. Alone, it has the whole set.
  void evaluate_own(double seen);
  // Of the average of all models, with their batch norms merged. DistError if a worker is lost.
  void evaluate_mean(double seen);

 private:
  Counts of_share(nn::Module&) const;
  void record(const Counts&, double seen, const nn::Module&, const FlatParams&);
  bool offer(const Score&, const nn::Module&, const FlatParams&);

  Worker& w_;
  double epoch_;                      // images
  std::unique_ptr<ModelCopy> copy_;   // with of_mean()
  std::unique_ptr<BestModels> best_;  // of the worker that writes them
};

}  // namespace gossamer::apps
