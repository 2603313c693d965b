// What the end of a run tells: the files of runs/NAME, and the last lines.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/report/run_totals.h"
#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

// What is said after a training that has failed.
inline constexpr const char* kAdvice =
    "; a smaller optim.learning_rate, a longer optim.warmup_epochs or optim.clip_norm=1 may help";

// What the common end has found.
struct Outcome {
  RunTotals totals;
  std::vector<int> alive;      // workers
  bool alone = false;          // this one has lost the others
  dist::MethodStats before{};  // the common end
  Counts counts{}, ema_counts{};
  std::string batch_norm{}, failure{};  // how statistics were found; empty: nothing has failed
  bool has_model = true;                // whose weights are finite
  double consensus = 0;
  std::vector<std::string> warnings{};
  std::vector<int> left_out{};
};

// Called by the worker that leads. Returns false if a file is missing in the run's folder.
bool write_results(const Plan&, Journal&, Trainer&, const Checkpoints&, Outcome&, double seen);

}  // namespace gossamer::apps
