// How the gradients of a bucket become the sum of those of all members. Between CPUs by the group's
// collectives; between GPUs by NCCL, or over the host (dist/gpu/). Who calls it, and in which
// order: rounds/gradient_sum.h.
#pragma once

#include <algorithm>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Reducer {
 public:
  virtual ~Reducer() = default;
  // The thread that trains: this bucket's gradients are written by the work that it has given its
  // device so far; or, while it records a graph, by that of each launch, after which add() follows.
  virtual void mark(std::size_t bucket) { (void)bucket; }
  // May be called by any thread: what waits for others fails soon, until open().
  virtual void interrupt() = 0;

  // --- One thread; nobody else uses `all` meanwhile. Every wait is limited; a DistError names
  // the worker that did not come. All members together, at the start and whenever they have
  // changed. members: ascending.
  virtual void open(Collectives& all, const std::vector<int>& members) = 0;
  // sum <- sum over the members of `own` (both f32 [n]), now or before complete() returns. The same
  // buckets in the same order on all members.
  virtual void add(std::size_t bucket, const Tensor& own, Tensor sum) = 0;
  // Returns when all sums are there, the same bits for all members.
  virtual void complete() {}
  // After a failure: returns when nothing touches the gradients and sums any more. The next call is
  // open().
  virtual void give_up() {}
};

// Sums tensors on a CPU by the collectives of the group.
class HostReducer final : public Reducer {
 public:
  void interrupt() override {
    if (all_) all_->interrupt();
  }
  void open(Collectives& all, const std::vector<int>&) override { all_ = &all; }
  void add(std::size_t, const Tensor& own, Tensor sum) override {
    // by this thread: backward has the others
    std::ranges::copy(own.span<float>(), sum.span<float>().begin());
    all_->all_reduce_sum(sum);
  }

 private:
  Collectives* all_ = nullptr;
};

}  // namespace gossamer::dist
