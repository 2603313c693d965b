// Who takes part in collectives now, and how an operation survives a death: rebuild with the living, and again.
#pragma once

#include <set>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Membership {
 public:
  Membership(Group& group, int min_workers) : group_(group), min_workers_(min_workers) {}

  void left(int rank) { left_.insert(rank); }           // said goodbye, though its process may live on
  std::vector<int> alive() const;
  // Runs `op` with collectives over the living. If a member dies in it, all survivors run it again without the dead: so `op` must not
  // overwrite its inputs before its last collective. A failure without a death, or fewer than min_workers alive, is a DistError.
  void run(FunctionRef<void(Collectives&)> op);
  std::vector<int> members() const;                      // of the collectives as last built: those who took part in the last run()
  i64 rebuilds() const { return rebuilds_; }

 private:
  Group& group_;
  int min_workers_;
  std::set<int> left_;
  std::vector<int> built_for_;                          // empty: all, as the group began
  i64 rebuilds_ = 0;
};

}  // namespace gossamer::dist
