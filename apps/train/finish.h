// The end of a run: one averaged model, its batch-norm statistics, its accuracy, the files of
// runs/NAME.
#pragma once

namespace gossamer::apps {

struct Worker;
// After the training loop, on every worker. Returns the exit code.
int finish_run(Worker&);

}  // namespace gossamer::apps
