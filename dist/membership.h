// The workers that take part in collectives now, and how an operation survives a death: the
// collectives are rebuilt with the living, and the operation is done again.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Membership {
 public:
  // What becomes of a worker that was frozen or cut off, that the others have gone on without, and
  // that lives: it takes part again after joined(), or run() and hear() throw a DistError in it.
  enum class Lost { may_return, is_out };
  Membership(Group& group, int min_workers, Lost = Lost::may_return);

  // said goodbye, though its process may live on
  void left(int rank) { left_.insert(rank); }
  // A worker that came back (Event{joined}) takes part in the next run(). All members must say so
  // before the same run(), or while they are in it (see listen()). Until then it is counted as
  // gone. arrival: in which of its arrivals it takes part (Group::arrivals); 0: the last.
  void joined(int rank, std::uint64_t arrival = 0);
  // This worker comes to others: each of them takes part after joined(), whoever it is.
  void outside();
  // Called while run() begins again, since others may have said who has joined.
  void listen(std::function<void()> hear) { listen_ = std::move(hear); }
  // With Lost::is_out it must be given every event of the control link. Where a connection was lost
  // and both sides have gone on, the side with more workers remains; of two equal ones, that with
  // the lowest rank.
  void hear(const Event&);
  void check_taking_part() const;  // throws what run() would
  std::vector<int> alive() const;
  // Who has given this worker up, and why; empty: nobody has. With Lost::may_return, of those that
  // are not among members() and have not taken it back since; where members() are more than half of
  // all, nobody: what others have said, or a death looked like, cannot be of more workers.
  std::string given_up() const;
  // Runs `op` with collectives over the living. If a member dies in it, all survivors run it again
  // without the dead: so `op` must not overwrite its inputs before its last collective. A failure
  // without a death, or fewer than min_workers alive, is a DistError. All together wait for others
  // no longer than the collectives' deadline, or patience if that is longer, and a few seconds
  // more.
  void run(FunctionRef<void(Collectives&)> op, Seconds patience = Seconds(0));
  // The next run() builds the collectives anew. All members must say so before the same run().
  void renew() { broken_ = true; }
  // of the collectives as last built: the workers in the last run()
  std::vector<int> members() const { return built_for_; }
  i64 rebuilds() const { return rebuilds_; }
  // How many train together; before the first run() and after a failure: how many live.
  int count() const {
    return static_cast<int>((broken_ || built_for_.empty() ? alive() : built_for_).size());
  }

 private:
  std::vector<std::uint64_t> arrivals() const;  // what changes with every return

  Group& group_;
  int min_workers_;
  const Lost lost_;
  std::function<void()> listen_;
  bool broken_ = false;
  std::string out_;  // why this worker is; empty: it takes part
  std::set<int> left_, taken_back_;
  std::vector<std::uint64_t> admitted_;  // by rank: which of its arrivals takes part
  // empty: not built yet, as for a worker that was started again
  std::vector<int> built_for_;
  std::vector<std::uint64_t> built_at_;  // arrivals() then
  i64 rebuilds_ = 0;
};

}  // namespace gossamer::dist
