// How the pixels of a picture become the input of a model.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/core/tensor.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

// A model file stores these (models/model_file.h).
struct Pictures {
  // evaluation: side; shorter side before the centre crop
  int size = 32, resize = 32;
  int train_size = 32;                           // largest side in training
  data::Shrink filter = data::Shrink::bilinear;  // of every resize
  std::array<float, 3> mean{}, std{};
  DType dtype = DType::f32;
  Device device{};  // where the model computes
  // images: u8 [N, size, size, 3] on any device. Returns them normalized, on `device`.
  Tensor operator()(const Tensor& images) const;
  // its images, or what its boxes are cropped and resized to
  Tensor operator()(const data::Batch&) const;
};
// The program's pictures have three channels; a program in C may have trained a model for others.
// ConfigError.
std::array<float, 3> of_rgb(const std::vector<float>&);
// The shorter side before the crop for pictures of another size, in the same proportion.
int resize_for(const Pictures&, int size);
Pictures pictures(const Config&);
data::Shrink shrink_of(const std::string& name);  // bilinear | area, as data.filter

}  // namespace gossamer::apps
