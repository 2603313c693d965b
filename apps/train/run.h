// A worker's process from its first line to its exit code: set up, train, then finish, or save what
// there is because a signal or an error ended it.
#pragma once

#include <optional>

#include "gossamer/apps/train/worker.h"

namespace gossamer::apps {

// Returns the process's exit code. Throws what ended the run; its log then has a `failed` line.
int run_worker(const Config&, const WorkerOptions&, const dist::LaunchInfo&,
               const std::optional<ResumePoint>&);

}  // namespace gossamer::apps
