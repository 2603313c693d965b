// What a picture format implements: image_reader.h opens the right one and checks the box.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "gossamer/data/codec/image_reader.h"

namespace gossamer::data {

// See ImageReader, whose calls are passed on: open(), start(), then next() until it returns false.
class FormatReader {
 public:
  virtual ~FormatReader() = default;
  virtual ImageSize open(std::span<const std::byte>, const std::string& name) = 0;
  virtual void start(Box) = 0;
  virtual bool next(Rows&) = 0;
};

std::unique_ptr<FormatReader> jpeg_reader(JpegHuffman);  // jpeg.cpp; may be opened again
std::unique_ptr<FormatReader> png_reader();              // png.cpp
std::unique_ptr<FormatReader> gif_reader();              // gif.cpp
std::unique_ptr<FormatReader> bmp_reader();              // bmp.cpp

}  // namespace gossamer::data
