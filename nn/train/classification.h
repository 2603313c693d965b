// The loss and the scores of a network that classifies.
// Threads: any.
#pragma once

#include "gossamer/core/tensor.h"

namespace gossamer::nn {

// The mean cross entropy of a batch that mixup or CutMix has blended: row i of the inputs is a
// blend of itself and the row before it (row 0: and the last one). logits [N, classes]; labels i32
// [N]; shares f32 [2]: the weights of a row's own label and of the label before it. All on one
// device. Returns f32 [].
Tensor mixed_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& shares,
                           float label_smoothing = 0);

// f32 [3] on the device of the logits: the mean cross entropy; how many of the N rows have their
// label first; how many have it among the first k. logits [N, classes]; labels i32 [N]. A label
// whose logit equals another one ranks after it. ShapeError.
Tensor classification_scores(const Tensor& logits, const Tensor& labels, int k = 5);

}  // namespace gossamer::nn
