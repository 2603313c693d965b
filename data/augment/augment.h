// From the bytes of one sample to size x size pixels: what a loader thread does for each image.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/loader/loader.h"
#include "gossamer/data/augment/policy.h"

namespace gossamer::data {

struct Scratch {                                   // one per thread, reused for every image
  std::vector<std::byte> file;
  Image image;
  std::vector<std::uint8_t> rows, square;
};

// What is done to each image: its crop (and flip), then the steps in their order. All draw from one generator, the image's own.
struct Recipe {
  Augment augment = Augment::none;
  int size = 32, resize = 32, pad = 4;
  float min_area = 0.08f;
  std::vector<PixelStep> steps{};
  std::shared_ptr<JpegDevice> jpegs{};             // decodes what it can; null: the CPU does
  std::size_t bytes() const { return static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3; }      // of one image
};

// dst: u8 [size, size, 3]. raw.height > 0: bytes are pixels of that size, else an encoded image. DataError: damaged.
void prepare(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name, const Recipe&, Rng&, Scratch&, std::uint8_t* dst);

// Shorter side to `resize`, then the centre: where the crop lies in the resized picture (torchvision's rounding).
struct CentreCrop { int width, height, x, y; };    // of the resized picture; corner of the crop
CentreCrop centre_crop(ImageSize, int resize, int crop);

}  // namespace gossamer::data
