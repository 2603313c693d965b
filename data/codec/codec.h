// The formats behind image.h: what the loader uses to decode a part of a picture into memory that
// is used again and again.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// Above these a picture is refused before memory is asked for: a file of 1 KB may claim 65,500 x
// 65,500.
constexpr int kMaxSide = 30'000;
constexpr i64 kMaxPixels = 100'000'000;
// What a decoder may hold at once. Baseline JPEG and plain PNG are read by rows and need little;
// progressive JPEG and interlaced PNG are held whole, GIF several times. With the file itself
// (kMaxEncoded) it stays below 256 MB.
constexpr i64 kMaxMemory = i64{176} << 20;
// What decoding may cost, in about nanoseconds of a 3 GHz Zen 4: estimated before it begins, from
// the header and the file's length alone, so that what is refused doesn't depend on the machine.
// The weights (jpeg.cpp, png.cpp) are of the worst files that could be made.
constexpr i64 kMaxWork = 1'500'000'000;

// Told the size of the whole picture, answers which part is wanted. It must lie inside.
using PickBox = FunctionRef<Box(ImageSize)>;

// Rows of RGB pixels below each other, `stride` bytes apart; `end`: behind the last byte that may
// be read.
struct Rows {
  const std::uint8_t* first;
  std::size_t stride;
  int count;
  const std::uint8_t* end;
};
// Which Huffman decoder: ours where it can be used, or always libjpeg's (for comparing).
enum class JpegStages { ours, library };
// Given the rows of a part from above, some at a time.
using RowSink = FunctionRef<void(const Rows&)>;

// Decodes the picked part row by row, as far as the format can (JPEG, PNG); `spare` is memory for
// the others. Returns the size of the whole picture. DataError as decode(), perhaps when rows have
// been given already.
ImageSize decode_rows(std::span<const std::byte>, const std::string& name, PickBox, RowSink,
                      Image& spare, JpegStages = JpegStages::ours);
// Decodes the picked part into `out` (whose memory is reused) and returns the size of the whole
// picture. DataError as decode().
ImageSize decode_part(std::span<const std::byte>, const std::string& name, PickBox, Image& out,
                      JpegStages = JpegStages::ours);

ImageSize decode_jpeg_rows(std::span<const std::byte>, const std::string& name, PickBox, RowSink,
                           JpegStages);
ImageSize decode_png_rows(std::span<const std::byte>, const std::string& name, PickBox, RowSink);
// BMP, GIF by stb_image
ImageSize decode_other(std::span<const std::byte>, const std::string& name, PickBox, Image& out);
// For measuring: the entropy decoding of a whole file by libjpeg, and the entropy decoding that a
// part of it costs here.
void read_coefficients(std::span<const std::byte>, const std::string& name);
void skim_jpeg(std::span<const std::byte>, const std::string& name, PickBox);
ImageSize probe_jpeg(std::span<const std::byte>, const std::string& name);
ImageSize probe_png(std::span<const std::byte>, const std::string& name);
ImageSize probe_other(std::span<const std::byte>, const std::string& name);

// DataError outside the limits above
void check_size(ImageSize, const std::string& name);
// DataError above kMaxMemory
void check_memory(ImageSize, int bytes_per_pixel, const std::string& name, const char* what);
// DataError above kMaxWork; file: its bytes
void check_work(i64 work, ImageSize, std::size_t file, const std::string& name, const char* what);
// ShapeError unless inside
void check_box(Box, ImageSize, const std::string& name);
void copy_box(const std::uint8_t* pixels, ImageSize, Box, Image& out);  // from a whole picture

struct JpegOptions {
  int quality = 85;
  int h = 2, v = 2;                             // chroma subsampling
  bool progressive = false, optimised = false;  // optimised: Huffman tables of its own
  // a restart marker after so many MCUs, so that decoding can begin there; 0: none
  int restart = 0;
};
std::vector<std::byte> encode_jpeg(const Image&, JpegOptions = {});

}  // namespace gossamer::data
