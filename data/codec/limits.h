// What a picture may cost: limits that are checked before memory is asked for and work is begun.
#pragma once

#include <cstddef>
#include <string>

#include "gossamer/core/dtype.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// Above these a picture is refused: a file of 1 KB may claim 65,500 x 65,500.
constexpr int kMaxSide = 30'000;
constexpr i64 kMaxPixels = 100'000'000;
// What a decoder may hold at once. Baseline JPEG and plain PNG are read by rows and need little;
// progressive JPEG and interlaced PNG are held whole. With the file itself (kMaxEncoded) it stays
// below 256 MB.
constexpr i64 kMaxMemory = i64{176} << 20;
// What decoding may cost, in about nanoseconds of a 3 GHz Zen 4. It is estimated before decoding
// begins, from the header and the file's length alone, so that the same files are refused on every
// machine. The weights (jpeg.cpp, png.cpp) are those of the worst files that could be made.
constexpr i64 kMaxWork = 1'500'000'000;

// DataError outside the limits above
void check_size(ImageSize, const std::string& name);
// DataError above kMaxMemory
void check_memory(ImageSize, int bytes_per_pixel, const std::string& name, const char* what);
// DataError above kMaxWork; file: its bytes
void check_work(i64 work, ImageSize, std::size_t file, const std::string& name, const char* what);
// ShapeError unless the box lies inside the picture
void check_box(Box, ImageSize, const std::string& name);

}  // namespace gossamer::data
