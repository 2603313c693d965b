// From decoded bytes to the input of a network in one pass on its device: crop, antialiased resize,
// flip, normalisation and type (cuda/kernels/input.cpp). For GPUs; on a CPU the same blocks are
// emulated, slowly, for tests. Outside the tape; waits for nothing.
// Threads: any, as an op (ops.h).
#pragma once

#include <array>
#include <span>

#include "gossamer/core/tensor.h"

namespace gossamer {

// The shorter side that a picture is resized to before a centre crop of this size: the same up to
// 64 pixels, else 256/224 of it, rounded down.
constexpr int usual_resize(int size) { return size <= 64 ? size : size * 256 / 224; }

// One picture of a batch: where its bytes are and what becomes of it. A box of width x height
// pixels is resized to to_width x to_height with Pillow's antialiased triangle filter (taps end at
// the box); the output is a window of that, from (x, y) on, mirrored if flip.
struct Picture {
  // of the box's first pixel in the batch's bytes; only pixels that are used need be there
  std::int64_t offset = 0;
  std::int32_t pitch = 0;  // bytes from row to row
  std::int32_t width = 0, height = 0, to_width = 0, to_height = 0, x = 0, y = 0;
  std::int32_t flip = 0;
};
// Before a batch goes to the device, where reads are not checked: ShapeError names the picture
// whose window or bytes do not exist.
void check_pictures(std::span<const Picture>, i64 bytes, int height, int width);
// out [N, H, W, 3], of a floating type, = (value/255 - mean)/std. bytes: u8, RGB; pictures: N times
// struct Picture as u8. Intermediate values are f32, so the result is within 1/255 of that of
// resize() in data/codec/resize.h, which rounds to bytes twice. ShapeError, DeviceError.
void input_pass(const Tensor& bytes, const Tensor& pictures, const std::array<float, 3>& mean,
                const std::array<float, 3>& std, Tensor& out);

}  // namespace gossamer
