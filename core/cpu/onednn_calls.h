// oneDNN behind plain functions: convolutions on NHWC tensors and gemm, for f32 and bf16 (f16:
// never). Primitives are made once per geometry. In a build without oneDNN the functions that
// compute throw DeviceError.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

bool has_onednn();  // this build

// These calls return false, and do nothing, if they need a new primitive while the program exits,
// because oneDNN cannot make one then.
[[nodiscard]] bool onednn_conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
// The weights of a convolution in inference, once for each layout that the primitives wanted so
// far: one copy if all calls want the same.
class OneDnnWeights;
std::shared_ptr<OneDnnWeights> onednn_keep_weights(const Tensor& w);
Tensor onednn_weights_as_they_came(OneDnnWeights&);
[[nodiscard]] bool onednn_conv(const ConvGeometry&, const Tensor& x, OneDnnWeights&,
                               const ConvTail&, Tensor& y);
[[nodiscard]] bool onednn_conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w,
                                  Tensor& dx);
[[nodiscard]] bool onednn_conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy,
                                  Tensor& dw);

// for benchmarks: products are ours
void onednn_gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add);
// the CPU has avx512_bf16 (elsewhere oneDNN is slow or throws)
bool onednn_has_bf16();
void onednn_limit_to_avx2();  // DeviceError after its first use

}  // namespace gossamer::cpu
