// The workers that take part in collectives now, and how an operation survives a death: the
// collectives are rebuilt with the living, and the operation is done again.
#pragma once

#include <set>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Membership {
 public:
  Membership(Group& group, int min_workers);

  // said goodbye, though its process may live on
  void left(int rank) { left_.insert(rank); }
  // A worker that came back (Event{joined}) takes part in the next run(). All members must say so
  // before the same run(): synchronous methods agree on the step first. Until then it is counted as
  // gone.
  void joined(int rank);
  // From now on everyone takes part as soon as it is connected (the end of training, where all wait
  // for all).
  void admit_all() { admit_all_ = true; }
  std::vector<int> alive() const;
  // Runs `op` with collectives over the living. If a member dies in it, all survivors run it again
  // without the dead: so `op` must not overwrite its inputs before its last collective. A failure
  // without a death, or fewer than min_workers alive, is a DistError.
  void run(FunctionRef<void(Collectives&)> op);
  // of the collectives as last built: the workers in the last run()
  std::vector<int> members() const { return built_for_; }
  i64 rebuilds() const { return rebuilds_; }

 private:
  std::vector<std::uint64_t> arrivals() const;  // what changes with every return

  Group& group_;
  int min_workers_;
  bool admit_all_ = false, broken_ = false;
  std::set<int> left_;
  std::vector<std::uint64_t> admitted_;  // by rank: which of its arrivals takes part
  // empty: not built yet, as for a worker that was started again
  std::vector<int> built_for_;
  std::vector<std::uint64_t> built_at_;  // arrivals() then
  i64 rebuilds_ = 0;
};

}  // namespace gossamer::dist
