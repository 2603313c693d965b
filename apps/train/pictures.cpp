// See pictures.h.
#include "gossamer/apps/train/pictures.h"

#include <algorithm>

#include "gossamer/apps/train/devices.h"
#include "gossamer/core/error.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"

namespace gossamer::apps {

data::Shrink shrink_of(const std::string& name) {
  return name == "area" ? data::Shrink::area : data::Shrink::bilinear;
}

std::array<float, 3> of_rgb(const std::vector<float>& channels) {
  check<ConfigError>(channels.size() == 3, "the model is for images of ", channels.size(),
                     " channels; `gossamer` reads pictures of 3, and a program in C gives others "
                     "to gsm_model_forward");
  return {channels[0], channels[1], channels[2]};
}

Tensor Pictures::operator()(const Tensor& images) const {
  return normalize(images.to(device), mean, std, dtype);
}

Tensor Pictures::operator()(const data::Batch& batch) const {
  if (batch.images.defined()) return (*this)(batch.images);
  const i64 n = batch.count(), side = batch.size;
  Tensor out = Tensor::empty({n, side, side, 3}, dtype, device);
  input_pass(batch.bytes.to(device), batch.pictures.to(device), mean, std, out);
  return out;
}

int resize_for(const Pictures& p, int size) { return std::max(size, p.resize * size / p.size); }

Pictures pictures(const Config& c) {
  Pictures p;
  p.train_size = static_cast<int>(c.data.size.value_or(models::info(c.model.name).image_size));
  p.size = static_cast<int>(c.data.eval_size.value_or(p.train_size));
  check<ConfigError>(std::ranges::all_of(c.data.sizes, [&](i64 s) { return s <= p.train_size; }),
                     "data.sizes holds a side above data.size = ", p.train_size);
  p.resize = static_cast<int>(c.data.resize.value_or(usual_resize(p.size)));
  check<ConfigError>(p.resize >= p.size, "data.resize = ", p.resize, " is smaller than ",
                     c.data.eval_size ? "data.eval_size" : "data.size", " = ", p.size);
  const models::Preprocessing usual =
      models::usual_preprocessing(p.size <= 64 ? "resnet8-cifar" : "resnet50");
  p.mean = of_rgb(usual.mean);
  p.std = of_rgb(usual.std);
  for (std::size_t i = 0; i < c.data.mean.size(); ++i)
    p.mean[i] = static_cast<float>(c.data.mean[i]);
  for (std::size_t i = 0; i < c.data.std.size(); ++i) p.std[i] = static_cast<float>(c.data.std[i]);
  p.filter = shrink_of(c.data.filter);
  p.dtype = compute_type(c.train.dtype);
  return p;
}

}  // namespace gossamer::apps
