// The runs of `gossamer train` that a page of `gossamer paper` is made of.
#pragma once

#include <vector>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/paper/paper.h"

namespace gossamer::apps {

// A signal has stopped a run, which has saved its state.
struct Stopped {
  int code;  // of the program: 130, 143, or 137 if nothing was saved
};

// Makes one after the other what is not there yet, and goes on with what was stopped. Says on
// stderr what that takes: nothing is printed on stdout. Throws Stopped. ConfigError: also if a run
// of that name has other settings. Error: a run has failed.
std::vector<PaperRun> make_runs(const PaperCommand&, const std::vector<PlannedRun>&);

}  // namespace gossamer::apps
