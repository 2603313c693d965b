// The resize behind image.h: any window of the resized picture, from a picture of which only a part
// was decoded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// One axis: output i is the weighted sum of inputs first[i] … first[i] + count[i] - 1, weights in
// 22-bit fixed point.
struct Axis {
  int taps = 0;
  std::vector<int> first, count;
  std::vector<std::int32_t> weights;  // taps for each output
  int begin() const { return std::min(first.front(), first.back()); }
  int end() const { return std::max(first.front() + count.front(), first.back() + count.back()); }
};
// Outputs begin … begin + outputs - 1 of `in` pixels resized to `out`; mirrored: the last of them
// first, so that a flip costs nothing.
Axis make_axis(int in, int out, int begin, int outputs, bool mirrored = false,
               Shrink = Shrink::bilinear);

// Which code does it: the widest vector instructions that the compiler may use, or, for comparing,
// narrower ones or plain C++. The bytes are the same. A kind that was not compiled in is a
// ConfigError.
enum class ResizePasses { fastest, avx512, avx2, plain };
std::vector<ResizePasses> compiled_passes();  // without `fastest`

// Output window of resizing `from` to a width x height picture. horizontal and vertical are made by
// make_axis for that window; src holds at least the pixels they need, its first pixel being (src_x,
// src_y) counted from the corner of `from`.
void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal,
                   const Axis& vertical, std::vector<std::uint8_t>& scratch, std::uint8_t* dst,
                   ResizePasses = ResizePasses::fastest);

// What is wanted of a picture: its box `from` is resized to width x height, and of that the square
// from (x, y) on is taken, mirrored or not.
struct Crop {
  Box from;
  int width = 0, height = 0, x = 0, y = 0, side = 0;
  bool mirrored = false;
  Shrink filter = Shrink::bilinear;
  Axis horizontal() const { return make_axis(from.width, width, x, side, mirrored, filter); }
  Axis vertical() const { return make_axis(from.height, height, y, side, false, filter); }
  // the pixels of the picture that it depends on
  Box needed() const;
};
// Told the size of the whole picture, says which crop.
using PickCrop = FunctionRef<Crop(ImageSize)>;

struct Source {
  std::span<const std::byte> bytes;
  const std::string& name;  // for messages
  // width > 0: the bytes are pixels of a picture of that size; else a file
  ImageSize raw{};
};
// Where the result goes. Asked once, when the source has been read and nothing can be wrong with it
// any more; null: nobody wants it.
using Place = FunctionRef<std::uint8_t*()>;
// Decodes what the crop needs and resizes it, row by row, to u8 [side, side, 3]: the part at full
// size is never in memory as a whole (of JPEG; others need `spare`). DataError as decode().
void decode_resized(const Source&, PickCrop, Image& spare, std::vector<std::uint8_t>& scratch,
                    Place);
// The whole picture in the size that `shrunk` makes of its own, row by row: at full size it is in
// memory only if it keeps that.
Image decode_shrunk(const Source&, FunctionRef<ImageSize(ImageSize)> shrunk, Image& spare);
// For who resizes elsewhere: `out` becomes the pixels that the crop needs, as they are, row below
// row. Where that would be more than `most` bytes it becomes the crop itself, resized and mirrored
// here: false.
bool decode_needed(const Source&, PickCrop, std::size_t most, Image& spare,
                   std::vector<std::uint8_t>& scratch, std::vector<std::uint8_t>& out);

}  // namespace gossamer::data
