// Where the workers run, as they say themselves, whoever launched them: a line for each.
#pragma once

#include <string>
#include <vector>

#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

// "worker 2   gpu07   pid 4711   2+1 threads   slurm": compute and data threads. A collective of
// all workers; all get the same lines.
std::vector<std::string> rank_table(dist::Group&, const dist::LaunchInfo&, int compute_threads,
                                    int data_threads);

}  // namespace gossamer::apps
