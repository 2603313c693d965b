// Decoding of single images. The bytes are not trusted: every return value is checked and sizes are
// limited.
// Threads: any.
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
// the result. area: the mean of the area that a pixel of the result covers, parts of pixels
// included (OpenCV's INTER_AREA); it is sharper, and the same as bilinear if the picture grows.
enum class Shrink { bilinear, area };
// How a warp (rotation, shear) reads between the pixels.
enum class Filter { nearest, bilinear };

// Reads the header only. DataError as decode().
ImageSize probe(std::span<const std::byte>, const std::string& name);

// The content decides the format, not the name: JPEG (gray and CMYK become RGB; EXIF orientation
// and ICC profiles are ignored, as in torchvision), PNG, BMP, GIF. DataError names the image and
// the defect; a file that ends early is damaged.
Image decode(std::span<const std::byte>, const std::string& name);
// Decodes the whole picture, keeps nothing of it and returns its size. DataError as decode().
ImageSize verify(std::span<const std::byte>, const std::string& name);
// A part of the image; equals cropping the whole. Of a JPEG only this part is decoded. ShapeError
// if the box lies outside.
Image decode_box(std::span<const std::byte>, const std::string& name, Box);

}  // namespace gossamer::data
