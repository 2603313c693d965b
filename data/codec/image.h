// Decoding and resizing of single images. Untrusted bytes: every return value is checked, sizes are
// capped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gossamer::data {

struct Image {  // u8 [height, width, 3], RGB
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
};

struct ImageSize {
  int width = 0, height = 0;
};

// How pictures shrink. bilinear: Pillow's antialiased BILINEAR, a triangle as wide as two pixels of
// the result. area: the mean of what a pixel of the result covers, shares of pixels included
// (OpenCV's INTER_AREA); sharper, and where a picture grows the same as bilinear.
enum class Shrink { bilinear, area };

ImageSize probe(std::span<const std::byte>, const std::string& name);  // from the header only

// Content decides, not the name: JPEG (gray and CMYK converted to RGB, EXIF orientation and ICC
// ignored as torchvision does), PNG, others through stb_image. DataError names the image and the
// defect; a JPEG that ends early is a defect too.
Image decode(std::span<const std::byte>, const std::string& name);
// Decodes the whole and keeps nothing of it but the size. DataError as decode().
ImageSize verify(std::span<const std::byte>, const std::string& name);
// Only `box` of the image (JPEG: only those lines and columns are decoded; equals cropping the
// whole picture).
Image decode_box(std::span<const std::byte>, const std::string& name, Box);

}  // namespace gossamer::data
