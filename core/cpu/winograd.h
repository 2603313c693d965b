// Winograd convolution F(4x4, 3x3) on NHWC (Lavin and Gray, "Fast algorithms for convolutional
// neural networks", 2015): 36 multiplications instead of 144 for a tile of 4 x 4 results.
// With stride 2 it takes 81: two taps stand on inputs of one parity, F(4, 2), the third on the
// others. Arithmetic is f32 for tensors of any floating type; errors stay near 1e-6 of the largest
// value.
#pragma once

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/packed_weights.h"

namespace gossamer::cpu {

// 3x3, stride 1 or 2, padding 1, dilation 1, one group, channels in multiples of 16.
bool winograd_fits(const ConvGeometry&);

void winograd_conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
// The same in inference. The weights are transformed once, for the set of kernels in use.
PackedWeights winograd_pack(const ConvGeometry&, const Tensor& w);
void winograd_conv(const ConvGeometry&, const Tensor& x, const PackedWeights&, const ConvTail&,
                   Tensor& y);
void winograd_conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
void winograd_conv_dx_add(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
void winograd_conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);

}  // namespace gossamer::cpu
