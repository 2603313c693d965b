// The 7 x 7 convolution at the entry of an ImageNet network as a 4 x 4 one on pairs of pixels
// (fused.h): sixteen channels, where vendors' kernels are fast, in place of three. For backends of
// GPUs; the engine that convolves the pairs is any backend.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer {

// 7 x 7, stride 2, padding 3, three channels, an even number of rows and columns
bool is_stem(const ConvGeometry&);
// What Backend::conv and conv_dw compute for a stem.
void stem_conv(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
void stem_conv_dw(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& dy,
                  Tensor& dw);

}  // namespace gossamer
