// One step's gradients, summed over all members while backward still works on them: a thread of its
// own takes bucket after bucket, always in the order of the block, as soon as a bucket and all
// before it are ready.
//
//   training  ── backward ─▸ready(1)─▸ready(0)─── backward ───▸ready(2)─ finish() waits ─ update
//   sums      ·························bucket 0 ─ bucket 1 ············bucket 2 ─ complete ·····
//
// The gradients stay as they are: after a failure the sums can be made again, with other members.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/dist/reducer.h"

namespace gossamer::dist {

class GradientSum {
 public:
  GradientSum(const Tensor& grads, std::vector<FlatRange> buckets, std::unique_ptr<Reducer>);
  ~GradientSum();  // gives up what is under way

  // The thread that trains makes all these calls.
  // Sums over these members from now on. Sums that were begun are to be made again. Waits until the
  // thread of sums is ready.
  void open(Collectives&, const std::vector<int>& members);
  void begin();  // a new gradient begins
  // Both once a bucket, in any order. The first only marks the end of its gradients in the work of
  // the device, also when that is recorded for later; the second, behind it, gives buckets to the
  // thread: nothing if no gradient was begun.
  void mark(std::size_t bucket) { reducer_->mark(bucket); }
  void ready(std::size_t bucket);
  std::size_t launched() const { return next_; }  // buckets given to the thread since begin()
  // Gives the thread what is left of a gradient, beginning if need be, and waits until its sum is
  // there or has failed, for this long at most: whether it is. The collectives are then free.
  bool complete_within(Seconds);
  // The same without a limit, and the end of this gradient. A failure is thrown here.
  void finish();
  bool begun() const { return begun_; }
  // Takes back a gradient that was begun, whatever its sum waits for. Collectives that were in use
  // are to be rebuilt by all.
  void give_up();
  // f32, the layout of the gradients; valid after finish()
  const Tensor& sum() const { return sum_; }
  double busy_s() const;  // of the thread, so far

 private:
  void give(std::function<void()> job);
  void wait();
  void give_rest();
  void throw_failure();
  void run();

  const Tensor grads_, sum_;
  const std::vector<FlatRange> buckets_;
  const std::unique_ptr<Reducer> reducer_;
  bool begun_ = false, whole_ = false;  // whole: all of it was launched
  std::vector<bool> ready_;
  std::size_t next_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, closing_ = false;
  std::exception_ptr failure_;  // until open() or finish(); no job runs meanwhile
  double busy_s_ = 0;
  std::thread thread_;
};

}  // namespace gossamer::dist
