// Random changes of a picture's pixels: the steps of a recipe after crop and flip. Each is a pure
// function of pixels and generator.
// Threads: any, on different pixels and generators.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/data/augment/pixels.h"

namespace gossamer::data {

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
void apply(const PixelStep&, Pixels, Rng&, std::vector<std::uint8_t>& scratch);

// --- the 14 operations of both policies, for tests and golden values.
enum class PolicyOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  colour,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};
constexpr int kPolicyOps = 14, kMagnitudes = 31;
struct Strength {
  double value;
  bool either_sign;  // the sign is drawn
};
Strength rand_augment_strength(PolicyOp, int magnitude, int height, int width);
Strength trivial_augment_strength(PolicyOp, int magnitude);
void apply(PolicyOp, double value, Pixels, Filter, std::vector<std::uint8_t>& scratch);

}  // namespace gossamer::data
