// Which distance between two models is too far to be true: a learning rate that went wrong, a bit
// that fell over, NaN. One such snapshot would ruin its receiver, and through it all workers. Pure.
//
// A worker's limit is 1,000 times the larger of two numbers, so that an exchange must look wrong by
// both:
//   the median of its last distances: a jump of the learning rate, a worker back from a long
//   silence
//     and the first steps after equal starts stay below;
//   the norm of its own model: two that train the same are no further apart than the sum of their
//     norms, however small their distances were before, e.g. at the end of a cosine. 1,000 leaves
//     room for models of unlike norms.
// Until it has seen some distances above 0 there is no median: then the limit is 1,000,000 norms,
// and none for a model of zeros, which has no scale yet.
//
// Each snapshot carries its sender's limit, and the smaller one of the two counts. Both sides
// compute the same distance of the same two snapshots, so both refuse or none does, and the sum
// over workers stays what it is. (The distance has the same bits on both sides if their machines
// have the same instructions; else the last bits may differ, which matters to a distance that
// meets the limit in its first twelve digits.)
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace gossamer::dist {

class UsualDistance {
 public:
  double limit() const;
  // of an exchange that was applied
  void accepted(double distance);
  // A false alarm ends by itself: the norm is measured anew.
  void refused() { norm_due_ = true; }

  // Before an exchange: whether the norm of the own model is to be measured. At the exchanges 1, 2,
  // 4, 8 …, which costs nothing in the long run, and after each that was refused.
  bool wants_norm();
  void norm(double own) { norm_ = own; }
  bool own_is_finite() const { return std::isfinite(norm_); }

 private:
  std::vector<double> last_;  // above 0
  std::size_t next_ = 0;      // of last_, to be replaced
  std::size_t begun_ = 0, measure_at_ = 1;
  bool norm_due_ = false;
  double norm_ = 0;
};

// The decision of both sides, from the same three numbers. What is not finite is always too far.
bool too_far(double distance, double one_limit, double other_limit);

// The consensus distance from `squared`, the mean of |x_i - x_j|^2. For two of n workers drawn at
// random, that is 2n/(n-1) mean |x_i - mean|^2 (consensus_estimate.h). The partners of a round are
// closer to each other than that: on a sparse graph it is a lower bound then.
double estimated_consensus_distance(double squared, int workers);

}  // namespace gossamer::dist
