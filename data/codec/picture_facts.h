// What the file of a picture says about it, without decoding: format, colours, and what is unusual.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gossamer::data {

enum class Format { other, jpeg, png, gif, bmp };

struct PictureFacts {
  Format format = Format::other;  // by the first bytes
  int width = 0, height = 0;      // JPEG and PNG; 0: not found
  int components = 0;             // JPEG: 1 gray, 3 colour, 4 CMYK or YCCK. PNG: channels
  int bits = 8;                   // of a sample
  bool progressive = false;
  // EXIF; 1: as stored. It is reported but not applied, as in torchvision's transforms.
  int orientation = 1;
};

// Reads markers and lengths as far as they make sense; never throws.
PictureFacts picture_facts(std::span<const std::byte>);

// What is unusual about a picture, each in a word or two: "CMYK", "gray", "PNG named JPEG",
// "16-bit", "EXIF-rotated", "progressive", "huge" (above 25 megapixels), "tiny" (a side below 32
// pixels).
std::vector<std::string> oddities(const PictureFacts&, const std::string& name);

}  // namespace gossamer::data
