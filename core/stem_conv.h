// The 7 x 7 convolution at the entry of an ImageNet network as a 4 x 4 one on pairs of pixels
// (fused.h): sixteen channels, where vendors' kernels are fast, in place of three. For backends of
// GPUs; the engine that convolves the pairs is any backend.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer {

// 7 x 7, stride 2, padding 3, three channels, an even number of rows and columns
bool is_stem(const ConvGeometry&);
// What Backend::conv and conv_dw compute for a stem. x: the images, or their pairs [N, H/2, W/2,
// 16] (fused::stem_input, fused::input_pass).
void stem_conv(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
void stem_conv_dw(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& dy,
                  Tensor& dw);

// conv2d(images, w, {.stride = 2, .padding = 3}) of images that lie in pairs: nothing is laid out
// anew. w [K, 7, 7, 3]. They get no gradient.
Tensor conv2d_of_pairs(const Tensor& pairs, const Tensor& w);

}  // namespace gossamer
