// A group whose workers are threads of one process: for tests, teaching and simulation.
// Threads: any for a LocalCluster; each of its groups belongs to one.
#pragma once

#include <memory>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// n workers as threads of this process. Group i belongs to thread i.
class LocalCluster {
 public:
  // dead_after: how long a cut lasts before the two sides give each other up. collective_limit: how
  // long a collective waits for the last of its workers; then it is a DistError.
  explicit LocalCluster(int n, Seconds dead_after = Seconds(0.2),
                        Seconds collective_limit = Seconds(30));
  ~LocalCluster();
  Group& group(int rank);  // of its last life
  // as kill -9: the others get Event{dead}, its own calls do nothing or throw DistError
  void kill(int rank);
  // As a restarted process: a new group (for a new thread; the old one stays dead). Event{joined}
  // for both sides of each link; outside of the collectives until they are rebuilt with it.
  // ConfigError if it was not killed.
  Group& revive(int rank);
  // Nothing passes between a and b any more. After dead_after: Event{dead} on both sides.
  void cut(int a, int b);
  // Before that, what was sent arrives now. After it: Event{joined} on both sides.
  void mend(int a, int b);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
