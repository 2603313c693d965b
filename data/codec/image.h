// Decoding and resizing of single images. Untrusted bytes: every return value is checked, sizes are
// capped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/core/tensor.h"

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

// Separable and antialiased. dst: u8 [height, width, 3].
void resize(const Image& src, Box from, int width, int height, std::uint8_t* dst,
            Shrink = Shrink::bilinear);

// Inception-style crop: area in [min_area, 1] of the image, aspect in [3/4, 4/3]; ten tries, then
// the centre (torchvision).
Box random_resized_crop(ImageSize, Rng&, float min_area = 0.08f);
// One image for inference: shorter side to `resize`, centre crop: u8 [1, crop, crop, 3].
Tensor read_image(const std::string& path, int resize, int crop, Shrink = Shrink::bilinear);

}  // namespace gossamer::data
