// One model out of many, at the end of training and for a look at it; the same for all methods.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {

// The mean of all members' values and their merged batch-norm statistics, kept aside: nothing is
// changed, so that a death in one of the collectives leaves everything as it was. The last
// collective is a barrier.
struct AveragedModel {
  Tensor values;
  std::vector<double> buffers;
  double distance = 0;  // sqrt(mean |x_i - mean|^2)
  // Ranks whose models are not in the mean, for it would be ruined: not finite, or of 1,000 times
  // the median norm. None if no model is finite.
  std::vector<int> left_out;
};
// weight: of this member's values in the mean (push-sum); none: all alike.
AveragedModel average_of_models(const FlatParams&, Group&, std::optional<double> weight = {});
void adopt(FlatParams&, const AveragedModel&);  // and refreshes the compute copy

// The error of a worker that is done while others are not within `limit` seconds. late: who.
std::string unfinished(int self, const std::vector<int>& late, double limit);

// values <- mean over the living, batch-norm statistics merged, compute copy refreshed.
AveragedModel average_models(FlatParams&, Group&, Membership&);

// own: this worker's part of `sum`, which is the same on all. Empty if the sum is finite; else, on
// all members alike, a sentence that names the workers whose parts are not. Collective.
std::string not_finite(const char* what, const Tensor& own, const Tensor& sum, Group&);

// Batch-norm statistics of the members, merged in place (buffers "….running_mean",
// "….running_var").
void merge_batch_norm(FlatParams&, Collectives&);

// sqrt(mean over members of |x_i - mean|^2) of the members' copies [n] f32. Collective: all members
// call it. `copy` is used up.
double exact_consensus_distance(Tensor copy, Collectives&);

}  // namespace gossamer::dist
