// The end of a run: one averaged model, its batch-norm statistics, its accuracy, the files of
// runs/NAME.
#pragma once

#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

// Every worker calls it after the training loop. Returns the exit code.
int finish_run(const Plan&, Journal&, Trainer&, Checkpoints&);

}  // namespace gossamer::apps
