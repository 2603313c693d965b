// What is done to the pictures of a batch: crop, flip and steps; and one picture for inference.
// Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// --- steps after the crop, which change pixels at random

// The largest change of each, in random order (torchvision's ColorJitter): factors from 1 - v (not
// below 0) to 1 + v; hue from -v to v.
struct ColourJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
// `ops` operations out of 14, each with the same magnitude, 0 to 30 (Cubuk et al. 2019;
// torchvision's ranges).
struct RandAugment {
  int ops = 2, magnitude = 9;
  Filter filter = Filter::nearest;
};
// One operation out of 14 with a random magnitude from wide ranges (Müller and Hutter 2021).
struct TrivialAugmentWide {
  Filter filter = Filter::nearest;
};
// With this probability a rectangle of min_area to max_area of the picture, aspect 0.3 to 3.3,
// becomes `fill` (Zhong et al. 2017).
struct RandomErasing {
  double probability = 0.25, min_area = 0.02, max_area = 0.33;
  // the mean of ImageNet: it becomes 0 when normalised, as in torchvision's recipes
  std::array<std::uint8_t, 3> fill{124, 116, 104};
};
using PixelStep = std::variant<ColourJitter, RandAugment, TrivialAugmentWide, RandomErasing>;

// "colour-jitter:BRIGHTNESS:CONTRAST:SATURATION:HUE" (or "color-jitter"),
// "rand-augment:OPS:MAGNITUDE" (or "randaugment"), "trivial-augment-wide",
// "random-erasing:PROBABILITY". The last numbers may be left out; the two policies accept
// ":bilinear" at the end. ConfigError says what is wrong.
PixelStep parse_pixel_step(const std::string& text);
// ConfigError if a value is out of its range
void check_step(const PixelStep&);

// --- recipes

// The crop. none: resize the shorter side, then the centre (evaluation).
enum class Augment { none, pad_crop_flip, resized_crop_flip };

// A crop as texts say it.
struct CropChoice {
  Augment augment = Augment::none;
  int pad = -1;                               // pad_crop_flip: pixels; below 0: not said
  bool reflect = false, alternating = false;  // as in Recipe and LoaderOptions
};
// "none", "pad-crop-flip:PIXELS:reflect:alternating", "resized-crop-flip:alternating"; what is
// behind the names may be left out. ConfigError.
CropChoice parse_crop(const std::string& text);

// What is done to each image: its crop (and flip), then the steps in their order. All draw from one
// generator, the image's own.
struct Recipe {
  Augment augment = Augment::none;
  int size = 32, resize = 32;
  int pad = 4;             // pad_crop_flip: pixels around the picture
  float min_area = 0.08f;  // resized_crop_flip: smallest part of the picture's area
  Shrink filter = Shrink::bilinear;
  std::vector<PixelStep> steps{};
  bool reflect = false;  // pad_crop_flip: the picture mirrored at its edge comes in, not black
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
