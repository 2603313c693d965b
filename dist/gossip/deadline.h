// How long to wait before something is given up, learnt from how long it took so far: median + k *
// MAD. A pure class, no clock.
//
// A fixed limit is wrong twice: too long where a transfer takes 20 ms and the partner is frozen,
// too short on a link that is slower than its author thought. The median and the median absolute
// deviation do not move when a few transfers were disturbed.
#pragma once

#include <cstddef>
#include <deque>

namespace gossamer::dist {

class AdaptiveDeadline {
 public:
  // Seconds; the limit stays in [lower, upper]. first: the limit until kFirst came through; 0:
  // upper, for what is costly to repeat. ConfigError unless 0 < lower <= upper and k > 0.
  AdaptiveDeadline(double lower, double upper, double first = 0, double k = 8);

  void took(double seconds);  // one came through
  // one was given up at limit(): the next may take twice as long, until one comes through
  void missed();
  double limit() const;

  // of the latest; an odd number has a middle
  static constexpr std::size_t kWindow = 33, kFirst = 5;

 private:
  double lower_, upper_, first_, k_;
  double patience_ = 1;
  std::deque<double> window_;
};

}  // namespace gossamer::dist
