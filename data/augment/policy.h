// How the steps of a recipe (augment.h) change a picture's pixels. Each is a pure function of
// pixels and generator.
// Threads: any, on different pixels and generators.
#pragma once

#include <cstdint>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/pixels.h"

namespace gossamer::data {

// One step on one picture. The generator is the picture's own; scratch is memory to reuse.
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
