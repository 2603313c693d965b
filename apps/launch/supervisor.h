// Starts the workers of one run, on this machine or on several, and watches them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/launch/hosts.h"

namespace gossamer::apps {

struct Launch {
  int workers = 1;
  std::vector<std::string> arguments;  // of each worker: "train", …
  std::vector<Host> hosts;             // empty: this machine
  std::string ssh;                     // see crew.h
  int restart = 0;                     // how often a worker that died is started again, to rejoin
  double restart_after_s = 1;          // the others know of the death by then
  // beside those: worker, seconds after all were ready; if it dies later, then
  std::vector<std::pair<int, double>> restart_at{};
  double connect_timeout_s = 60;  // until all hosts are there
  bool json = false;              // workers print JSON: their stdout is passed on as it is
};

// Each worker knows its place through GOSSAMER_*. A death is reported and no sibling is killed,
// unless it comes before all have met: then they never will, and all are stopped. SIGINT and
// SIGTERM go to all, a second one kills. If this process dies, so do the workers (the kernel sees
// to it here, the agents elsewhere). Returns 128 + signal when asked to stop; the first error code
// of a worker that is more than a lost connection (a full disk, a damaged image with
// --strict-images, which also stops the others); 0 when any worker finished the run; else 5.
int supervise(const Launch&);

// A worker started by supervise() says that it has met the others. Nothing happens elsewhere.
void report_ready();

// Waiting threads of several workers on one machine must sleep: spinning, they take the cores from
// those that work (20 times slower, measured). libgomp reads this when the program is loaded, so a
// worker whose launcher did not set it starts itself again, once.
void sleep_while_waiting(int workers_here);

}  // namespace gossamer::apps
