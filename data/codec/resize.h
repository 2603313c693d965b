// Resizing: any window of the resized picture, from the rows that it needs.
// Threads: any for functions; one at a time for a Resizer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gossamer/data/codec/image.h"
#include "gossamer/data/codec/image_reader.h"

namespace gossamer::data {

// One axis: output i is the weighted sum of inputs first[i] … first[i] + count[i] - 1, weights in
// 22-bit fixed point.
struct Axis {
  int taps = 0;
  int shrinks = 0;  // pixels that the whole becomes shorter by; negative: it grows
  std::vector<int> first, count;
  std::vector<std::int32_t> weights;  // taps for each output
  int begin() const { return std::min(first.front(), first.back()); }
  int end() const { return std::max(first.front() + count.front(), first.back() + count.back()); }
};
// Outputs begin … begin + outputs - 1 of `in` pixels resized to `out`. mirrored: in reverse order,
// so that a flip costs nothing.
Axis make_axis(int in, int out, int begin, int outputs, bool mirrored = false,
               Shrink = Shrink::bilinear);

// Which code resizes: with the widest vector instructions that this CPU has, or, to compare them,
// narrower ones or plain C++. The bytes are the same. `fastest` keeps to the limit of
// core/cpu/kernel_sets.h. ConfigError for instructions that this CPU does not have.
enum class ResizePasses { fastest, avx512, avx2, neon, plain };
std::vector<ResizePasses> resize_passes();  // that this CPU can run, the best first
ResizePasses fastest_passes();              // what `fastest` is now

// What is wanted of a picture: its box `from` is resized to width x height, and of that the square
// from (x, y) on is taken, mirrored or not.
struct Crop {
  Box from;
  int width = 0, height = 0, x = 0, y = 0, side = 0;
  bool mirrored = false;
  Shrink filter = Shrink::bilinear;
  Axis horizontal() const { return make_axis(from.width, width, x, side, mirrored, filter); }
  Axis vertical() const { return make_axis(from.height, height, y, side, false, filter); }
  // the part of the picture that it depends on
  Box needed() const;
};

class ResizeKernel;  // resize_passes.h

// Resizes from rows that come in from above, so that what is resized need not be in memory as a
// whole. Each pass rounds to 8 bits, so their order shows: it is Pillow's (from 13.0 on), vertical
// first if the height shrinks by more than twice as many pixels as the width. start() may be called
// again for the next picture: memory is reused.
class Resizer {
 public:
  explicit Resizer(ResizePasses = ResizePasses::fastest);
  ~Resizer();
  Resizer(const Resizer&) = delete;
  Resizer& operator=(const Resizer&) = delete;

  // The rows of crop.needed() will be added.
  void start(const Crop& crop);
  // A window of a resized picture: rows vertical.begin() to vertical.end() - 1 will be added, their
  // first pixel being column src_x of the picture.
  void start(Axis horizontal, Axis vertical, int src_x);
  void add(const Rows&);
  // When all rows are there: u8 [outputs of vertical, outputs of horizontal, 3].
  void finish(std::uint8_t* dst);

 private:
  std::unique_ptr<ResizeKernel> kernel_;
  void squeeze(const Rows&);
  Axis horizontal_, vertical_;
  bool vertical_first_ = false;
  std::size_t row_ = 0, stride_ = 0;   // bytes of a row after the horizontal pass
  std::vector<std::uint8_t> between_;  // the rows after the horizontal pass
  std::uint8_t* at_ = nullptr;         // where the next one goes

  // vertical_first_: rows top_ to next_ - 1 of the picture, as far as rows of the result still need
  // them; the first done_ rows of the result are in squeezed_, at full width
  std::size_t width_ = 0, left_ = 0,
              window_stride_ = 0;  // bytes of a row that are needed, from left_
  int top_ = 0, next_ = 0;
  std::size_t done_ = 0;
  std::vector<std::uint8_t> window_, squeezed_;
};

// Box `from` of a picture to width x height, separable and antialiased. dst: u8 [height, width, 3].
// ShapeError if the box lies outside.
void resize(const Image& src, Box from, int width, int height, std::uint8_t* dst,
            Shrink = Shrink::bilinear);

// Output window of resizing `from` to a width x height picture. horizontal and vertical are made by
// make_axis for that window; src holds at least the pixels they need, its first pixel being (src_x,
// src_y) counted from the corner of `from`.
void resize_window(const Image& src, int src_x, int src_y, const Axis& horizontal,
                   const Axis& vertical, std::uint8_t* dst, ResizePasses = ResizePasses::fastest);

// The whole picture that a reader has opened, in another size. DataError as ImageReader.
Image read_resized(ImageReader&, ImageSize);

}  // namespace gossamer::data
