// What a worker's process does for its launcher, ours or another.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

// Called by a worker that has met the others: tells the launcher, if supervise() started it.
void report_ready();

// Called before a process computes. libgomp's waiting threads spin for milliseconds and take the
// cores from working threads and from other programs (README.md has numbers). So they sleep at once
// where several workers share the machine, and after two thousand turns, about 10 us, otherwise.
// libgomp reads its settings when the program is loaded, so the process starts itself again, once.
// Nothing happens if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set: by the user, the launcher or this
// function.
void spin_briefly(int workers_here = 1);

// `gossamer run ARGUMENT…`, for launchers that kill a job when one of its processes dies: runs this
// program with `arguments` as a child and survives its death. Returns the exit code.
int run_wrapped(const std::vector<std::string>& arguments);

}  // namespace gossamer::apps
