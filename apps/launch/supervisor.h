// Starts the workers of one run, on this machine or on several, and watches them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/launch/hosts.h"

namespace gossamer::apps {

struct Launch {
  int workers = 1;
  int places = 0;     // LaunchInfo::places
  bool open = false;  // where others may join: without a secret, as JoinOptions::open
  std::vector<std::string> arguments;  // of each worker: "train", …
  std::vector<Host> hosts;             // empty: this machine
  std::string ssh;                     // see host_workers.h
  // How often a worker that died, lost the others or whose device failed is started again, to
  // rejoin, and how many seconds later: by then the others must know of the death.
  int restart = 0;
  double restart_after_s = 1;
  // Additional restarts: a worker, and seconds after all workers were ready. A worker that dies
  // before its time starts then; one that dies later starts after restart_after_s.
  std::vector<std::pair<int, double>> restart_at{};
  double connect_timeout_s = 60;  // until all hosts answer
  bool json = false;              // workers print JSON: their stdout is passed on unchanged
};

// Each worker learns its place from GOSSAMER_* variables. A death is reported, and the other
// workers go on. If a worker dies before all have met, the others would wait in vain, so all are
// stopped. SIGINT and SIGTERM are passed to all, and SIGHUP as SIGTERM; a second one (stop.h) kills
// them. If this process dies, so do the workers (through the kernel here, through the agents
// elsewhere). Returns 128 + signal if asked to stop, kKilled if a second signal has killed a
// worker. Otherwise the first exit code of a worker that stopped with an error of its own and was
// not started again (6: a full disk; 3: a damaged image with --strict-images, which also stops the
// others). A worker that was killed, or lost the others (5), is no error of the run: then 0 if any
// worker finished it, else 5.
int supervise(const Launch&);

}  // namespace gossamer::apps
