// Writing JPEG: made data sets, packed shards, tests.
#pragma once

#include <cstddef>
#include <vector>

#include "gossamer/data/codec/image.h"

namespace gossamer::data {

struct JpegOptions {
  int quality = 85;
  int h = 2, v = 2;                             // chroma subsampling
  bool progressive = false, optimised = false;  // optimised: Huffman tables of its own
  // a restart marker after so many MCUs, so that decoding can begin there; 0: none
  int restart = 0;
};
// ShapeError if a side is not 1 to kMaxSide pixels.
std::vector<std::byte> encode_jpeg(const Image&, JpegOptions = {});

}  // namespace gossamer::data
