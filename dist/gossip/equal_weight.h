// Equal weight for workers of unlike speed (train.equal_weight). Nobody waits, so a worker that
// does r_i gradients a second counts r_i times, and workers with unlike data minimise
//   sum r_i f_i / sum r_i
// instead of the mean of the f_i. With it the step of worker i is multiplied by min r / r_i, so all
// go equally far in the same time: the slowest takes whole steps, the others smaller ones. (Weights
// of 1/r_i, larger than 1, diverge where the slowest is ten times slower.)
//
// The rates are measured. A worker tells all others how long its steps take, as the value of a
// message `step_time`, again when that has changed by a twentieth. All divide by the longest of
// these times, which is the same number for all, and each multiplies by its own time as it is now.
//
// Pure: no clock, no messages, no thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/setting.h"

namespace gossamer::dist {

struct EqualWeightOptions {
  bool equal_weight = false;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.equal_weight,
      Setting{.name = "equal_weight",
              .about = "gossip: steps are smaller the faster a worker is, so that with unlike data "
                       "all count alike"});
  }
};

// How long the steps of this worker take, from one to the next: waits count.
class StepTime {
 public:
  // A step is done. now: seconds, from any origin.
  void step(double now) {
    if (last_ >= 0) {
      // A pause that is long beside the window, as of a worker that was frozen, counts for no more
      // than that.
      const double took = seconds_ > 0 ? std::min(now - last_, kPause * seconds_) : now - last_;
      seconds_ += (took - seconds_) / static_cast<double>(++count_ < kWindow ? count_ : kWindow);
    }
    last_ = now;
  }
  double seconds() const { return seconds_; }  // 0: not known yet
  // Whether the others should hear of it: true once for each change.
  bool is_news() {
    if (std::abs(seconds_ - said_) <= kNear * said_) return false;
    said_ = seconds_;
    return true;
  }
  double said() const { return said_; }

 private:
  static constexpr i64 kWindow = 64;
  static constexpr double kPause = 64, kNear = .05;
  double last_ = -1, seconds_ = 0, said_ = 0;
  i64 count_ = 0;
};

// What all have said.
class StepTimes {
 public:
  explicit StepTimes(int workers) : all_(static_cast<std::size_t>(workers)) {}
  // Of a worker that is no member too: it may be back sooner than we learn of it.
  void said(int worker, double seconds) {
    if (std::isfinite(seconds) && seconds > 0) of(worker).seconds = seconds, find_longest();
  }
  void lost(int worker) { of(worker).member = false, find_longest(); }
  void joined(int worker) { of(worker).member = true, find_longest(); }
  // Of a step of a worker whose steps take so long. 1 while it is not known, and of one alone.
  double weight(double seconds) const {
    return seconds > 0 && longest_ > 0 && members_ > 1 ? seconds / longest_ : 1;
  }

 private:
  struct Each {
    double seconds = 0;
    bool member = true;
  };
  Each& of(int worker) { return all_[static_cast<std::size_t>(worker)]; }
  void find_longest() {
    longest_ = 0, members_ = 0;
    for (const Each& each : all_)
      if (each.member) longest_ = std::max(longest_, each.seconds), ++members_;
  }
  std::vector<Each> all_;
  double longest_ = 0;
  i64 members_ = static_cast<i64>(all_.size());
};

}  // namespace gossamer::dist
