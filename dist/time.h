// Time as A2CiD2 counts it, in gradients of this worker, and the rate that eta follows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "gossamer/core/dtype.h"

namespace gossamer::dist {

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A limit on waiting that is spent in turns. Of a turn in which the whole process stood still
// (SIGSTOP, a suspended machine) no more than its length counts: the threads that would have ended
// the wait stood still as well.
class WaitBudget {
 public:
  explicit WaitBudget(double seconds) : left_(seconds) {}
  bool over() const { return left_ <= 0; }
  double turn() const { return std::min(left_, 1.0); }  // wait this long at most, in seconds
  void waited(double seconds) { left_ -= std::min(seconds, turn()); }

 private:
  double left_;
};

// While one lives, sleeps of this thread end when they are due; usually Linux lets them end up to
// 50 us later.
class PreciseSleep {
 public:
  PreciseSleep();
  ~PreciseSleep();
  PreciseSleep(const PreciseSleep&) = delete;
  PreciseSleep& operator=(const PreciseSleep&) = delete;

 private:
  int before_ = 0;
};

// Gradient k ends at time k exactly; in between, time follows the wall clock in mean gradient
// durations and stops short of the next integer. So mixing per gradient doesn't depend on how
// evenly the machine runs, and a worker that pauses (evaluation) stands still.
class GradientClock {
 public:
  double now(double wall) const {
    if (mean_ <= 0) return static_cast<double>(count_);
    return static_cast<double>(count_) + std::clamp((wall - began_) / mean_, 0.0, 1.0);
  }
  // A gradient is done: it took from resume() to now.
  void tick(double wall) {
    const double took = wall - began_;
    if (started_) mean_ = mean_ > 0 ? 0.5 * mean_ + 0.5 * took : took;
    ++count_;
    resume(wall);
  }
  // The next gradient begins now: what was waited for communication is not compute time.
  void resume(double wall) { began_ = wall, started_ = true; }
  double mean() const { return mean_; }  // seconds a gradient; 0 until one was measured
  i64 count() const { return count_; }
  // when `t` will be reached, if before the next gradient ends; else infinity
  double wall_at(double t) const {
    return mean_ > 0 && t < static_cast<double>(count_) + 1
               ? began_ + (t - static_cast<double>(count_)) * mean_
               : INFINITY;
  }

 private:
  i64 count_ = 0;
  double began_ = 0, mean_ = 0;
  bool started_ = false;
};

// eta = 0.85 eta(rate 1) * measured exchanges per own gradient. With nominal eta and fewer real
// exchanges than assumed, A2CiD2 diverges on large rings (n = 64: below 0.65 of the rate); so eta
// follows what is really achieved, from below.
class RateTracker {
 public:
  void gradient() {
    window_.push_back(0);
    if (window_.size() > kWindow) window_.pop_front();
  }
  void exchange() {
    if (!window_.empty()) ++window_.back();
  }
  double rate() const {
    double sum = 0;
    for (const int count : window_) sum += count;
    return sum / static_cast<double>(std::max<std::size_t>(window_.size(), kFirst));
  }
  static constexpr double kSafety = 0.85;

 private:
  // the first estimates are too small: the safe side
  static constexpr std::size_t kWindow = 64, kFirst = 8;
  std::deque<int> window_;
};

}  // namespace gossamer::dist
