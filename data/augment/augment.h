// From the bytes of one sample to size x size pixels: what a loader thread does for each image.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/input_pass.h"
#include "gossamer/core/random.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/codec/resize.h"
#include "gossamer/data/loader/loader.h"

namespace gossamer::data {

struct Scratch {  // one per thread, reused for every image
  std::vector<std::byte> file;
  Image image;
  // within the resize; a copy that a step reads; an image before it goes to its place
  std::vector<std::uint8_t> rows, square, made;
};

// What is done to each image: its crop (and flip), then the steps in their order. All draw from one
// generator, the image's own.
struct Recipe {
  Augment augment = Augment::none;
  int size = 32, resize = 32, pad = 4;
  float min_area = 0.08f;
  Shrink filter = Shrink::bilinear;
  std::vector<PixelStep> steps{};
  // of one image
  std::size_t bytes() const {
    return static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3;
  }
};

// To u8 [size, size, 3]. raw.height > 0: bytes are pixels of that size, else an encoded image.
// DataError: damaged; then `place` was not asked.
void prepare(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name,
             const Recipe&, Rng&, Scratch&, Place);

// For who resizes elsewhere (input_pass): which part of a picture of this size the recipe
// takes, and what becomes of it; prepare() takes the same from the same generator. Not for
// pad_crop_flip, nor for recipes with steps, which need the resized pixels.
Crop crop_of(const Recipe&, ImageSize whole, Rng&);
// `out` becomes the pixels that the crop needs, as they are; where those are more than `most`
// bytes, the crop, made here. The Picture says what is left to do, its offset counted from out's
// first byte.
Picture prepare_box(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name,
                    const Recipe&, Rng&, Scratch&, std::size_t most,
                    std::vector<std::uint8_t>& out);

// Shorter side to `resize`, then the centre: where the crop lies in the resized picture
// (torchvision's rounding).
struct CentreCrop {
  int width, height, x, y;
};  // of the resized picture; corner of the crop
CentreCrop centre_crop(ImageSize, int resize, int crop);

}  // namespace gossamer::data
