// Evaluations on the way (eval.every), and what follows from them: the best models, and the end of
// a run that gets no better.
#pragma once

#include <memory>

#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/model_copy.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

class Evaluations {
 public:
  Evaluations(const Plan&, Journal&, Trainer&);
  // Whether evaluations are of the workers' average: then all workers meet for them.
  bool of_mean() const { return plan_.several() && plan_.config.eval.of == "mean"; }
  // Evaluates this worker's model, and its EMA, on its share of the data, without waiting for
  // others. The shares together are the whole set; a single worker has the whole set.
  void evaluate_own(double seen);
  // Evaluates the average of all models, and of all EMAs, with their batch norms merged. DistError
  // if a worker is lost.
  void evaluate_mean(double seen);

 private:
  struct Evaluated {
    nn::Module& net;
    const FlatParams& params;
    Score score;
  };
  std::vector<Counts> of_share(std::vector<nn::Module*>) const;
  std::vector<nn::Module*> nets(nn::Module& model) const;  // it and the EMA
  void record(const std::vector<Counts>&, double seen, nn::Module&, const FlatParams&, bool mean);
  void record(const Evaluated&, bool mean);
  bool offer(const Evaluated&);
  // Whether the evaluation is of the whole set, so that scores can be compared.
  bool is_of_all(bool mean) const { return mean || !plan_.several(); }

  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  std::unique_ptr<ModelCopy> mean_;   // with of_mean()
  std::unique_ptr<ModelCopy> ema_;    // with train.ema
  std::unique_ptr<BestModels> best_;  // of the worker that writes them
};

}  // namespace gossamer::apps
