// Launches of loss.h.
#include "gossamer/core/cuda/kernels/loss.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {

void FusedBackend::softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how,
                                Tensor& losses, const Tensor& dz) {
  const DType gradients = dz.defined() ? dz.dtype() : logits.dtype();
  with_floating(logits.dtype(), gradients, "softmax_loss", [&]<class T, class G>() {
    for_each_block(
        logits.device(), logits.shape(0),
        kernels::SoftmaxLoss<T, G>{logits.as<T>(), labels.as<std::int32_t>(), logits.shape(1), how,
                                   losses.as<float>(), dz.defined() ? dz.as<G>() : nullptr});
  });
}

}  // namespace gossamer
