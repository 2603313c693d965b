// Convolutions with a window of one pixel, as the matrix products that they are (products.h).
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::cpu {

bool is_pointwise(const ConvGeometry&);
void pointwise_conv(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
void pointwise_conv_dx(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
// adds to what dx holds
void pointwise_conv_dx_add(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
void pointwise_conv_dw(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);

}  // namespace gossamer::cpu
