// The resize behind image.h: any window of the resized picture, from a picture of which only a part was decoded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

class JpegDevice;                                          // jpeg_device.h

// One axis: output i is the weighted sum of inputs first[i] … first[i] + count[i] - 1, weights in 22-bit fixed point.
struct Axis {
  int taps = 0;
  std::vector<int> first, count;
  std::vector<std::int32_t> weights;                       // taps for each output
  int begin() const { return std::min(first.front(), first.back()); }
  int end() const { return std::max(first.front() + count.front(), first.back() + count.back()); }
};
// Outputs begin … begin + outputs - 1 of `in` pixels resized to `out`; mirrored: the last of them first, so that a flip costs nothing.
Axis make_axis(int in, int out, int begin, int outputs, bool mirrored = false);

// Which code does it: the widest vector instructions that the compiler may use, or, for comparing, narrower ones or plain C++. The bytes are
// the same. A kind that was not compiled in is a ConfigError.
enum class ResizePasses { fastest, avx512, avx2, plain };
std::vector<ResizePasses> compiled_passes();               // without `fastest`

// Output window of resizing `from` to a width x height picture. horizontal and vertical are made by make_axis for that window;
// src holds at least the pixels they need, its first pixel being (src_x, src_y) counted from the corner of `from`.
void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal, const Axis& vertical, std::vector<std::uint8_t>& scratch,
                   std::uint8_t* dst, ResizePasses = ResizePasses::fastest);

// The axes of a resize and where they begin in the whole picture. Told the size of the whole, PickWindow says which.
struct Window {
  int x = 0, y = 0;
  Axis horizontal, vertical;
};
using PickWindow = FunctionRef<Window(ImageSize)>;
// Decodes what the window needs and resizes it, row by row: the part at full size is never in memory as a whole (of JPEG; others need
// `spare`). DataError as decode(). With a `device` JPEG files are decoded by that, as far as it can.
void decode_resized(std::span<const std::byte>, const std::string& name, PickWindow, Image& spare, std::vector<std::uint8_t>& scratch,
                    std::uint8_t* dst, JpegDevice* device = nullptr);

}  // namespace gossamer::data
