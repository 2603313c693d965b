// Launches of loss.h.
#include "gossamer/core/cuda/kernels/loss.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {
namespace {

void launch_loss(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
                 const Tensor& dz, kernels::Normaliser* norms) {
  const DType gradients = dz.defined() ? dz.dtype() : logits.dtype();
  const i64 cols = logits.shape(1);
  const bool whole = kernels::fits_vectors(cols, {&logits, &dz});
  with_floating(logits.dtype(), gradients, "softmax_loss", [&]<class T, class G>() {
    const auto launch = [&]<bool in_eights>() {
      for_each_block(logits.device(), logits.shape(0),
                     kernels::SoftmaxLoss<T, G, in_eights>{
                         logits.as<T>(), labels.as<std::int32_t>(), cols, how, losses.as<float>(),
                         dz.defined() ? dz.as<G>() : nullptr, norms});
    };
    if (whole)
      launch.template operator()<true>();
    else
      launch.template operator()<false>();
  });
}

static_assert(sizeof(kernels::Normaliser) == 2 * sizeof(float));
kernels::Normaliser* normalisers(const Tensor& norms) {
  return static_cast<kernels::Normaliser*>(norms.data());
}

}  // namespace

void FusedBackend::softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how,
                                Tensor& losses, const Tensor& dz) {
  launch_loss(logits, labels, how, losses, dz, nullptr);
}

void FusedBackend::softmax_norms(const Tensor& logits, const Tensor& labels, const LossRows& how,
                                 Tensor& losses, Tensor& norms) {
  launch_loss(logits, labels, how, losses, {}, normalisers(norms));
}

void FusedBackend::softmax_back(Tensor& logits, const Tensor& labels, const LossRows& how,
                                const Tensor& norms, const Tensor& g, const Tensor& share) {
  const i64 cols = logits.shape(1);
  kernels::with_vectors("softmax_back", logits, cols, {&logits}, [&]<class T, bool whole>() {
    for_each_block(
        logits.device(), logits.shape(0),
        kernels::SoftmaxBack<T, whole>{logits.as<T>(), labels.as<std::int32_t>(), cols, how,
                                       normalisers(norms), g.as<float>(), share.as<float>()});
  });
}

}  // namespace gossamer
