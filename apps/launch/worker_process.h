// What a worker's process does for its launcher, ours or another.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

// Called by a worker that has met the others: tells the launcher, if supervise() started it.
void report_ready();

// `gossamer run ARGUMENT…`, for launchers that kill a job when one of its processes dies: runs this
// program with `arguments` as a child and survives its death. Returns the exit code.
int run_wrapped(const std::vector<std::string>& arguments);

}  // namespace gossamer::apps
