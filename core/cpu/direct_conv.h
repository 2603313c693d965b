// Convolutions in f32 as products of packed panels: any kernel, stride, padding, dilation and
// number of groups.
#pragma once

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/packed_weights.h"

namespace gossamer::cpu {

// Tensors are f32 and not empty.
void direct_conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
// The same in inference, without groups. The weights are packed once, for the set of kernels in
// use.
PackedWeights direct_pack(const ConvGeometry&, const Tensor& w);
void direct_conv(const ConvGeometry&, const Tensor& x, const PackedWeights&, const ConvTail&,
                 Tensor& y);
void direct_conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
void direct_conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);

}  // namespace gossamer::cpu
