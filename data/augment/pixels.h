// Changes of a picture's pixels, in place: colour operations (colour.cpp) and affine warps
// (warp.cpp), as torchvision's PIL backend applies them, bit for bit as Pillow 9.4
// (tests/data/augment_golden_test.cpp). Random choices are made in policy.h.
// Threads: any, on different pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "gossamer/data/codec/image.h"

namespace gossamer::data {

struct Pixels {  // u8 [height, width, 3], RGB, without gaps
  std::uint8_t* data = nullptr;
  int height = 0, width = 0;
  std::size_t bytes() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3;
  }
};

// --- colour. A factor of 1 changes nothing; 0 is black, gray, flat or smoothed; above 1 goes the
// other way, clipped.
void brightness(Pixels, double factor);
void saturation(Pixels, double factor);  // Pillow's ImageEnhance.Color
void contrast(Pixels, double factor);
void sharpness(Pixels, double factor, std::vector<std::uint8_t>& scratch);
void hue(Pixels, double shift);           // of a full turn, -0.5 to 0.5
void posterize(Pixels, int bits);         // keeps the upper 0 to 8 bits
void solarize(Pixels, double threshold);  // inverts values that are not below it; 0: all
void autocontrast(Pixels);
void equalize(Pixels);

// --- warps about the picture's centre (shears: about its corner). Uncovered pixels become black.
// counter-clockwise
void rotate(Pixels, double degrees, Filter, std::vector<std::uint8_t>& scratch);
void shear_x(Pixels, double slope, Filter, std::vector<std::uint8_t>& scratch);
void shear_y(Pixels, double slope, Filter, std::vector<std::uint8_t>& scratch);
void translate(Pixels, int right, int down);

}  // namespace gossamer::data
