// A group whose workers are threads of one process: for tests, teaching and simulation.
// Threads: any for a LocalCluster; each of its groups belongs to one.
#pragma once

#include <memory>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class LocalCluster {
 public:
  // dead_after: how long a cut lasts before the two sides give each other up. collective_limit: how
  // long a collective waits for the last of its workers; then it is a DistError.
  // started: so many of the n begin together, the other places are free until revive() (0: all do).
  explicit LocalCluster(int n, Seconds dead_after = Seconds(0.2),
                        Seconds collective_limit = Seconds(30), int started = 0);
  ~LocalCluster();
  // The place of worker `rank`, 0 to n - 1, in its last life. It lives as long as the cluster.
  Group& group(int rank);
  // Ends a worker as kill -9 would: the others get Event{dead}, and its own calls do nothing or
  // throw DistError.
  void kill(int rank);
  // Starts a killed worker again, or one in a free place, as a new process would be: it has a new
  // group, for a new thread, and both sides of each link get Event{joined}. Collectives are without
  // it until they are rebuilt with it. ConfigError if it lives.
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
