// Bytes of images as a network's input.
// Threads: any, as an op (ops.h).
#pragma once

#include <span>

#include "gossamer/core/tensor.h"

namespace gossamer {

constexpr i64 kMostChannels = 64;

// images u8 [N, H, W, C] on any device -> (u/255 - mean)/std of this type, where mean and std have
// C numbers, 1 to 64. ShapeError. Outside the tape.
Tensor normalize(const Tensor& images, std::span<const float> mean, std::span<const float> std,
                 DType type);

}  // namespace gossamer
