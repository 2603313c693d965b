// The 7 x 7 convolution with stride 2 and padding 3 at the entry of an ImageNet network as a 4 x 4
// one with stride 1 on pairs of pixels: 2 x 2 pixels side by side as channels, padded by 2 before
// and 1 behind. y[p] looks at pixels 2p - 3 … 2p + 3, which lie in pairs p - 2 … p + 1. cuDNN is
// slow on three channels of 16 bits and fast on sixteen. Kernels: kernels/stem.cpp.
#pragma once

#include "gossamer/core/backend.h"

namespace gossamer::stem {

inline constexpr i64 kChannels = 16;  // (2 dy + dx) 3 + c, then four zeros

// 7 x 7, stride 2, padding 3, three channels, an even number of rows and columns
bool fits(const ConvGeometry&);
// The convolution on pairs, padded by 2 before and, as the last output needs it, by 1 behind.
ConvGeometry on_pairs(const ConvGeometry&);
// What Backend::conv and conv_dw compute for such a geometry; `engine` convolves the pairs.
void conv(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
void conv_dw(Backend& engine, const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);

// [N, H, W, 3] (H, W even) -> [N, H/2, W/2, 16]; one type
void pair_images(const Tensor& images, Tensor& pairs);
Tensor pairs_of(const Tensor& images);
// [K, 7, 7, 3] f32 or the type of pairs -> [K, 4, 4, 16], a floating type
void pair_filters(const Tensor& w, Tensor& pairs);
Tensor filters_of(const Tensor& w, DType);
// [K, 4, 4, 16], a floating type -> [K, 7, 7, 3] f32
void unpair_filters(const Tensor& d_pairs, Tensor& dw);

}  // namespace gossamer::stem
