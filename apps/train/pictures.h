// How the pixels of a picture become the input of a model.
#pragma once

#include <array>
#include <string>

#include "gossamer/apps/config.h"
#include "gossamer/core/tensor.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

// Channel statistics of CIFAR-10 and ImageNet as everyone uses them.
struct Channels {
  std::array<float, 3> mean, std;
};
inline constexpr Channels kCifar{{0.4914f, 0.4822f, 0.4465f}, {0.2023f, 0.1994f, 0.2010f}},
    kImageNet{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

// A model file stores these (model_file.h).
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
// The shorter side before the crop for pictures of another size, in the same proportion.
int resize_for(const Pictures&, int size);
Pictures pictures(const Config&);
data::Shrink shrink_of(const std::string& name);  // bilinear | area, as data.filter

}  // namespace gossamer::apps
