// Convolutions in inference: what is made once of weights and bias, and the stem's on pairs of
// pixels. One call computes the sums and what follows them where the engine can.
#include <mutex>

#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/stem.h"

namespace gossamer {
namespace {

class PackedOnGpu final : public PackedConv {
 public:
  explicit PackedOnGpu(const Tensor& w) : w_(w) {}
  Tensor weights() override { return w_; }
  // in the type of the weights: vendors add no other
  const Tensor& bias(const Tensor& f32) {
    std::call_once(bias_once_, [&] { bias_ = f32.to(w_.dtype()); });
    return bias_;
  }
  const Tensor& stem() {
    std::call_once(stem_once_, [&] { stem_ = stem::filters_of(w_, w_.dtype()); });
    return stem_;
  }

 private:
  const Tensor w_;
  std::once_flag bias_once_, stem_once_;
  Tensor bias_, stem_;
};

}  // namespace

std::unique_ptr<PackedConv> FusedBackend::pack_conv(const Tensor& w) {
  return std::make_unique<PackedOnGpu>(w);
}

void FusedBackend::conv_inference(const ConvGeometry& g, const Tensor& x, PackedConv& weights,
                                  const ConvTail& tail, Tensor& y) {
  if (y.numel() == 0) return;
  auto& packed = static_cast<PackedOnGpu&>(weights);
  const Tensor& bias = packed.bias(tail.bias);
  const Tensor add = tail.add ? y : Tensor();
  Tensor out = tail.add ? Tensor::empty(y.shape(), y.dtype(), y.device()) : y;
  const bool done = convolves_in_pairs(g, x.dtype())
                        ? conv_with_tail(stem::on_pairs(g), stem::pairs_of(x), packed.stem(), bias,
                                         add, tail.relu, out)
                        : conv_with_tail(g, x, packed.weights(), bias, add, tail.relu, out);
  if (done)
    y = out;
  else
    Backend::conv_inference(g, x, weights, tail, y);
}

}  // namespace gossamer
