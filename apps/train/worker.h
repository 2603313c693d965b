// One worker of a run: what it will do, what does it, and what reports it.
#pragma once

#include <optional>

#include "gossamer/apps/train/checkpoints.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

struct Worker {
  // Joins the group: returns when all workers are ready.
  Worker(Config, const WorkerOptions&, const dist::LaunchInfo&, const std::optional<ResumePoint>&);

  Plan plan;
  Journal journal;
  Trainer trainer;
  Checkpoints checkpoints;
};

}  // namespace gossamer::apps
