// What is done to the pictures of a batch: crop, flip and steps; and one picture for inference.
// Threads: any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// The crop. none: resize the shorter side, then the centre (evaluation).
enum class Augment { none, pad_crop_flip, resized_crop_flip };

// What is done to each image: its crop (and flip), then the steps in their order. All draw from one
// generator, the image's own.
struct Recipe {
  Augment augment = Augment::none;
  int size = 32, resize = 32;
  int pad = 4;             // pad_crop_flip: pixels around the picture
  float min_area = 0.08f;  // resized_crop_flip: smallest part of the picture's area
  Shrink filter = Shrink::bilinear;
  std::vector<PixelStep> steps{};
  // of one image
  std::size_t bytes() const {
    return static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3;
  }
};

// One image for inference: shorter side to `resize`, centre crop: u8 [1, crop, crop, 3]. DataError
// names the file.
Tensor read_image(const std::string& path, int resize, int crop, Shrink = Shrink::bilinear);
Tensor read_image(std::span<const std::byte>, const std::string& name, int resize, int crop,
                  Shrink = Shrink::bilinear);

}  // namespace gossamer::data
