// Collectives between processes: one Gloo context of all living workers, made anew when the set
// changes. Private to dist/.
#pragma once

#include <memory>

#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(AsioLink&, Seconds limit);
  ~GlooCollectives() override;

  // All members must call with the same set and epoch. DistError names those that did not, or died
  // meanwhile.
  void rebuild(std::vector<int> members, std::uint32_t epoch, Seconds limit);
  // A worker died (or, our own rank: this worker was given up). Any thread. Clean leavers finish
  // first: their bytes are still to come.
  void died(int rank, bool left);
  // A worker came (back), or takes part now; -1: not known which. Any thread. A rebuild without it
  // that waits for others is given up (MembersChanged): they may be building with the one that
  // came.
  void joined(int rank);
  // An operation of the collectives `key` failed at `rank`, or it has given up this attempt to
  // build them. Any thread.
  void ended(int rank, std::uint64_t key, bool late);

  void all_reduce_sum(const Tensor&) override;
  void all_reduce_sum(std::span<double>, Seconds patience) override;
  void broadcast(const Tensor&, int root) override;
  void all_gather(const Tensor& own, const Tensor& all) override;
  void all_to_all(const Tensor& from, const Tensor& to) override;
  void barrier() override;
  int members() const override;
  void interrupt() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
