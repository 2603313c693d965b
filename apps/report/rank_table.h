// Who is where: one line a worker, told by the workers themselves, whatever started them.
#pragma once

#include <string>
#include <vector>

#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

// "worker 2   gpu07   pid 4711   2+1 threads   slurm": compute and data threads. A collective: all
// workers call it once they have met; one line for each, the same on all.
std::vector<std::string> rank_table(dist::Group&, const dist::LaunchInfo&, int compute_threads,
                                    int data_threads);

}  // namespace gossamer::apps
