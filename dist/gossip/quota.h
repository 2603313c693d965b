// How many exchanges a worker does per gradient of its own: `rate`, on average over the workers
// (train.rate, 1 unless set). Times are in gradients.
//
//   poisson   Exchanges are due at random times. The number per gradient is Poisson with mean
//             `rate`, so often 0 (e^-1 at rate 1).
//   exact     Exchanges are due at even distances of 1/rate: exactly `rate` per gradient, or one in
//             1/rate gradients when the rate is below 1.
//
// An exchange has two sides, and both know whose clock started it. Poisson: each side starts half
// of its share, and its neighbours start the other half; the sum of both is Poisson again. Exact:
// each side wants its whole share, and an exchange counts for both sides, so a worker that was
// asked often starts fewer itself.
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>
#include <string>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"

namespace gossamer::dist {

class Quota {
 public:
  // A worker may have this many exchanges waiting to be started before its training waits for them.
  static constexpr std::size_t kMostOwed = 4;

  Quota(const std::string& kind, std::uint64_t seed, std::uint64_t stream)
      : exact_(kind == "exact"), random_(seed, stream) {
    check<ConfigError>(exact_ || kind == "poisson", "quota \"", kind,
                       "\" is unknown; known are: exact, poisson");
  }
  // share: exchanges of this worker per own gradient, started on either side. What is due by `t`
  // stays due.
  void set_share(double share, double t) {
    const double rate = exact_ ? share : share / 2;
    if (rate == rate_) return;
    while (!due_.empty() && due_.back() > t) due_.pop_back();
    last_ = t;
    rate_ = rate;
    if (rate_ <= 0) due_.clear();
    fill();
  }
  // when the first one not yet done is due
  double next() const { return due_.empty() ? INFINITY : due_.front(); }
  // from then on more than kMostOwed are due
  double hold_at() const { return due_.size() > kMostOwed ? due_[kMostOwed] : INFINITY; }
  void exchanged(bool started_here) {
    if (!due_.empty() && (started_here || exact_)) due_.pop_front(), fill();
  }
  void drop(double t) {
    while (!due_.empty() && due_.front() <= t) due_.pop_front(), fill();
  }

 private:
  void fill() {
    while (rate_ > 0 && due_.size() <= kMostOwed)
      due_.push_back(last_ += exact_ ? 1 / rate_ : random_.exponential() / rate_);
  }

  bool exact_;
  Rng random_;
  double rate_ = 0, last_ = 0;
  std::deque<double> due_;  // ascending; at least kMostOwed + 1 when rate > 0
};

}  // namespace gossamer::dist
