// Launches of loss.h.
#include "gossamer/core/cuda/kernels/loss.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {

void FusedBackend::softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how,
                                Tensor& losses, const Tensor& dz) {
  const DType gradients = dz.defined() ? dz.dtype() : logits.dtype();
  const i64 cols = logits.shape(1);
  const bool whole = kernels::fits_vectors(cols, {&logits, &dz});
  with_floating(logits.dtype(), gradients, "softmax_loss", [&]<class T, class G>() {
    const auto launch = [&]<bool in_eights>() {
      for_each_block(logits.device(), logits.shape(0),
                     kernels::SoftmaxLoss<T, G, in_eights>{
                         logits.as<T>(), labels.as<std::int32_t>(), cols, how, losses.as<float>(),
                         dz.defined() ? dz.as<G>() : nullptr});
    };
    if (whole)
      launch.template operator()<true>();
    else
      launch.template operator()<false>();
  });
}

}  // namespace gossamer
