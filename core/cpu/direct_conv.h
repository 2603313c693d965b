// Convolutions in f32 as products of packed panels: any kernel, stride, padding and dilation.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

// groups == 1; tensors are f32, contiguous, not empty. The formulas are those of Backend.
bool direct_fits(const ConvGeometry&);
void direct_conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
void direct_conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
void direct_conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);

}  // namespace gossamer::cpu
