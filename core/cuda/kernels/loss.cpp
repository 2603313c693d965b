// Launches of loss.h.
#include "gossamer/core/cuda/kernels/loss.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {

void FusedBackend::softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how,
                                Tensor& losses, const Tensor& dz) {
  with_floating(logits.dtype(), "softmax_loss", [&]<class T>() {
    for_each_block(
        logits.device(), logits.shape(0),
        kernels::SoftmaxLoss<T>{logits.as<T>(), labels.as<std::int32_t>(), logits.shape(1), how,
                                losses.as<float>(), dz.defined() ? dz.as<T>() : nullptr});
  });
}

}  // namespace gossamer
