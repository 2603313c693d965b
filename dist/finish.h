// One model out of many, at the end of training and for a look at it; the same for all methods.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/parallel.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {

// The mean of all members' values and their merged batch-norm statistics, kept aside: nothing is
// changed, so that a death in one of the collectives leaves everything as it was. When it returns,
// all have the average, and this worker may end at once.
struct AveragedModel {
  Tensor values;
  std::vector<double> buffers;
  double distance = 0;  // sqrt(mean |x_i - mean|^2)
  // Ranks whose models are not in the mean, for it would be ruined: not finite, or of 1,000 times
  // the median norm. None if no model is finite.
  std::vector<int> left_out;
};
// Collective. weight: how much this member's values count in the mean (push-sum); none: all alike.
AveragedModel average_of_models(const FlatParams&, Group&, std::optional<double> weight = {});
// Replaces values and statistics by the average, and refreshes the compute copy.
void adopt(FlatParams&, const AveragedModel&);

// The text of the error when this worker is done and the workers `late` still train after `limit`
// seconds.
std::string unfinished(int self, const std::vector<int>& late, double limit);

// Both of these, collectively: every living worker adopts the average. Returns it.
AveragedModel average_models(FlatParams&, Group&, Membership&);

// A sum over all workers that those whose values are not finite do not ruin.
struct FiniteSum {
  std::vector<int> left_out;  // ranks whose values are not finite: the sum is made without them
  std::string ruined;         // a sentence, if the sum is not finite all the same
  bool leaves_out(int rank) const { return std::ranges::find(left_out, rank) != left_out.end(); }
};
// Collective; the same result on all. sum(so_far) adds up `what` of all workers but those that are
// left out so far, and says whether the sum is finite. It is called once; a second time if the sum
// is not finite, the values of some workers are not (`own_is_finite`), and those of others are.
FiniteSum finite_sum(const char* what, Group&, FunctionRef<bool()> own_is_finite,
                     FunctionRef<bool(const FiniteSum& so_far)> sum);

// Tells of a worker whose values are left out once, until they count again.
class LeftOut {
 public:
  void now(const std::vector<int>& ranks,
           const std::function<void(const std::string& what, int peer)>& on_fault);

 private:
  std::vector<int> before_;
};

// Collective. Merges the batch-norm statistics of the members in place (buffers "….running_mean"
// and "….running_var").
void merge_batch_norm(FlatParams&, Collectives&);

// sqrt(mean over members of |x_i - mean|^2) of the members' copies [n] f32. Collective: all members
// call it.
double exact_consensus_distance(const Tensor& copy, Collectives&);

}  // namespace gossamer::dist
