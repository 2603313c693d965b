// See classification.h.
#include "gossamer/nn/train/classification.h"

#include "gossamer/core/ops.h"

namespace gossamer::nn {
namespace {

Tensor labels_before(const Tensor& labels) {
  const i64 n = labels.shape(0);
  Tensor out = Tensor::empty(labels.shape(), labels.dtype(), labels.device());
  out.slice(0, 1).copy_from(labels.slice(n - 1, n));
  if (n > 1) out.slice(1, n).copy_from(labels.slice(0, n - 1));
  return out;
}

}  // namespace

Tensor mixed_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& shares,
                           float label_smoothing) {
  const CrossEntropyOptions options{.label_smoothing = label_smoothing};
  // Cross entropy is linear in its target, so the weighted sum of two is exactly the loss of the
  // mixed label.
  return add(mul(cross_entropy(logits, labels, options), shares.slice(0, 1)),
             mul(cross_entropy(logits, labels_before(labels), options), shares.slice(1, 2)));
}

Tensor classification_scores(const Tensor& logits, const Tensor& labels, int k) {
  Tensor out = Tensor::empty({3}, DType::f32, logits.device());
  out.slice(0, 1).copy_from(cross_entropy(logits, labels).reshape({1}));
  out.slice(1, 2).copy_from(count_top_k(logits, labels, 1).reshape({1}));
  out.slice(2, 3).copy_from(count_top_k(logits, labels, k).reshape({1}));
  return out;
}

}  // namespace gossamer::nn
