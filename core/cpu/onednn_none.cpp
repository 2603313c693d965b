// What onednn_calls.h declares, in a build without oneDNN.
#ifndef GOSSAMER_HAS_ONEDNN
#include "gossamer/core/cpu/onednn_calls.h"

namespace gossamer::cpu {
namespace {
[[noreturn]] void none() {
  fail<DeviceError>("this build has no oneDNN: install libdnnl-dev, or say -DGOSSAMER_ONEDNN=ON");
}
}  // namespace

class OneDnnWeights {};

bool has_onednn() { return false; }
bool onednn_has_bf16() { return false; }
void onednn_limit_to_avx2() {}
bool onednn_conv(const ConvGeometry&, const Tensor&, const Tensor&, Tensor&) { none(); }
std::shared_ptr<OneDnnWeights> onednn_keep_weights(const Tensor&) { none(); }
Tensor onednn_weights_as_they_came(OneDnnWeights&) { none(); }
bool onednn_conv(const ConvGeometry&, const Tensor&, OneDnnWeights&, const ConvTail&, Tensor&) {
  none();
}
bool onednn_conv_dx(const ConvGeometry&, const Tensor&, const Tensor&, Tensor&) { none(); }
bool onednn_conv_dw(const ConvGeometry&, const Tensor&, const Tensor&, Tensor&) { none(); }
void onednn_gemm(bool, bool, const Tensor&, const Tensor&, Tensor&, bool) { none(); }

}  // namespace gossamer::cpu
#endif
