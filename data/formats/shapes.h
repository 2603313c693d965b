// shapes10: the default data set, drawn by this program. 10 classes of shapes and textures over
// clutter, real JPEG files of 64x64 in an ImageNet-style folder (train/CLASS/NAME.jpg,
// val/CLASS/NAME.jpg). The same bytes for the same seed on the same libjpeg-turbo.
#pragma once

#include <filesystem>

#include "gossamer/data/codec/image.h"

namespace gossamer::data {

struct ShapesOptions {
  int train = 8192, val = 2048, size = 64;
  std::uint64_t seed = 0;
  int threads = 2;
};
const std::vector<std::string>& shape_classes();  // ten names, sorted
Image draw_shape(int label, int size, std::uint64_t seed, std::uint64_t index);
// Writes the set. IoError if the folder can't be written, DataError if it holds something else. A
// complete set with the same options is kept (a stamp file says which options it has).
void make_shapes(const std::filesystem::path&, const ShapesOptions& = {});

}  // namespace gossamer::data
